//! The read path, from the question to the answer. It reads from top to bottom as the flow in
//! `docs/ARCHITECTURE.md` does; every way out before the end says why the answer is not cached.

use std::sync::Arc;

use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::time::Ttl;
use freshet_invalidation::{Answer as Read, NotCached, Ticket};

use super::answer::{self, Wanted};
use super::asked::Asked;
use super::fetch::fetch;
use crate::app::App;
use crate::auth::access::{Right, Rule, Scope};
use crate::config::settings::Clients;
use crate::error::Problem;
use crate::respond::{CacheStatus, Reply};
use crate::route::{Params, Route};
use crate::tier::{Entry, Role};

/// A read.
pub struct Request<'a> {
    /// What the path names.
    pub route: Route,
    /// The parameters.
    pub params: Params,
    /// What the reply needs to know.
    pub wanted: Wanted<'a>,
    /// The client asked to go past every cache (C9, fetch mode `reload`).
    pub reload: bool,
}

/// Answers a read.
///
/// # Errors
/// The problem to send instead.
pub async fn read(app: &App, request: Request<'_>) -> Result<Reply, Problem> {
    let wanted = request.wanted;
    let asked = Asked::parse(request.route, &request.params)?;
    let (rule, mut scope) = app
        .access
        .check(asked.namespace(), Right::Read, wanted.headers)?;
    for joined in asked.joined() {
        // One private part makes the whole private.
        if app.access.check(&joined, Right::Read, wanted.headers)?.1 == Scope::Private {
            scope = Scope::Private;
        }
    }
    asked.check(rule)?;
    let key = asked.key();
    if let Err(reason) = admit(app, &asked, scope, &key) {
        return uncached(app, wanted, &asked, &key, reason).await;
    }

    if !request.reload
        && let Some(entry) = app.kept(key.as_str(), app.clock.now())
    {
        return send(app, wanted, &key, &entry, CacheStatus::Hit);
    }
    let generation = app.tier.generation(asked.namespace(), &key);
    let leader = match request.reload {
        true => None,
        false => match app.coalescer.join(&key, generation).await {
            Role::Follower(Some(entry)) if in_time(app, &entry) => {
                return send(app, wanted, &key, &entry, CacheStatus::Collapsed);
            }
            Role::Follower(_) => None,
            Role::Leader(leader) => Some(leader),
        },
    };

    let begun = begin(app, &asked, &key).await;
    let ticket = match begun {
        Ok(ticket) => ticket,
        Err(no) => return uncached(app, wanted, &asked, &key, no.word()).await,
    };
    let fetched = fetch(app, &asked, ticket.from).await?;

    let lifetimes = granted(app.pipeline.lifetimes(&ticket, &fetched.members), rule);
    let issued = app.clock.now();
    let read = Read {
        position: fetched.position,
        lifetimes,
        members: &fetched.members,
        window: fetched.window.clone(),
        joined: fetched.joined.clone(),
    };
    if let Err(no) = app.pipeline.settle(ticket, read).await {
        app.metrics.not_cached(no.word());
        return answer::uncached(wanted, key.as_str(), &fetched, no.word());
    }

    let answered = answer::shared(app, &asked, &key, &fetched);
    let entry = Arc::new(Entry::new(answered, lifetimes, issued, generation));
    if !in_time(app, &entry) {
        let no = NotCached::ReadTooSlow.word();
        app.metrics.not_cached(no);
        return answer::uncached(wanted, key.as_str(), &fetched, no);
    }
    if let Some(leader) = leader {
        leader.share(Arc::clone(&entry));
    }
    app.tier.put(key.clone(), Arc::clone(&entry));
    let status = match request.reload {
        true => CacheStatus::Reloaded,
        false => CacheStatus::Stored,
    };
    send(app, wanted, &key, &entry, status)
}

/// Registers what is asked for (C1), as far as the change feed tells all about it (C14).
async fn begin(app: &App, asked: &Asked, key: &Key) -> Result<Ticket, NotCached> {
    let resource = asked.resource(key.clone())?;
    // One shape for all: whoever declares last sees what happened since the first.
    let mut shape = app.declare(asked.namespace()).await?;
    for join in &resource.joins {
        shape = shape.min(app.declare(&join.from).await?);
    }
    let ticket = app.pipeline.begin(resource)?;
    match ticket.shape == shape {
        true => Ok(ticket),
        false => Err(NotCached::InvalidatedMeanwhile),
    }
}

/// Whether an answer can still be handed over within F of its settling (C5).
fn in_time(app: &App, entry: &Entry) -> bool {
    u128::from(entry.age_ms(app.clock.now())) < app.settings.server.fill_timeout.as_millis()
}

/// Why an answer cannot enter a cache, before anything is known of it.
fn admit(app: &App, asked: &Asked, scope: Scope, key: &Key) -> Result<(), &'static str> {
    if scope == Scope::Private {
        return Err("private");
    }
    if asked.database_only().is_some() {
        return Err("database-only");
    }
    match &app.doorkeeper {
        Some(doorkeeper) if !doorkeeper.admits(key.as_str(), app.clock.now()) => {
            Err("first-request")
        }
        _ => Ok(()),
    }
}

/// The estimate, within what the collection grants to browsers and the settings to anybody.
fn granted(estimate: Lifetimes, rule: &Rule) -> Lifetimes {
    match rule.clients {
        Clients::Cache => estimate,
        Clients::Revalidate => Lifetimes {
            m: Ttl::ZERO,
            s: estimate.s,
        },
    }
}

async fn uncached(
    app: &App,
    wanted: Wanted<'_>,
    asked: &Asked,
    key: &Key,
    reason: &'static str,
) -> Result<Reply, Problem> {
    app.metrics.not_cached(reason);
    let fetched = fetch(app, asked, app.pipeline.position()).await?;
    answer::uncached(wanted, key.as_str(), &fetched, reason)
}

fn send(
    app: &App,
    wanted: Wanted<'_>,
    key: &Key,
    entry: &Entry,
    status: CacheStatus,
) -> Result<Reply, Problem> {
    app.metrics.cache_status(status);
    answer::entry(app, wanted, key.as_str(), entry, status)
}
