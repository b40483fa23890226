//! Requests: what the parameters of a URL ask for, and the key each request has (`docs/canonical-form.md`).
//! Parameters come in percent-decoded; an unknown or repeated one is an error, never a guess.

mod aggregate;
mod single;
mod words;

use bson::RawDocument;

pub use aggregate::AggregateQuery;
pub use single::{CountQuery, RecordRequest};
pub use words::{Rep, View};

use super::cursor::{self, Cursor};
use super::parameter::integer;
use super::sort::Direction;
use super::{
    Filter, LIMIT_DEFAULT, LIMIT_MAX, Projection, QueryError, QueryErrorKind, SKIP_MAX, Sort,
};
use crate::key::{Key, encode_query_value};
use crate::name::Namespace;
use crate::value::ejson;

/// A query of one collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Of which collection.
    pub namespace: Namespace,
    /// Which documents.
    pub filter: Filter,
    /// In which order.
    pub sort: Sort,
    /// How many to leave out first.
    pub skip: u32,
    /// How many at most.
    pub limit: u32,
    /// Which fields of them.
    pub projection: Projection,
    /// As what.
    pub view: View,
    /// In which dialect.
    pub rep: Rep,
    /// From where: the place that an earlier page ended at.
    pub after: Option<Cursor>,
}

impl Query {
    /// Every document of a collection, up to the default limit.
    #[must_use]
    pub fn all(namespace: Namespace) -> Query {
        Query {
            namespace,
            filter: Filter::all(),
            sort: Sort::default(),
            skip: 0,
            limit: LIMIT_DEFAULT,
            projection: Projection::default(),
            view: View::default(),
            rep: Rep::default(),
            after: None,
        }
    }

