//! Documents of ten fields of a hundred bytes, and the queries over them: a third equalities on one of many values, a
//! third ranges, a third compound; half of them sorted with a limit.
//!
//! How many queries one write matches does not depend on how many there are: the more queries, the more values, the
//! narrower the ranges.

use bson::raw::CString;
use bson::{RawBson, RawDocument, RawDocumentBuf, Regex, rawdoc};
use freshet_core::key::Key;
use freshet_core::query::{Filter, Projection, Sort};
use freshet_core::value::sort::{SortKey, digest_of_key, sort_key};
use freshet_invalidation::matcher::{End, Watch, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(crate) const FIELDS: usize = 10;
pub(crate) const FIELD_BYTES: usize = 100;
/// Numbers that texts begin with.
const NUMBERS: u64 = 1_000_000_000;
/// Of this many queries the figures are told: equality on one of 10,000 values, ranges of 0.1 %.
const REFERENCE_QUERIES: u64 = 100_000;
const REFERENCE_VALUES: u64 = 10_000;
/// The share of what a sorted query matches that its window shows.
const WINDOW: f64 = 0.2;

/// Makes documents and queries.
pub(crate) struct Workload {
    random: StdRng,
    values: u64,
    width: u64,
}

/// A query, and what its answer shows.
pub(crate) struct Asked {
    pub(crate) key: Key,
    pub(crate) watch: Watch,
    pub(crate) window: Window,
}

impl Workload {
    /// For so many queries.
    pub(crate) fn new(seed: u64, queries: u64) -> Workload {
        Workload {
            random: StdRng::seed_from_u64(seed),
            values: (REFERENCE_VALUES * queries / REFERENCE_QUERIES).max(1),
            width: (NUMBERS / 1_000 * REFERENCE_QUERIES / queries).max(1),
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.random_range(0..end)
    }

    /// field0 and field1 hold one of some values, the others begin with a number; the rest is filled up.
    pub(crate) fn document(&mut self, id: i64) -> RawDocumentBuf {
        let mut document = rawdoc! {"_id": id};
        for field in 0..FIELDS {
            let text = self.text(field);
            document.append(name(field), text);
        }
        document
    }

    fn text(&mut self, field: usize) -> String {
        match field {
            0 | 1 => value(self.below(self.values)),
            _ => padded(&number(self.below(NUMBERS))),
        }
    }

    /// The document after an update of one field.
    pub(crate) fn updated(&mut self, document: &RawDocument) -> RawDocumentBuf {
        let changed = self.random.random_range(0..FIELDS);
        let text = self.text(changed);
        let mut after = RawDocumentBuf::new();
        for (index, element) in document.iter_elements().enumerate() {
            let Ok(element) = element else { break };
            let Ok(old) = element.value() else { break };
            match index == changed + 1 {
                true => after.append(element.key(), text.as_str()),
                false => after.append(element.key(), old),
            }
        }
        after
    }

    /// The next query of the mix.
    pub(crate) fn query(&mut self, index: u64) -> Asked {
        let filter = match index % 3 {
            0 => rawdoc! {"field0": value(self.below(self.values))},
            1 => self.range("field2"),
            _ => self.compound(index / 3),
        };
        let sorted = index.is_multiple_of(2);
        self.asked(&filter, sorted)
    }

    fn range(&mut self, field: &str) -> RawDocumentBuf {
        let low = self.below(NUMBERS - self.width);
        let between = rawdoc! {"$gte": number(low), "$lt": number(low + self.width)};
        let mut filter = RawDocumentBuf::new();
        filter.append(cstring(field), between);
        filter
    }

    fn compound(&mut self, index: u64) -> RawDocumentBuf {
        match index % 4 {
            0 => {
                let low = self.below(NUMBERS / 2);
                rawdoc! {
                    "field1": value(self.below(self.values)),
                    "field3": {"$gte": number(low), "$lt": number(low + NUMBERS / 2)},
                }
            }
            1 => {
                let members: Vec<String> = (0..3).map(|_| value(self.below(self.values))).collect();
                rawdoc! {"field1": {"$in": bson::RawArrayBuf::from_iter(members)}}
            }
            2 => {
                // As narrow as a range: one digit more for each factor of ten.
                let digits = (NUMBERS / self.width).ilog10() as usize;
                let prefix = number(self.below(NUMBERS))[..digits].to_owned();
                let mut filter = RawDocumentBuf::new();
                let pattern = format!("^{prefix}");
                filter.append(cstring("field4"), expression(&pattern));
                filter
            }
            _ => rawdoc! {"$or": [
                {"field1": value(self.below(self.values))},
                self.range("field5"),
            ]},
        }
    }

    fn asked(&mut self, filter: &RawDocumentBuf, sorted: bool) -> Asked {
        let filter = parse(filter);
        let key = Key::from(format!(
            "/v1/bench/records?filter={}",
            filter.canonical_text()
        ));
        let (sort, window) = match sorted {
            true => (Sort::parse("field9").unwrap_or_default(), self.window()),
            false => (Sort::default(), Window::default()),
        };
        let watch = Watch::records(filter, sort, Projection::default(), false);
        Asked { key, watch, window }
    }

    /// Shows the first by field9; more follows.
    fn window(&mut self) -> Window {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let end = (NUMBERS as f64 * WINDOW) as u64;
        let pattern = Sort::parse("field9").unwrap_or_default().pattern();
        let place = |id: i64, n: u64| {
            let document = rawdoc! {"_id": id, "field9": padded(&number(n))};
            SortKey::of(&sort_key(&document, &pattern).ok()?)
        };
        let end = place(1, end).map(|last| End {
            last,
            beyond: [2, 3].map(|id| place(id, end + 1).map(|key| digest_of_key(&key.values()))),
        });
        Window {
            end,
            ..Window::default()
        }
    }

    /// A query that no index helps with. Each has conditions of its own.
    pub(crate) fn residual(&mut self, index: u64) -> Asked {
        let letters = |random: &mut StdRng, n: usize| -> String {
            (0..n)
                .map(|_| char::from(b'a' + random.random_range(0..26_u8)))
                .collect()
        };
        let filter = match index % 3 {
            0 => {
                let (a, b) = (letters(&mut self.random, 2), letters(&mut self.random, 2));
                let pattern = match index % 2 {
                    0 => format!("{a}{b}"),
                    _ => format!("{a}.*{b}"),
                };
                let mut filter = RawDocumentBuf::new();
                filter.append(cstring("field6"), expression(&pattern));
                filter
            }
            1 => rawdoc! {"$nor": [
                {"field7": padded(&number(self.below(NUMBERS)))},
                {"field8": {"$gt": number(self.below(NUMBERS))}},
            ]},
            _ => {
                let divisor = 1_000 + i64::try_from(index).unwrap_or(0);
                let remainder = i64::try_from(self.below(1_000)).unwrap_or(0);
                rawdoc! {"_id": {"$mod": [divisor, remainder]}}
            }
        };
        self.asked(&filter, false)
    }
}

/// The filter a document is.
pub(crate) fn parse(filter: &RawDocument) -> Filter {
    Filter::parse(filter).unwrap_or_else(|error| panic!("a filter of the workload: {error}"))
}

fn value(n: u64) -> String {
    padded(&format!("value-{n:09}-"))
}

fn number(n: u64) -> String {
    format!("{n:09}")
}

/// Filled up to its length with letters that depend on it, as texts do.
fn padded(start: &str) -> String {
    let mut text = start.to_owned();
    let mut state = start.bytes().fold(7_u32, |state, b| {
        state.wrapping_mul(31).wrapping_add(u32::from(b))
    });
    while text.len() < FIELD_BYTES {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push(char::from(
            b'a' + u8::try_from(state >> 24).unwrap_or(0) % 26,
        ));
    }
    text
}

fn expression(pattern: &str) -> RawBson {
    RawBson::RegularExpression(Regex {
        pattern: cstring(pattern),
        options: cstring(""),
    })
}

fn name(field: usize) -> CString {
    cstring(&format!("field{field}"))
}

fn cstring(text: &str) -> CString {
    CString::try_from(text).unwrap_or_else(|error| panic!("a name of the workload: {error}"))
}
