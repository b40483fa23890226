//! The live queries of one collection.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bson::{RawBson, RawDocumentBuf};
use freshet_core::change::Image;
use freshet_core::key::Key;
use freshet_core::notification::Effect;
use freshet_core::predicate::{Predicate, Undecidable};
use freshet_core::time::{Moment, Position};

use super::{Did, FollowerId};
use crate::matcher::{Happened, Matcher, QueryId, Shown, Watch};

/// The engine, and whose the queries are.
#[derive(Default)]
pub(super) struct Engine {
    matcher: Matcher,
    queries: HashMap<QueryId, Query>,
    /// Kept for its memory only.
    touched: Vec<(QueryId, Effect)>,
}

struct Query {
    follower: FollowerId,
    /// Decides where the engine cannot; `None`: whatever happens counts, and only that it does.
    predicate: Option<Predicate>,
}

impl Engine {
    /// Adds a query of this collection.
    pub(super) fn add(
        &mut self,
        follower: FollowerId,
        watch: &Watch,
    ) -> Result<QueryId, Undecidable> {
        let predicate = Predicate::compile(&watch.filter)?;
        let id = self.insert(watch)?;
        let query = Query {
            follower,
            predicate: Some(predicate),
        };
        self.queries.insert(id, query);
        Ok(id)
    }

    /// Adds a query that joins this collection.
    pub(super) fn add_joined(
        &mut self,
        follower: FollowerId,
        watch: &Watch,
    ) -> Result<QueryId, Undecidable> {
        let id = self.insert(watch)?;
        let query = Query {
            follower,
            predicate: None,
        };
        self.queries.insert(id, query);
        Ok(id)
    }

    /// As a query of which a copy is out for ever, with an unknown window: everything counts.
    fn insert(&mut self, watch: &Watch) -> Result<QueryId, Undecidable> {
        let id = self.matcher.insert(Key::from(""), watch, None)?;
        let shown = Shown::default();
        let always = Moment(u64::MAX);
        self.matcher.settle(id, &shown, Position(1), 0, always);
        Ok(id)
    }

    pub(super) fn remove(&mut self, id: QueryId) {
        self.matcher.remove(id);
        self.queries.remove(&id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    pub(super) fn each(&self, visit: &mut impl FnMut(FollowerId)) {
        self.queries
            .values()
            .for_each(|query| visit(query.follower));
    }

    /// What a write did to the queries.
    pub(super) fn touched(
        &mut self,
        id: &RawBson,
        before: &Image,
        after: &Image,
        note: &mut impl FnMut(FollowerId, Did),
    ) {
        let happened = Happened {
            before,
            after,
            record: None,
            members: false,
        };
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        let mut collect = |query, effect| touched.push((query, effect));
        self.matcher.touched(happened, Moment(0), &mut collect);
        if touched.is_empty() {
            self.touched = touched;
            return;
        }
        let images = Images {
            id,
            before: known(before),
            after: known(after),
            is_known: !matches!(after, Image::Unknown),
        };
        for (query, effect) in &touched {
            if let Some(query) = self.queries.get(query) {
                note(query.follower, images.did(query, *effect));
            }
        }
        self.touched = touched;
    }
}

/// One write, for all the queries that it touches.
struct Images<'a> {
    id: &'a RawBson,
    before: Option<Arc<RawDocumentBuf>>,
    after: Option<Arc<RawDocumentBuf>>,
    /// Whether it is known what the record is.
    is_known: bool,
}

impl Images<'_> {
    fn did(&self, query: &Query, effect: Effect) -> Did {
        let Some(predicate) = &query.predicate else {
            return Did::Unknown;
        };
        let (was, is) = match effect {
            Effect::Add => (false, true),
            Effect::Change | Effect::Move => (true, true),
            Effect::Remove => (true, false),
            Effect::Maybe => {
                let is = self.is_known.then(|| self.satisfies(predicate)).flatten();
                return is.map_or(Did::Unknown, |is| self.record(None, is, false));
            }
        };
        self.record(self.before.clone().filter(|_| was), is, true)
    }

    /// Whether the record is in the match set now; `None`: the filter fails.
    fn satisfies(&self, predicate: &Predicate) -> Option<bool> {
        let now = self.after.as_ref();
        let satisfies = || now.is_some_and(|now| predicate.matches(now));
        catch_unwind(AssertUnwindSafe(satisfies)).ok()
    }

    fn record(&self, before: Option<Arc<RawDocumentBuf>>, is: bool, exact: bool) -> Did {
        Did::Record {
            id: self.id.clone(),
            before,
            after: self.after.clone().filter(|_| is),
            exact,
        }
    }
}

fn known(image: &Image) -> Option<Arc<RawDocumentBuf>> {
    match image {
        Image::Known(document) | Image::Later(Some(document)) => Some(Arc::new(document.clone())),
        _ => None,
    }
}
