//! Sort keys as MongoDB computes them: the smallest key of a document under the whole pattern, where an
//! array stands for each of its elements (the server's `SortKeyGenerator` over `BtreeKeyGenerator`).
//!
//! Missing fields sort as null, an empty array as undefined, which is before null. Paths of one pattern may
//! share an array, then they see one element at a time; two different arrays are an error. The filter has
//! no part in it (since server 3.6).

use std::cmp::Ordering;
use std::hash::BuildHasherDefault;

use bson::raw::cstr;
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};
use siphasher::sip::SipHasher13;

use super::build::{array_as_document, empty};
use super::compare::compare;
use super::order_key::digest;
use super::path::{Path, elements, field};

/// One way to sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

impl Direction {
    /// An ascending order, seen in this direction.
    #[must_use]
    pub fn apply(self, order: Ordering) -> Ordering {
        match self {
            Direction::Ascending => order,
            Direction::Descending => order.reverse(),
        }
    }
}

/// A sort pattern: paths in their order, each with its direction.
pub type Pattern = [(Path, Direction)];

/// Why a document has no sort key; the server refuses the whole query then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SortError {
    /// Two paths run through different arrays.
    #[error("cannot sort by parallel arrays")]
    ParallelArrays,
    /// A numeric component is both an index of an array and a field of a document in it.
    #[error("a numeric path component is ambiguous in an array of documents")]
    AmbiguousIndex,
}

/// The sort key: one value per path.
///
/// # Errors
/// See [`SortError`].
pub fn sort_key<'a>(
    document: &'a RawDocument,
    pattern: &Pattern,
) -> Result<Vec<RawBsonRef<'a>>, SortError> {
    let plain: Option<Vec<_>> = pattern
        .iter()
        .map(|(path, _)| plain(document, path))
        .collect();
    if let Some(key) = plain {
        return Ok(key);
    }
    let mut expansion = Expansion {
        pattern,
        smallest: None,
    };
    let tracks = pattern.iter().map(|(path, _)| Track::new(path)).collect();
    expansion.expand(tracks, document)?;
    Ok(expansion.smallest.unwrap_or_default())
}

/// The one value that the document sorts by under a single path.
///
/// # Errors
/// See [`SortError`].
pub fn extract<'a>(
    document: &'a RawDocument,
    path: &Path,
    direction: Direction,
) -> Result<RawBsonRef<'a>, SortError> {
    if let Some(value) = plain(document, path) {
        return Ok(value);
    }
    let key = sort_key(document, &[(path.clone(), direction)])?;
    Ok(key.first().copied().unwrap_or(RawBsonRef::Null))
}

