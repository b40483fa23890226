//! Aggregations: the pipeline runs in `freshet_core::aggregate::evaluate`, over scans of one snapshot. The
//! scans of its own collection and those of joined ones each look at no more records than one query may.

use std::cell::Cell;

use bson::{RawDocument, RawDocumentBuf};
use freshet_core::aggregate::Plan;
use freshet_core::aggregate::evaluate::{self, Collections, Failure};
use freshet_core::name::Namespace;
use freshet_core::query::Filter;
use redb::ReadableTable;

use super::super::port::StoreError;
use super::compile::Compiled;
use super::query::Limits;

/// The answer of a pipeline.
pub(super) fn run<T: ReadableTable<&'static [u8], &'static [u8]>>(
    namespace: &Namespace,
    plan: &Plan,
    documents: &T,
    limits: Limits,
) -> Result<Vec<RawDocumentBuf>, StoreError> {
    let scans = Scans {
        namespace,
        documents,
        left: Cell::new(limits.scanned_records_max),
    };
    evaluate::run(plan, &scans).map_err(|ended| match ended {
        Ended::Store(error) => error,
        Ended::Pipeline(Failure::Invalid(what)) => StoreError::BadRequest(what),
        Ended::Pipeline(failure @ Failure::Undecided(_)) => {
            StoreError::Unsupported(failure.to_string())
        }
        Ended::Pipeline(failure) => StoreError::BadRequest(failure.to_string()),
    })
}

/// Why there is no answer.
enum Ended {
    Store(StoreError),
    Pipeline(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        Ended::Pipeline(failure)
    }
}

struct Scans<'a, T> {
    namespace: &'a Namespace,
    documents: &'a T,
    /// Records that may still be looked at.
    left: Cell<u64>,
}

impl<T: ReadableTable<&'static [u8], &'static [u8]>> Collections for Scans<'_, T> {
    type Error = Ended;

    fn scan(
        &self,
        collection: Option<&str>,
        filter: &Filter,
        visit: &mut dyn FnMut(&RawDocument) -> Result<bool, Ended>,
    ) -> Result<(), Ended> {
        let other = collection.map(|name| Namespace::new(self.namespace.db(), name));
        let namespace = match &other {
            None => self.namespace,
            Some(Ok(other)) => other,
            Some(Err(error)) => {
                return Err(Ended::Store(StoreError::BadRequest(error.to_string())));
            }
        };
        let query = Compiled::matching(namespace, &filter.to_document()).map_err(Ended::Store)?;
        let limits = Limits {
            scanned_records_max: self.left.get(),
        };
        let mut ended = None;
        let scanned = query.scan(self.documents, limits, false, |_, document| {
            match visit(document) {
                Ok(more) => Ok(more),
                Err(reason) => {
                    ended = Some(reason);
                    Ok(false)
                }
            }
        });
        if let Some(reason) = ended {
            return Err(reason);
        }
        let scanned = scanned.map_err(Ended::Store)?;
        self.left.set(self.left.get().saturating_sub(scanned));
        Ok(())
    }

    fn in_id_order(&self) -> Result<bool, Ended> {
        let all = Compiled::matching(self.namespace, &Filter::all().to_document());
        let others = all.and_then(|all| all.has_others(self.documents));
        others.map(|others| !others).map_err(Ended::Store)
    }
}
