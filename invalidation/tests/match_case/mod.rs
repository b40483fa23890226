//! A case of matching, complete in itself: queries, a history of writes, what the database answered to each query
//! after each of them, and a script of who reads, writes and delivers when. The judge plays the script against the
//! registry and the matcher and holds every notification, and every silence, against the answers. No database, no
//! clock: the same case gives the same verdict.

#![allow(dead_code, unreachable_pub)] // each program that includes it uses a part

pub mod judge;
pub mod kept;
pub mod live;
mod pipeline;
pub mod text;
pub mod verdict;

use std::rc::Rc;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use freshet_core::change::Image;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::query::{AggregateQuery, CountQuery, Filter, Projection, Query, Sort, View};
use freshet_core::value::id::RecordId;
use freshet_invalidation::{Images, LOOK_AHEAD, Resource, Watch, Watched, Window};

pub use pipeline::Computed;
use verdict::Side;

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the feed says of the state before.
    pub images: Images,
    /// Members that are remembered per query.
    pub members_max: usize,
    pub queries: Vec<Watching>,
    pub history: History,
    pub script: Vec<Op>,
}

/// A query, and what the database answered to it.
#[derive(Clone, Debug)]
pub struct Watching {
    pub asked: Asked,
    /// After no write, after the first, and so on.
    pub found: Rc<Vec<Found>>,
    /// What the gateway would have made of it.
    pub answers: Rc<Vec<Option<Answered>>>,
}

/// What is asked, as text where it is text.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub filter: RawDocumentBuf,
    pub what: What,
}

/// What of the matching records.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A page of them.
    Page {
        sort: String,
        skip: u32,
        limit: u32,
        fields: String,
        ids: bool,
    },
    /// How many there are.
    Count,
    /// What these stages make of them.
    Aggregate { stages: Vec<RawDocumentBuf> },
}

/// What the database found.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// All that match, in the query's order.
    Records(Rc<Vec<Rc<RawDocumentBuf>>>),
    /// So many.
    Count(u64),
    /// What a pipeline makes of them.
    Computed(Rc<Computed>),
    /// It refused.
    Refused,
}

/// A collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Of {
    /// The one that is asked.
    #[default]
    Records,
    /// The one that joins look records up in.
    Others,
}

impl Of {
    pub fn name(self) -> &'static str {
        match self {
            Of::Records => "records",
            Of::Others => "others",
        }
    }

    pub fn namespace(self) -> Namespace {
        Namespace::new("fuzz", self.name()).expect("a valid name")
    }
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub before: Vec<Rc<RawDocumentBuf>>,
    /// The same of the other collection.
    pub others: Vec<Rc<RawDocumentBuf>>,
    pub writes: Vec<Written>,
}

/// One write and its event.
#[derive(Clone, Debug)]
pub struct Written {
    pub of: Of,
    pub id: RawBson,
    pub before: Option<Rc<RawDocumentBuf>>,
    pub after: Option<Rc<RawDocumentBuf>>,
    /// As they came over the feed, where that was not the exact states.
    pub images: Option<(Image, Image)>,
}

/// One step of a script. What is not possible is passed over, so that any part of a script is a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The next write is made.
    Write,
    /// The next so many events are matched.
    Deliver(usize),
    /// The last so many events are matched once more.
    Again(usize),
    /// A read of the query begins.
    Begin(usize),
    /// The database is asked, for the query's oldest read.
    Read(usize),
    /// Its answer goes out with a position that many writes before the one it was read after.
    Settle(usize, usize),
    /// It comes to nothing.
    Abandon(usize),
    /// Every query that no copy is out of is read.
    Refresh,
}

pub fn namespace() -> Namespace {
    Of::Records.namespace()
}

/// An `_id` as bytes: what a state is kept by.
pub fn id_of(document: &RawDocument) -> RawBsonRef<'_> {
    document
        .get("_id")
        .ok()
        .flatten()
        .expect("a record has an _id")
}

impl Asked {
    /// The filter, if it is one.
    pub fn parse_filter(&self) -> Option<Filter> {
        Filter::parse(&self.filter).ok()
    }

    /// The query, if it is for a page.
    pub fn query(&self) -> Option<Query> {
        let What::Page {
            sort,
            skip,
            limit,
            fields,
            ids,
        } = &self.what
        else {
            return None;
        };
        Some(Query {
            filter: self.parse_filter()?,
            sort: parse_sort(sort)?,
            skip: *skip,
            limit: *limit,
            projection: match fields.as_str() {
                "" => Projection::default(),
                fields => Projection::parse(fields).ok()?,
            },
            view: if *ids { View::Ids } else { View::Objects },
            ..Query::all(namespace())
        })
    }

