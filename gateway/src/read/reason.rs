//! Why an answer is not cached: one word, the same in `Cache-Status`, log, metric and `_explain`, and what can be done
//! about it.

use freshet_invalidation::NotCached;

/// The reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It depends on who asks (C15).
    Private,
    /// Only the database can decide the filter (C14).
    DatabaseOnly,
    /// Nobody asked for it lately.
    FirstRequest,
    /// The query came in a body.
    QueryBody,
    /// An edge cannot be purged, and only shared caches were to keep it (C3).
    EdgeDown,
    /// The pipeline refused.
    Pipeline(NotCached),
}

impl From<NotCached> for Reason {
    fn from(no: NotCached) -> Reason {
        Reason::Pipeline(no)
    }
}

impl Reason {
    /// The stable word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Reason::Private => "private",
            Reason::DatabaseOnly => "database-only",
            Reason::FirstRequest => "first-request",
            Reason::QueryBody => "query-body",
            Reason::EdgeDown => "edge-down",
            Reason::Pipeline(no) => no.word(),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Reason::Private => {
                "The collection is read with a token, and its answers are for the token's bearer alone. Only what everybody may read is shared (`read = \"public\"`)."
            }
            Reason::DatabaseOnly => {
                "The filter has an operator that only the database can decide. Leave it out where another one does."
            }
            Reason::FirstRequest => {
                "Nothing stands in the way: the query was not asked for lately, and the next request for it is cached. `admission.doorkeeper = false` caches the first one, too."
            }
            Reason::QueryBody => {
                "A query in a body is never cached. Ask with GET; a filter too long for a URL can be stored (PUT /v1/{db}/_queries/{hash})."
            }
            Reason::EdgeDown => {
                "An edge has not confirmed a purge for too long, and the collection's answers are for edges alone (`clients = \"revalidate\"`). See /readyz."
            }
            Reason::Pipeline(no) => of_pipeline(no),
        }
    }
}

fn of_pipeline(no: NotCached) -> &'static str {
    match no {
        NotCached::InvalidatedMeanwhile => {
            "It changed while it was read. Ask again; where that keeps happening, the result changes too often to be cached."
        }
        NotCached::SketchUnavailable => {
            "The sketch cannot be reached, so nothing is cached. See /readyz, and Redis where one is configured."
        }
        NotCached::MatcherBehind => {
            "Changes of the database do not come in, or come in too late. See /readyz; on MongoDB the change stream has to be permitted."
        }
        NotCached::Undecidable => {
            "Whether a change touches it cannot be decided exactly as the database does: an operator that is not watched, a view, a time series, a collation, or a collection that is not there yet."
        }
        NotCached::Order => {
            "The answer shows an order that nothing decides: after $unwind, or once _id is hidden or computed, a $sort leaves ties open. Sort before that, or $group in between."
        }
        NotCached::Capacity => {
            "As many queries are watched as may be. Raise `policy.active_max`, or set `hinted = true` for the collections that matter most."
        }
        NotCached::Quota => {
            "As many queries of this database are watched as may be. Raise `policy.database_active_max`."
        }
        NotCached::Outweighed => {
            "The active list is full, and this query makes room for others that are read more or change less. Raise `policy.active_max`."
        }
        NotCached::EpochChanged => {
            "The sketch lost its state and began anew while this was read. Ask again."
        }
        NotCached::ReadTooSlow => {
            "The database took too long. An index that serves the query, or a smaller limit, makes it fast enough."
        }
        NotCached::ReadTooEarly => "The read came from a state that was too old. Ask again.",
        NotCached::ShortLived => {
            "It is expected to change within less than `policy.max_age_min`. A narrower filter, or a projection without the fields that keep changing, lives longer."
        }
        _ => "The pipeline does not cache it.",
    }
}
