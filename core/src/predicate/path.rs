//! The values at a dotted path, as MongoDB's matcher sees them: the path goes through arrays of documents
//! on the way (every element) and by position (a numeric component); an array at its end is offered element by
//! element and then whole. A missing value is offered as `None`.
//!
//! Two facts that surprise: where the path reaches an array of which no element is a document, nothing is
//! offered at all, not even `None`; and a numeric component is both a field of the elements and a position, so one
//! element may be asked twice.

use bson::{RawArray, RawBsonRef, RawDocument};

/// A compiled path.
#[derive(Clone, Debug)]
pub(super) struct Path(Box<[Component]>);

#[derive(Clone, Debug)]
struct Component {
    name: Box<str>,
    /// Only digits: may be a position in an array.
    digits: bool,
}

/// The bytes are not valid BSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Malformed;

impl From<bson::error::Error> for Malformed {
    fn from(_: bson::error::Error) -> Malformed {
        Malformed
    }
}

/// What is offered of an array at the path's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    /// Its elements, then the array.
    Elements,
    /// The array alone.
    Whole,
}

type Visit<'v> = &'v mut dyn FnMut(Option<RawBsonRef<'_>>) -> Result<bool, Malformed>;

impl Path {
    /// Compiles a dotted path.
    pub(super) fn new(path: &str) -> Path {
        let component = |name: &str| Component {
            name: name.into(),
            digits: !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()),
        };
        Path(path.split('.').map(component).collect())
    }

    /// Whether `visit` answers true for some value at the path.
    pub(super) fn any(
        &self,
        document: &RawDocument,
        leaf: Leaf,
        visit: Visit<'_>,
    ) -> Result<bool, Malformed> {
        walk(document, &self.0, leaf, visit)
    }
}

fn walk(
    document: &RawDocument,
    components: &[Component],
    leaf: Leaf,
    visit: Visit<'_>,
) -> Result<bool, Malformed> {
    let mut document = document;
    for (index, component) in components.iter().enumerate() {
        let last = index + 1 == components.len();
        match document.get(&*component.name)? {
            Some(RawBsonRef::Array(array)) => {
                return elements(array, &components[index + 1..], leaf, visit);
            }
            Some(RawBsonRef::Document(inner)) if !last => document = inner,
            value if last => return visit(value),
            _ => return visit(None),
        }
    }
    Ok(false)
}

/// Goes through an array with what is left of the path.
fn elements(
    array: &RawArray,
    rest: &[Component],
    leaf: Leaf,
    visit: Visit<'_>,
) -> Result<bool, Malformed> {
    // An empty last component (`a.`) is no component once an array has been reached.
    let Some(next) = rest
        .first()
        .filter(|next| rest.len() > 1 || !next.name.is_empty())
    else {
        return ends_here(array, leaf, visit);
    };
    for element in array.iter_elements() {
        let element = element?;
        let position = next.digits && element.key().as_str() == &*next.name;
        let value = match element.value()? {
            RawBsonRef::Document(document) => {
                if walk(document, rest, leaf, visit)? {
                    return Ok(true);
                }
                RawBsonRef::Document(document)
            }
            value => value,
        };
        if position && at_position(value, &rest[1..], leaf, visit)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn ends_here(array: &RawArray, leaf: Leaf, visit: Visit<'_>) -> Result<bool, Malformed> {
    if leaf == Leaf::Elements {
        for element in array {
            if visit(Some(element?))? {
                return Ok(true);
            }
        }
    }
    visit(Some(RawBsonRef::Array(array)))
}

/// The element at the position that a numeric component named.
fn at_position(
    value: RawBsonRef<'_>,
    rest: &[Component],
    leaf: Leaf,
    visit: Visit<'_>,
) -> Result<bool, Malformed> {
    match value {
        value if rest.is_empty() => visit(Some(value)),
        RawBsonRef::Document(document) => walk(document, rest, leaf, visit),
        RawBsonRef::Array(array) => elements(array, rest, leaf, visit),
        _ => Ok(false),
    }
}