/// The order of two keys of one pattern.
#[must_use]
pub fn compare_keys(a: &[RawBsonRef<'_>], b: &[RawBsonRef<'_>], pattern: &Pattern) -> Ordering {
    let pairs = a.iter().zip(b).zip(pattern);
    for ((a, b), (_, direction)) in pairs {
        let order = direction.apply(compare(*a, *b));
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// The longest key that is kept, in bytes.
const KEY_BYTES_MAX: usize = 1_024;

/// A sort key to keep: a document of the values, without names.
#[derive(Clone, PartialEq)]
pub struct SortKey(Box<[u8]>);

impl SortKey {
    /// Keeps a key; `None`: it is too long.
    #[must_use]
    pub fn of(values: &[RawBsonRef<'_>]) -> Option<SortKey> {
        let mut kept = RawDocumentBuf::new();
        for value in values {
            kept.append(cstr!(""), *value);
            if kept.as_bytes().len() > KEY_BYTES_MAX {
                return None;
            }
        }
        Some(SortKey(kept.as_bytes().into()))
    }

    /// What it takes to keep.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.first().is_none_or(|length| *length <= 5)
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> Vec<RawBsonRef<'_>> {
        self.iter().collect()
    }

    /// The order of this key and another one of the same pattern.
    #[must_use]
    pub fn compare(&self, other: &[RawBsonRef<'_>], pattern: &Pattern) -> Ordering {
        for ((a, b), (_, direction)) in self.iter().zip(other).zip(pattern) {
            let order = direction.apply(compare(a, *b));
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }

    fn iter(&self) -> impl Iterator<Item = RawBsonRef<'_>> {
        let values = RawDocument::from_bytes(&self.0).ok();
        let elements = values.into_iter().flat_map(RawDocument::iter_elements);
        elements.map_while(|element| element.and_then(|element| element.value()).ok())
    }
}

/// What a key is known by where only its equal is looked for. (Two keys that share a digest are taken for one.)
#[must_use]
pub fn digest_of_key(values: &[RawBsonRef<'_>]) -> u64 {
    let state = BuildHasherDefault::<SipHasher13>::default();
    let digests = values.iter().map(|value| digest(*value, &state));
    digests.fold(0, |all: u64, one| {
        all.rotate_left(21).wrapping_mul(31) ^ one
    })
}

impl std::fmt::Debug for SortKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The value where no array is met; `None` where one is.
fn plain<'a>(document: &'a RawDocument, path: &Path) -> Option<RawBsonRef<'a>> {
    let mut at = RawBsonRef::Document(document);
    for name in path.names() {
        at = match at {
            RawBsonRef::Document(document) => field(document, name).unwrap_or(RawBsonRef::Null),
            RawBsonRef::Array(_) => return None,
            _ => return Some(RawBsonRef::Null),
        };
    }
    (!matches!(at, RawBsonRef::Array(_))).then_some(at)
}

/// How far one path of the pattern has come.
#[derive(Clone)]
struct Track<'a, 'p> {
    rest: Vec<(&'p str, Option<usize>)>,
    value: RawBsonRef<'a>,
    selected: Option<Selected<'a, 'p>>,
}

/// The element of the surrounding array that the path's next component is the index of.
#[derive(Clone)]
struct Selected<'a, 'p> {
    /// Whether the element is an array itself: those are not expanded.
    array: bool,
    reached: Option<RawBsonRef<'a>>,
    rest: Vec<(&'p str, Option<usize>)>,
}

impl<'p> Track<'_, 'p> {
    fn is_done_or_selected(&self) -> bool {
        self.rest.is_empty() || self.selected.is_some()
    }

    fn new(path: &'p Path) -> Self {
        Track {
            // Reversed: the next component is the last.
            rest: path
                .components()
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect(),
            value: RawBsonRef::Null,
            selected: None,
        }
    }
}

struct Expansion<'a, 'p> {
    pattern: &'p Pattern,
    smallest: Option<Vec<RawBsonRef<'a>>>,
}

impl<'a, 'p> Expansion<'a, 'p> {
    /// Follows every path up to the next array, which all of them must share, and then goes on in each of its
    /// elements. Recursion goes one level per array.
    fn expand(
        &mut self,
        mut tracks: Vec<Track<'a, 'p>>,
        document: &'a RawDocument,
    ) -> Result<(), SortError> {
        let mut array: Option<&'a RawArray> = None;
        let mut through = Vec::new();
        let mut expand_elements = true;
        for (at, track) in tracks.iter_mut().enumerate() {
            if track.rest.is_empty() {
                continue;
            }
            let (value, nested) = next(track, document)?;
            if track.rest.is_empty() && nested {
                expand_elements = false;
            }
            match value {
                Some(RawBsonRef::Array(found)) => {
                    let same = array.is_none_or(|a| std::ptr::eq(a, found));
                    if !same {
                        return Err(SortError::ParallelArrays);
                    }
                    array = Some(found);
                    through.push(at);
                }
                Some(value) => track.value = value,
                None => {
                    track.value = RawBsonRef::Null;
                    track.rest.clear();
                }
            }
        }
        let Some(array) = array else {
            self.offer(tracks.iter().map(|track| track.value).collect());
            return Ok(());
        };
        let whole = (!expand_elements).then_some(RawBsonRef::Array(array));
        if array.is_empty() {
            return self.element(tracks, &through, RawBsonRef::Undefined, None);
        }
        for track in &mut tracks {
            track.selected = select(track, array_as_document(array));
        }
        if tracks.iter().all(Track::is_done_or_selected)
            && through.iter().all(|at| tracks[*at].selected.is_some())
        {
            return self.indexed(tracks, array);
        }
        for value in elements(array) {
            self.element(tracks.clone(), &through, value, whole)?;
        }
        Ok(())
    }

    /// Every path goes on at an index of the array: all elements give the same key, so one is enough. (Going
    /// through all of them would be as much work as the lengths of nested arrays multiplied.)
    fn indexed(
        &mut self,
        tracks: Vec<Track<'a, 'p>>,
        array: &'a RawArray,
    ) -> Result<(), SortError> {
        let ambiguous = |document: &RawDocument| {
            let mut names = tracks.iter().filter_map(|track| track.rest.last());
            names.any(|(name, _)| field(document, name).is_some())
        };
        if elements(array)
            .filter_map(RawBsonRef::as_document)
            .any(ambiguous)
        {
            return Err(SortError::AmbiguousIndex);
        }
        self.expand(tracks, empty())
    }

    /// One element of the array that the paths `through` run into or end at.
    fn element(
        &mut self,
        mut tracks: Vec<Track<'a, 'p>>,
        through: &[usize],
        element: RawBsonRef<'a>,
        whole: Option<RawBsonRef<'a>>,
    ) -> Result<(), SortError> {
        for at in through {
            if tracks[*at].rest.is_empty() {
                tracks[*at].value = whole.unwrap_or(element);
            }
        }
        self.expand(tracks, element.as_document().unwrap_or_else(|| empty()))
    }

    fn offer(&mut self, key: Vec<RawBsonRef<'a>>) {
        let smaller = self
            .smallest
            .as_ref()
            .is_none_or(|best| compare_keys(&key, best, self.pattern) == Ordering::Less);
        if smaller {
            self.smallest = Some(key);
        }
    }
}

/// The next value of a path in `document`, and whether it is an array taken by index out of an array.
fn next<'a>(
    track: &mut Track<'a, '_>,
    document: &'a RawDocument,
) -> Result<(Option<RawBsonRef<'a>>, bool), SortError> {
    let own = track
        .rest
        .last()
        .is_some_and(|(name, _)| field(document, name).is_some());
    match track.selected.take() {
        Some(_) if own => Err(SortError::AmbiguousIndex),
        Some(selected) => {
            track.rest = selected.rest;
            Ok((selected.reached, selected.array))
        }
        None => Ok((follow(document, &mut track.rest), false)),
    }
}

/// If the path's next component is an index of the array: where the rest of the path leads from there.
fn select<'a, 'p>(track: &Track<'a, 'p>, array: &'a RawDocument) -> Option<Selected<'a, 'p>> {
    let (name, index) = track.rest.last()?;
    index.as_ref()?;
    let element = field(array, name)?;
    let mut rest = track.rest.clone();
    let reached = follow(array, &mut rest);
    Some(Selected {
        array: matches!(element, RawBsonRef::Array(_)),
        reached,
        rest,
    })
}

/// Follows a path through documents, up to its end or to an array.
fn follow<'a>(
    document: &'a RawDocument,
    rest: &mut Vec<(&str, Option<usize>)>,
) -> Option<RawBsonRef<'a>> {
    let mut document = document;
    loop {
        let (name, _) = rest.pop()?;
        match field(document, name)? {
            RawBsonRef::Document(inner) if !rest.is_empty() => document = inner,
            value @ RawBsonRef::Array(_) => return Some(value),
            value if rest.is_empty() => return Some(value),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ejson::parse_document;
    use super::*;

    fn up(path: &str) -> (Path, Direction) {
        (Path::new(path), Direction::Ascending)
    }

    #[test]
    fn an_array_stands_for_its_smallest_or_largest_element() {
        let document =
            parse_document(br#"{"a":[3,1,2],"e":[],"b":[{"c":5},{"c":[9,4]},7]}"#).unwrap();
        for (path, direction, key) in [
            ("a", Direction::Ascending, RawBsonRef::Int32(1)),
            ("a", Direction::Descending, RawBsonRef::Int32(3)),
            ("e", Direction::Ascending, RawBsonRef::Undefined),
            ("x.y", Direction::Ascending, RawBsonRef::Null),
            ("b.c", Direction::Ascending, RawBsonRef::Null),
            ("b.c", Direction::Descending, RawBsonRef::Int32(9)),
            ("a.1", Direction::Ascending, RawBsonRef::Int32(1)),
        ] {
            assert_eq!(
                extract(&document, &Path::new(path), direction),
                Ok(key),
                "{path}"
            );
        }
        let parallel = sort_key(&document, &[up("a"), up("b.c")]);
        assert_eq!(parallel, Err(SortError::ParallelArrays));
    }

    #[test]
    fn indexes_into_nested_arrays_do_not_multiply() {
        // Thirty levels of a hundred elements each.
        let ones = "1,".repeat(99);
        let text = (0..30).fold("1".to_owned(), |inner, _| format!("[{inner},{ones}1]"));
        let document = parse_document(format!("{{\"a\":{text}}}").as_bytes()).unwrap();
        let path = format!("a{}", ".0".repeat(30));
        assert_eq!(
            sort_key(&document, &[up(&path)]),
            Ok(vec![RawBsonRef::Int32(1)])
        );
    }
}
