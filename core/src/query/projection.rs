//! Which fields of a document an answer shows: `fields=name,address.city` or `fields=-secret,-blob`.
//! The result is that of MongoDB 4.4 and later, order of fields included.
//! <https://www.mongodb.com/docs/manual/reference/operator/aggregation/project/>

use std::collections::BTreeMap;

use bson::raw::{CStr, CString};
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::PROJECTION_PATHS_MAX;
use super::parameter::{PathError, check_path, split_signed};

/// A projection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// With their signs, sorted by path; empty shows everything.
    paths: BTreeMap<Box<str>, bool>,
    kind: Kind,
    tree: Tree,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// What is named is hidden.
    #[default]
    Exclude,
    /// What is named is shown.
    Include,
}

/// The named paths, component by component. A node without children is named itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tree(BTreeMap<Box<str>, Tree>);

/// Why a `fields` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectionError {
    /// Not a path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A path twice, or one within another.
    #[error("a path is named twice, or lies within another")]
    Overlap,
    /// Fields to show and fields to hide.
    #[error("fields are either shown or hidden (but for -_id among shown ones)")]
    Mixed,
    /// A path within `_id`.
    #[error("_id is shown or hidden as a whole")]
    WithinId,
    /// More paths than [`PROJECTION_PATHS_MAX`].
    #[error("more than {PROJECTION_PATHS_MAX} paths")]
    TooMany,
}

impl Projection {
    /// Reads the parameter's text.
    ///
    /// # Errors
    /// The first rule it breaks.
    pub fn parse(text: &str) -> Result<Projection, ProjectionError> {
        let (mut paths, mut id) = (BTreeMap::new(), None);
        for part in text.split(',') {
            let (hide, path) = split_signed(part);
            check_path(path)?;
            if path.starts_with("_id.") {
                return Err(ProjectionError::WithinId);
            }
            let earlier = if path == "_id" {
                id.replace(!hide)
            } else {
                paths.insert(path.into(), !hide)
            };
            if earlier.is_some() {
                return Err(ProjectionError::Overlap);
            }
            if paths.len() > PROJECTION_PATHS_MAX {
                return Err(ProjectionError::TooMany);
            }
        }
        Projection::of(paths, id)
    }

    fn of(
        mut paths: BTreeMap<Box<str>, bool>,
        id: Option<bool>,
    ) -> Result<Projection, ProjectionError> {
        let kind = match (paths.values().next(), id) {
            (Some(true), _) | (None, Some(true)) => Kind::Include,
            _ => Kind::Exclude,
        };
        if paths.values().any(|show| *show != (kind == Kind::Include)) {
            return Err(ProjectionError::Mixed);
        }
        // `_id` is shown unless it is hidden: to show it says nothing, except when nothing else is named.
        match id {
            Some(true) if !paths.is_empty() => {}
            Some(show) => drop(paths.insert("_id".into(), show)),
            None => {}
        }
        let mut tree = Tree::default();
        let shown_id = kind == Kind::Include && id != Some(false);
        let named = paths
            .keys()
            .filter(|path| kind == Kind::Exclude || &***path != "_id");
        for path in named.map(|path| &**path).chain(shown_id.then_some("_id")) {
            tree.add(path)?;
        }
        Ok(Projection { paths, kind, tree })
    }

    /// Whether everything is shown.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.paths.is_empty()
    }

    /// The named paths and whether each is shown (`true`) or hidden, sorted by path.
    pub fn paths(&self) -> impl Iterator<Item = (&str, bool)> {
        self.paths.iter().map(|(path, show)| (&**path, *show))
    }

    /// The canonical text; empty for the default.
    #[must_use]
    pub fn text(&self) -> String {
        let signed = |(path, show): (&str, bool)| match show {
            true => path.to_owned(),
            false => format!("-{path}"),
        };
        self.paths().map(signed).collect::<Vec<_>>().join(",")
    }

    /// This projection with `_id` besides: what to ask of the database, since cursors and references need the
    /// id. Applying `self` to what it shows gives what `self` alone would show.
    #[must_use]
    pub fn with_id(&self) -> Projection {
        let mut shown = self.clone();
        if shown.paths.get("_id") == Some(&false) {
            shown.paths.remove("_id");
            match shown.kind {
                Kind::Include => drop(shown.tree.0.insert("_id".into(), Tree::default())),
                Kind::Exclude => drop(shown.tree.0.remove("_id")),
            }
        }
        shown
    }

    /// The document the database is given.
    #[must_use]
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        for (path, show) in self.paths() {
            // A checked path holds no U+0000.
            if let Ok(name) = CString::try_from(path) {
                document.append(name, i32::from(show));
            }
        }
        document
    }

    /// What the answer shows of a document.
    ///
    /// # Errors
    /// The document is not valid BSON.
    pub fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf, bson::error::Error> {
        if self.is_all() {
            return Ok(document.to_owned());
        }
        self.document(document, &self.tree)
    }

    fn document(
        &self,
        document: &RawDocument,
        tree: &Tree,
    ) -> Result<RawDocumentBuf, bson::error::Error> {
        let mut shown = RawDocumentBuf::new();
        for element in document.iter() {
            let (name, value) = element?;
            self.field(&mut shown, name, value, tree)?;
        }
        Ok(shown)
    }

    fn field(
        &self,
        shown: &mut RawDocumentBuf,
        name: &CStr,
        value: RawBsonRef<'_>,
        tree: &Tree,
    ) -> Result<(), bson::error::Error> {
        match (tree.0.get(name.as_str()), self.kind) {
            (None, Kind::Exclude) => shown.append(name, value),
            (None, Kind::Include) => {}
            (Some(node), kind) if node.0.is_empty() => {
                if kind == Kind::Include {
                    shown.append(name, value);
                }
            }
            (Some(node), _) => {
                if let Some(value) = self.value(value, node)? {
                    shown.append(name, value);
                }
            }
        }
        Ok(())
    }

    /// A value on the way to a named path: documents are projected, arrays element by element at any
    /// depth; any other value has no such path in it.
    fn value(
        &self,
        value: RawBsonRef<'_>,
        node: &Tree,
    ) -> Result<Option<RawBson>, bson::error::Error> {
        Ok(match value {
            RawBsonRef::Document(inner) => Some(RawBson::Document(self.document(inner, node)?)),
            RawBsonRef::Array(inner) => Some(RawBson::Array(self.array(inner, node)?)),
            other if self.kind == Kind::Exclude => Some(other.into()),
            _ => None,
        })
    }

    fn array(&self, array: &RawArray, node: &Tree) -> Result<RawArrayBuf, bson::error::Error> {
        let mut shown = RawArrayBuf::new();
        for member in array {
            if let Some(member) = self.value(member?, node)? {
                shown.push(member);
            }
        }
        Ok(shown)
    }
}

impl Tree {
    fn add(&mut self, path: &str) -> Result<(), ProjectionError> {
        let mut node = self;
        let mut existed = false;
        for component in path.split('.') {
            // A node that was there and has no children was named itself: this path lies within it.
            if existed && node.0.is_empty() {
                return Err(ProjectionError::Overlap);
            }
            existed = node.0.contains_key(component);
            node = node.0.entry(component.into()).or_default();
        }
        // A node that was there at the end of the path was named, or has a named path within.
        match existed {
            true => Err(ProjectionError::Overlap),
            false => Ok(()),
        }
    }
}
