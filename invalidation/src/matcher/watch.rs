//! What the matcher is told of a resource: which records it depends on, and what of them its answer shows.

use freshet_core::aggregate::{Dependencies, Pipeline};
use freshet_core::notification::Representation;
use freshet_core::query::{Filter, Projection, Sort};

/// A query, a count or an aggregate, as it is watched.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    /// Which records.
    pub filter: Filter,
    /// What the answer is made of.
    pub shape: Shape,
    /// Records in front of the window count too (`skip` > 0).
    pub skips: bool,
}

/// What an answer is made of. Many queries share one.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Objects, ids, a number, or something computed.
    pub representation: Representation,
    /// In which order; `None` where it does not show.
    pub order: Option<Sort>,
    /// What of each record it depends on.
    pub view: View,
}

/// What of a record an answer depends on, beside whether it is there and where.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    /// Nothing.
    Nothing,
    /// Everything.
    Whole,
    /// What a projection shows.
    Projection(Projection),
    /// What a pipeline depends on.
    Fields(Box<Dependencies>),
}

impl Watch {
    /// The records of a filter, counted.
    #[must_use]
    pub fn count(filter: Filter) -> Watch {
        Watch {
            filter,
            shape: Shape {
                representation: Representation::Count,
                order: None,
                view: View::Nothing,
            },
            skips: false,
        }
    }

    /// What is computed from some fields (`None`: from everything) of a filter's records.
    #[must_use]
    pub fn aggregate(filter: Filter, fields: Option<Dependencies>) -> Watch {
        let fields = fields.filter(|fields| !fields.is_whole());
        Watch {
            filter,
            shape: Shape {
                representation: Representation::Aggregate,
                order: None,
                view: fields.map_or(View::Whole, |fields| View::Fields(Box::new(fields))),
            },
            skips: false,
        }
    }

    /// What a pipeline makes of the records that its leading filter lets in. `None`: only the database can decide which.
    #[must_use]
    pub fn pipeline(pipeline: &Pipeline) -> Option<Watch> {
        let filter = pipeline.leading_filter()?;
        Some(Watch::aggregate(filter, Some(pipeline.dependencies())))
    }

    /// The records of a filter in an order.
    #[must_use]
    pub fn records(filter: Filter, order: Sort, projection: Projection, skips: bool) -> Watch {
        let view = match projection.is_all() {
            true => View::Whole,
            false => View::Projection(projection),
        };
        Watch {
            filter,
            shape: Shape {
                representation: Representation::Objects,
                order: Some(order),
                view,
            },
            skips,
        }
    }

    /// References to the records of a filter in an order.
    #[must_use]
    pub fn ids(filter: Filter, order: Sort, skips: bool) -> Watch {
        Watch {
            filter,
            shape: Shape {
                representation: Representation::Ids,
                order: Some(order),
                view: View::Nothing,
            },
            skips,
        }
    }
}