    /// Reads a query's parameters, percent-decoded.
    ///
    /// # Errors
    /// The first parameter that breaks a rule.
    pub fn parse(
        namespace: &Namespace,
        parameters: &[(String, String)],
    ) -> Result<Query, QueryError> {
        let mut query = Query::all(namespace.clone());
        each_once(parameters, |name, text| {
            match name {
                "filter" => query.filter = filter(text)?,
                "sort" => query.sort = sort(text)?,
                "skip" => query.skip = integer(name, text, 0, SKIP_MAX)?,
                "limit" => query.limit = integer(name, text, 1, LIMIT_MAX)?,
                "fields" => query.projection = projection(text)?,
                "view" => query.view = View::parse(text)?,
                "rep" => query.rep = Rep::parse(text)?,
                "after" => query.after = Some(Cursor::parse(text).map_err(|e| not_a_cursor(&e))?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        // The order may be read after the cursor: only now can they be held against one another.
        match (&query.after, query.by_id()) {
            (Some(Cursor::Id(_)), None) | (Some(Cursor::Offset(_)), Some(_)) => {
                Err(not_a_cursor(&cursor::CursorError))
            }
            _ => Ok(query),
        }
    }

    /// The key: canonical path and query string. (With a filter that only the database can decide it names
    /// no cached resource.)
    #[must_use]
    pub fn key(&self) -> Key {
        joined(self.namespace.path(), &self.canonical_query_string())
    }

    /// The canonical query string, without `?`; empty when everything has its default.
    #[must_use]
    pub fn canonical_query_string(&self) -> String {
        let after = self.after.as_ref().map(Cursor::text);
        let limit = (self.limit != LIMIT_DEFAULT).then(|| self.limit.to_string());
        // A cursor says where the page begins: `skip` was for the first page.
        let skip = (self.skip != 0 && after.is_none()).then(|| self.skip.to_string());
        spell(&[
            ("after", after),
            ("fields", some(self.projection.text())),
            ("filter", filter_text(&self.filter)),
            ("limit", limit),
            ("rep", self.rep.text()),
            ("skip", skip),
            ("sort", some(self.sort.text())),
            ("view", self.view.text()),
        ])
    }

    /// The filter of this page: the query's own, and what says that a document comes after the cursor.
    #[must_use]
    pub fn effective_filter(&self) -> Filter {
        match (&self.after, self.by_id()) {
            (Some(Cursor::Id(id)), Some(direction)) => {
                self.filter.and(cursor::after(id, direction))
            }
            _ => self.filter.clone(),
        }
    }

    /// How many documents of the effective filter to leave out first.
    #[must_use]
    pub fn effective_skip(&self) -> u32 {
        match self.after {
            None => self.skip,
            Some(Cursor::Id(_)) => 0,
            Some(Cursor::Offset(count)) => count,
        }
    }

    /// The cursor of the page after this one, which answered `returned` documents, the last of them `last`
    /// (as stored, before projection).
    #[must_use]
    pub fn next(&self, last: &RawDocument, returned: u32) -> Option<Cursor> {
        match self.by_id() {
            Some(_) => Cursor::after_id(last),
            None => {
                let before = self.effective_skip().checked_add(returned)?;
                (before <= cursor::OFFSET_MAX).then_some(Cursor::Offset(before))
            }
        }
    }

    /// Whether pages are told apart by id. Filters for the database alone are not combined with others.
    fn by_id(&self) -> Option<Direction> {
        self.sort
            .id_only()
            .filter(|_| self.filter.database_only().is_none())
    }
}

/// Hands each parameter to `read`, which answers whether it knows it.
fn each_once(
    parameters: &[(String, String)],
    mut read: impl FnMut(&str, &str) -> Result<bool, QueryError>,
) -> Result<(), QueryError> {
    for (index, (name, text)) in parameters.iter().enumerate() {
        if parameters[..index]
            .iter()
            .any(|(earlier, _)| earlier == name)
        {
            let detail = "a parameter is given once";
            return Err(QueryError::new(
                QueryErrorKind::RepeatedParameter,
                &shown(name),
                detail,
            ));
        }
        if !read(name, text)? {
            let detail = "no such parameter here";
            return Err(QueryError::new(
                QueryErrorKind::UnknownParameter,
                &shown(name),
                detail,
            ));
        }
    }
    Ok(())
}

/// As much of a request's own name as an error repeats.
fn shown(name: &str) -> String {
    name.chars().take(40).collect()
}

fn filter(text: &str) -> Result<Filter, QueryError> {
    let document = ejson::parse_document(text.as_bytes()).map_err(|error| QueryError {
        kind: QueryErrorKind::Json,
        detail: error.detail.to_string(),
        parameter: "filter".into(),
        pointer: error.pointer,
    })?;
    Filter::parse(&document).map_err(|error| QueryError {
        kind: QueryErrorKind::Filter(error.kind),
        detail: error.detail,
        parameter: "filter".into(),
        pointer: error.pointer,
    })
}

fn sort(text: &str) -> Result<Sort, QueryError> {
    Sort::parse(text).map_err(|e| QueryError::new(QueryErrorKind::Paths, "sort", e.to_string()))
}

fn projection(text: &str) -> Result<Projection, QueryError> {
    Projection::parse(text)
        .map_err(|e| QueryError::new(QueryErrorKind::Paths, "fields", e.to_string()))
}

fn not_a_cursor(error: &cursor::CursorError) -> QueryError {
    QueryError::new(QueryErrorKind::Cursor, "after", error.to_string())
}

fn filter_text(filter: &Filter) -> Option<String> {
    (!filter.is_all()).then(|| filter.canonical_text())
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn spell(parameters: &[(&str, Option<String>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| {
        let value = value.as_ref()?;
        Some(format!("{name}={}", encode_query_value(value)))
    });
    given.collect::<Vec<_>>().join("&")
}

fn joined(path: String, query: &str) -> Key {
    match query {
        "" => Key::from(path),
        query => Key::from(format!("{path}?{query}")),
    }
}
