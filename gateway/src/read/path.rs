//! The read path, from the question to the answer. It reads from top to bottom as the flow in
//! `docs/ARCHITECTURE.md` does; every way out before the end says why the answer is not cached.

use std::sync::Arc;

use freshet_core::freshness::{Lifetimes, resource_surrogates};
use freshet_core::key::Key;
use freshet_core::time::Ttl;
use freshet_invalidation::{Answer as Read, NotCached, Resource, Ticket};

use super::answer::{self, Wanted};
use super::asked::Asked;
use super::fetch::{Fetched, fetch};
use super::permit::{Permitted, only_stored, permit};
use super::reason::Reason;
use crate::app::App;
use crate::auth::access::{Rule, Scope};
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
    let Permitted {
        asked,
        rule,
        scope,
        clients,
    } = permit(app, request.route, &request.params, wanted.headers).await?;
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

    let begun = begin(app, &asked, rule, &key).await;
    let ticket = match begun {
        Ok(ticket) => ticket,
        Err(no) => return uncached(app, wanted, &asked, &key, no.into()).await,
    };
    let fetched = fetch(app, &asked, ticket.from).await?;

    let estimate = app.pipeline.lifetimes(&ticket, &fetched.members);
    let lifetimes = granted(estimate, clients, app.pipeline.shares());
    if lifetimes.is_zero() && !estimate.is_zero() {
        return not_kept(app, wanted, &key, &fetched, Reason::EdgeDown);
    }
    let issued = app.clock.now();
    let read = Read {
        position: fetched.position,
        lifetimes,
        members: &fetched.members,
        window: fetched.window.clone(),
        joined: fetched.joined.clone(),
    };
    if let Err(no) = app.pipeline.settle(ticket, read).await {
        return not_kept(app, wanted, &key, &fetched, no.into());
    }

    let surrogates = resource_surrogates(asked.kind(), asked.namespace(), &key);
    let answered = answer::whole(&fetched);
    let entry = Entry::new(answered, surrogates, lifetimes, issued, generation);
    let entry = Arc::new(match only_stored(rule, &asked) {
        true => entry.by_hash_only(),
        false => entry,
    });
    if !in_time(app, &entry) {
        return not_kept(app, wanted, &key, &fetched, NotCached::ReadTooSlow.into());
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
async fn begin(app: &App, asked: &Asked, rule: &Rule, key: &Key) -> Result<Ticket, NotCached> {
    let mut resource = asked.resource(key.clone())?;
    resource.hinted = rule.hinted;
    let shape = declare(app, &resource).await?;
    let ticket = app.pipeline.begin(resource)?;
    match ticket.shape == shape {
        true => Ok(ticket),
        false => Err(NotCached::InvalidatedMeanwhile),
    }
}

/// Tells what the change feed says about the collections that an answer is read from.
///
/// # Errors
/// `Undecidable`.
pub(super) async fn declare(app: &App, resource: &Resource) -> Result<u64, NotCached> {
    // One shape for all: whoever declares last sees what happened since the first.
    let mut shape = app.declare(&resource.namespace).await?;
    for join in &resource.joins {
        shape = shape.min(app.declare(&join.from).await?);
    }
    Ok(shape)
}

/// Whether an answer can still be handed over within F of its settling (C5).
fn in_time(app: &App, entry: &Entry) -> bool {
    u128::from(entry.age_ms(app.clock.now())) < app.settings.server.fill_timeout.as_millis()
}

/// Why an answer cannot enter a cache, before anything is known of it.
fn admit(app: &App, asked: &Asked, scope: Scope, key: &Key) -> Result<(), Reason> {
    shareable(asked, scope)?;
    match &app.doorkeeper {
        Some(doorkeeper) if !doorkeeper.admits(key.as_str(), app.clock.now()) => {
            Err(Reason::FirstRequest)
        }
        _ => Ok(()),
    }
}

/// What of an answer is for everybody, and could be watched.
///
/// # Errors
/// Why it is not.
pub(super) fn shareable(asked: &Asked, scope: Scope) -> Result<(), Reason> {
    if scope == Scope::Private {
        return Err(Reason::Private);
    }
    match asked.database_only() {
        Some(_) => Err(Reason::DatabaseOnly),
        None => Ok(()),
    }
}

/// The estimate, within what the collections grant to browsers and the state of the edges to shared caches.
pub(super) fn granted(estimate: Lifetimes, clients: Clients, shares: bool) -> Lifetimes {
    Lifetimes {
        m: match clients {
            Clients::Cache => estimate.m,
            Clients::Revalidate => Ttl::ZERO,
        },
        s: if shares { estimate.s } else { Ttl::ZERO },
    }
}

async fn uncached(
    app: &App,
    wanted: Wanted<'_>,
    asked: &Asked,
    key: &Key,
    reason: Reason,
) -> Result<Reply, Problem> {
    app.metrics.not_cached(reason);
    let fetched = fetch(app, asked, app.pipeline.position()).await?;
    answer::uncached(wanted, key.as_str(), &fetched, reason)
}

/// Sends what was read for nobody to keep.
fn not_kept(
    app: &App,
    wanted: Wanted<'_>,
    key: &Key,
    fetched: &Fetched,
    reason: Reason,
) -> Result<Reply, Problem> {
    app.metrics.not_cached(reason);
    answer::uncached(wanted, key.as_str(), fetched, reason)
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
