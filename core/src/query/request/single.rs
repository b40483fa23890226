//! Requests with an answer of one item: a count, a record.

use super::{Rep, each_once, filter, filter_text, joined, projection, some, spell};
use crate::key::Key;
use crate::name::Namespace;
use crate::query::{Filter, Projection, QueryError};
use crate::value::id::RecordId;

/// A count of the documents of one collection that match.
#[derive(Clone, Debug, PartialEq)]
pub struct CountQuery {
    /// Of which collection.
    pub namespace: Namespace,
    /// Which documents.
    pub filter: Filter,
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRequest {
    /// Of which collection.
    pub namespace: Namespace,
    /// Which.
    pub id: RecordId,
    /// Which fields of it.
    pub projection: Projection,
    /// In which dialect.
    pub rep: Rep,
}

impl CountQuery {
    /// Reads a count's parameters, percent-decoded.
    ///
    /// # Errors
    /// The first parameter that breaks a rule.
    pub fn parse(
        namespace: &Namespace,
        parameters: &[(String, String)],
    ) -> Result<CountQuery, QueryError> {
        let mut count = CountQuery {
            namespace: namespace.clone(),
            filter: Filter::all(),
        };
        each_once(parameters, |name, text| {
            let known = name == "filter";
            if known {
                count.filter = filter(text)?;
            }
            Ok(known)
        })?;
        Ok(count)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> Key {
        let path = format!("{}/_count", self.namespace.path());
        joined(path, &spell(&[("filter", filter_text(&self.filter))]))
    }
}

impl RecordRequest {
    /// Reads a record's parameters, percent-decoded.
    ///
    /// # Errors
    /// The first parameter that breaks a rule.
    pub fn parse(
        namespace: &Namespace,
        id: RecordId,
        parameters: &[(String, String)],
    ) -> Result<RecordRequest, QueryError> {
        let mut record = RecordRequest {
            namespace: namespace.clone(),
            id,
            projection: Projection::default(),
            rep: Rep::default(),
        };
        each_once(parameters, |name, text| {
            match name {
                "fields" => record.projection = projection(text)?,
                "rep" => record.rep = Rep::parse(text)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(record)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> Key {
        let path = format!("{}/{}", self.namespace.path(), self.id.segment());
        joined(
            path,
            &spell(&[
                ("fields", some(self.projection.text())),
                ("rep", self.rep.text()),
            ]),
        )
    }
}
