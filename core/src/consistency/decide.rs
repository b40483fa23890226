//! How a read is made: which fetch cache mode, and why. The rules are C6–C13 of the coherence contract, in the order in
//! which one overrules the next (`sdk-ts/SPEC.md`, *The decision*). A key is always known here, so the SDK's reason
//! `no-key` does not occur.

use super::held::Held;
use super::session::Session;
use crate::time::{Moment, Position};

/// Fetch cache modes: what a browser does with its cache, and what it tells those on the way (C9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Any cache may answer.
    Default,
    /// Revalidated at the nearest shared cache: the request says `max-age=0`.
    NoCache,
    /// Fetched from the origin: the request says `no-cache`.
    Reload,
}

/// Why a read is made the way it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Default: no stale copy of it exists, as of less than Δ′ ago.
    Fresh,
    /// Default: in the sketch, and revalidated since that was taken (C10).
    Revalidated,
    /// No-cache, and reload in a causal session: a stale copy may exist (C9).
    InSketch,
    /// The same; the server lost its state and calls everything stale (C8).
    Saturated,
    /// Reload: asked for with the call.
    Linearizable,
    /// Reload: Δ is 0.
    NoStaleness,
    /// Reload: there is no sketch yet (C7).
    NoSketch,
    /// Reload: purging the edge takes Δ or longer, or has no bound (C9).
    EdgeTooSlow,
    /// Reload: the sketch is as old as Δ′ or older (C7).
    SketchTooOld,
    /// Reload: own write that the answer may lack (C11).
    OwnWrite,
    /// Reload: the session saw something newer than the sketch's watermark (C13).
    AheadOfSketch,
}

/// A mode and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How the request is made.
    pub mode: Mode,
    /// Why so.
    pub reason: Reason,
}

/// What a session was opened with.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Δ.
    pub delta_ms: u64,
    /// Reads never miss what led to something the session has seen.
    pub causal: bool,
}

/// What is read.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The resource's canonical key.
    pub key: &'a str,
    /// The path of the record, or of the collection for queries and counts: what an own write of it touches.
    pub scope: &'a str,
    /// Whether it is one record.
    pub record: bool,
    /// Whether the answer must hold every write that was acknowledged before the call.
    pub linearizable: bool,
}

/// How to make a read of `target` now.
#[must_use]
pub fn decide(session: &Session, target: &Target<'_>, policy: &Policy, now: Moment) -> Decision {
    match trusted(session, target, policy, now) {
        Ok(held) => under(held, session, target, policy),
        Err(reason) => Decision {
            mode: Mode::Reload,
            reason,
        },
    }
}

/// The sketch that tells whether a cache may answer, or why none may.
fn trusted<'s>(
    session: &'s Session,
    target: &Target<'_>,
    policy: &Policy,
    now: Moment,
) -> Result<&'s Held, Reason> {
    if target.linearizable {
        return Err(Reason::Linearizable);
    }
    if policy.delta_ms == 0 {
        return Err(Reason::NoStaleness);
    }
    let held = session.held().ok_or(Reason::NoSketch)?;
    let bound = held
        .edge_bound_ms(policy.delta_ms)
        .ok_or(Reason::EdgeTooSlow)?;
    if held.age_ms(now) >= bound {
        return Err(Reason::SketchTooOld);
    }
    if owes(session, held, target) {
        return Err(Reason::OwnWrite);
    }
    if policy.causal && session.seen() > Some(held.watermark()) {
        return Err(Reason::AheadOfSketch);
    }
    Ok(held)
}

/// Whether an answer may lack an own write: neither was a newer one shown, nor does the sketch know of the write and say
/// that it left the key unchanged (C11).
fn owes(session: &Session, held: &Held, target: &Target<'_>) -> bool {
    let written: Option<Position> = session.known(target.scope).written;
    session.known(target.key).shown < written
        && (Some(held.watermark()) < written || held.lists(target.key))
}

fn under(held: &Held, session: &Session, target: &Target<'_>, policy: &Policy) -> Decision {
    let from_cache = |reason| Decision {
        mode: Mode::Default,
        reason,
    };
    if !held.lists(target.key) {
        return from_cache(Reason::Fresh);
    }
    if session.is_revalidated(target.key) {
        return from_cache(Reason::Revalidated);
    }
    Decision {
        // The edge's answer may be Δ_inv old, hence older than what a causal session has seen.
        mode: match policy.causal {
            true => Mode::Reload,
            false => Mode::NoCache,
        },
        reason: match held.saturated() {
            true => Reason::Saturated,
            false => Reason::InSketch,
        },
    }
}

#[cfg(test)]
mod tests;