    /// As the gateway watches it.
    pub fn resource(&self) -> Option<Resource> {
        if matches!(self.what, What::Aggregate { .. }) {
            return pipeline::resource(&self.aggregate()?);
        }
        let Some(query) = self.query() else {
            let count = CountQuery {
                namespace: namespace(),
                filter: self.parse_filter()?,
            };
            return Some(Resource {
                namespace: namespace(),
                key: count.key(),
                watched: Watched::Query(Watch::count(count.filter)),
                joins: Vec::new(),
                hinted: false,
            });
        };
        let (filter, sort, skips) = (
            query.effective_filter(),
            query.sort.clone(),
            query.effective_skip() > 0,
        );
        let watch = match query.view {
            View::Ids => Watch::ids(filter, sort, skips),
            _ => Watch::records(filter, sort, query.projection.clone(), skips),
        };
        Some(Resource {
            namespace: namespace(),
            key: query.key(),
            watched: Watched::Query(watch),
            joins: Vec::new(),
            hinted: false,
        })
    }

    /// What kind of query it is, in a word: what figures are broken down by.
    pub fn kind(&self) -> String {
        let (sort, skip, fields, ids) = match &self.what {
            What::Page {
                sort,
                skip,
                fields,
                ids,
                ..
            } => (sort, skip, fields, ids),
            What::Count => return "count".to_owned(),
            What::Aggregate { .. } => {
                let query = self.aggregate();
                return query.as_ref().map(pipeline::kind).unwrap_or_default();
            }
        };
        let mut kind = if self.is_sorted() {
            "sorted"
        } else {
            "unsorted"
        }
        .to_owned();
        if sort == "-_id" {
            kind.push_str(" backwards");
        }
        kind.push_str(match (ids, fields.as_str()) {
            (true, _) => " ids",
            (_, "") => " objects",
            (_, fields) if fields.starts_with('-') => " hidden",
            _ => " shown",
        });
        if *skip > 0 {
            kind.push_str(" skip");
        }
        kind
    }

    /// How much of the order its answer depends on.
    pub fn class(&self) -> &'static str {
        match &self.what {
            What::Count => "count",
            What::Aggregate { .. } if self.side() == Side::Join => "join",
            What::Aggregate { .. } => "aggregate",
            What::Page { skip, .. } if *skip > 0 => "skip",
            What::Page { .. } => "page",
        }
    }

    /// What its figures are counted with.
    pub fn side(&self) -> Side {
        let joins = |query: AggregateQuery| !query.pipeline.lookups().is_empty();
        match &self.what {
            What::Aggregate { .. } if self.aggregate().is_some_and(joins) => Side::Join,
            What::Aggregate { .. } => Side::Aggregate,
            _ if self.is_sorted() => Side::Sorted,
            _ => Side::Unsorted,
        }
    }

    /// Whether it has an order of its own.
    pub fn is_sorted(&self) -> bool {
        matches!(&self.what, What::Page { sort, .. } if !matches!(sort.as_str(), "" | "_id" | "-_id"))
    }
}

fn parse_sort(text: &str) -> Option<Sort> {
    match text {
        "" => Some(Sort::default()),
        text => Sort::parse(text).ok(),
    }
}

/// A query's answer to a client, and what the gateway tells the matcher of it.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// What is sent, or what stands for it one to one.
    pub bytes: Vec<u8>,
    pub members: Vec<Key>,
    pub window: Window,
    /// Of each join the local values that were looked for.
    pub joined: Vec<Option<Vec<RawBson>>>,
}

impl Watching {
    pub fn new(asked: Asked, found: Rc<Vec<Found>>) -> Watching {
        let query = asked.query();
        let answers = found.iter().map(|found| match (found, &query) {
            (Found::Count(count), None) => Some(Answered {
                bytes: count.to_le_bytes().to_vec(),
                ..Answered::default()
            }),
            (Found::Records(all), Some(query)) => answered(query, all),
            (Found::Computed(computed), None) => computed.answered(),
            // The database refused.
            _ => None,
        });
        let answers = Rc::new(answers.collect());
        Watching {
            asked,
            found,
            answers,
        }
    }
}

fn answered(query: &Query, all: &[Rc<RawDocumentBuf>]) -> Option<Answered> {
    let (skip, limit) = (query.effective_skip() as usize, query.limit as usize);
    // One more than asked for: whether it is there decides whether there is a next page.
    let found = all.get(skip..).unwrap_or(&[]);
    let found = &found[..found.len().min(limit + LOOK_AHEAD)];
    let record_key = |document: &RawDocument| {
        let id = RecordId::of(id_of(document)).ok()?;
        Some(query.namespace.record_key(id.segment()))
    };
    let members: Vec<Key> = found
        .iter()
        .map(|document| record_key(document))
        .collect::<Option<_>>()?;
    let mut bytes = Vec::new();
    for (document, key) in found.iter().take(limit).zip(&members) {
        match query.view {
            View::Ids => bytes.extend_from_slice(key.as_str().as_bytes()),
            _ => bytes.extend_from_slice(query.projection.apply(document).ok()?.as_bytes()),
        }
    }
    if found.len() > limit
        && let Some(last) = found.get(limit.saturating_sub(1))
        && let Some(cursor) = query.next(last, query.limit)
    {
        bytes.extend_from_slice(b"next");
        bytes.extend_from_slice(cursor.text().as_bytes());
    }
    Some(Answered {
        bytes,
        members,
        window: Window::of(
            found.iter().map(|document| &***document),
            limit,
            query.effective_skip() > 0,
            &query.sort.pattern(),
        ),
        joined: Vec::new(),
    })
}
