//! The server's clock, as its replies tell it: no moment of this process is ever compared with it but through them.

use freshet_core::sketch::Epoch;
use freshet_core::time::Moment;

/// What the last replies told.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) epoch: Option<Epoch>,
    pub(super) time: Option<Heard>,
    /// An earlier one, which the later are held against.
    anchor: Option<Heard>,
}

/// A time on the server's clock, and moments of ours that were not after and not before it.
#[derive(Clone, Copy)]
pub(super) struct Heard {
    pub(super) time: u64,
    pub(super) sent: Moment,
    pub(super) heard: Moment,
}

impl Heard {
    /// Whether the server's clock ran between two replies as ours did. The ends of lifetimes are kept on the server's
    /// clock: when that is set, they come too early or too late.
    fn agrees_with(self, earlier: Heard) -> bool {
        let least = self.sent.since(earlier.heard);
        let most = self.heard.since(earlier.sent);
        let slack = CLOCK_SLACK_MS + most / 100;
        let forward = self.time.saturating_sub(earlier.time);
        self.time + slack >= earlier.time && forward <= most + slack && forward + slack >= least
    }
}

impl Known {
    /// Takes a reply's time. False: the server's clock was set since the anchor.
    pub(super) fn hear(&mut self, now: Heard) -> bool {
        self.time = Some(now);
        let agrees = self.anchor.is_none_or(|anchor| now.agrees_with(anchor));
        match self.anchor {
            Some(anchor) if agrees && now.heard.since(anchor.heard) < ANCHOR_MS_MAX => {}
            _ => self.anchor = Some(now),
        }
        agrees
    }
}

/// How long an anchor holds, milliseconds: long enough that no clock creeps away from it in steps.
const ANCHOR_MS_MAX: u64 = 60_000;
/// How far the server's clock may be corrected at a time, milliseconds.
const CLOCK_SLACK_MS: u64 = 500;
