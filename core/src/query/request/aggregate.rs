//! An aggregation: a pipeline over one collection.

use super::{Rep, each_once, joined, spell};
use crate::aggregate::Pipeline;
use crate::key::Key;
use crate::name::Namespace;
use crate::query::{QueryError, QueryErrorKind};
use crate::value::ejson;

/// A pipeline over the documents of one collection.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateQuery {
    /// Of which collection.
    pub namespace: Namespace,
    /// What is made of its documents.
    pub pipeline: Pipeline,
    /// In which dialect.
    pub rep: Rep,
}

impl AggregateQuery {
    /// Reads an aggregation's parameters, percent-decoded.
    ///
    /// # Errors
    /// The first parameter that breaks a rule, or that `pipeline` is missing.
    pub fn parse(
        namespace: &Namespace,
        parameters: &[(String, String)],
    ) -> Result<AggregateQuery, QueryError> {
        let (mut read, mut rep) = (None, Rep::default());
        each_once(parameters, |name, text| {
            match name {
                "pipeline" => read = Some(pipeline(text)?),
                "rep" => rep = Rep::parse(text)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let Some(pipeline) = read else {
            let detail = "an aggregation needs its pipeline, an array of stages";
            let kind = QueryErrorKind::MissingParameter;
            return Err(QueryError::new(kind, "pipeline", detail));
        };
        Ok(AggregateQuery {
            namespace: namespace.clone(),
            pipeline,
            rep,
        })
    }

    /// The key. (With a `$match` that only the database can decide it names no cached resource.)
    #[must_use]
    pub fn key(&self) -> Key {
        let path = format!("{}/_aggregate", self.namespace.path());
        let pipeline = Some(self.pipeline.canonical_text());
        joined(
            path,
            &spell(&[("pipeline", pipeline), ("rep", self.rep.text())]),
        )
    }
}

fn pipeline(text: &str) -> Result<Pipeline, QueryError> {
    let value = ejson::parse_value(text.as_bytes()).map_err(|error| QueryError {
        kind: QueryErrorKind::Json,
        detail: error.detail.to_string(),
        parameter: "pipeline".into(),
        pointer: error.pointer,
    })?;
    let bson::RawBson::Array(array) = value else {
        let detail = "a pipeline is an array of stages";
        return Err(QueryError::new(QueryErrorKind::Json, "pipeline", detail));
    };
    Pipeline::parse(&array).map_err(|error| QueryError {
        kind: QueryErrorKind::Pipeline(error.kind),
        detail: error.detail,
        parameter: "pipeline".into(),
        pointer: error.pointer,
    })
}
