//! How many records beyond its end a live window keeps, and how soon it may be read again. Each renewal costs a read:
//! where they come quickly the slack doubles, where they are rare it shrinks slowly (InvaliDB's adaptive slack).

use freshet_core::time::Moment;

/// Records beyond the end at least.
pub const SLACK_RECORDS_MIN: usize = 4;
/// Records beyond the end at most.
pub const SLACK_RECORDS_MAX: usize = 1_024;
/// Renewals that follow one another sooner came quickly, milliseconds.
const QUICK_MS: u64 = 10_000;
/// A window that lasted so long has more slack than it needs, milliseconds.
const SLOW_MS: u64 = 120_000;
/// It gives up one record in so many then.
const SHRINK_DIVISOR: usize = 8;
/// Between two renewals of one window at least, milliseconds.
pub const RENEWAL_INTERVAL_MS_MIN: u64 = 1_000;

/// The slack of one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slack {
    records: usize,
    renewed: Option<Moment>,
}

impl Slack {
    /// For a window of this many records: half of it, within the limits.
    pub(super) fn of(limit: usize) -> Slack {
        Slack {
            records: (limit / 2).clamp(SLACK_RECORDS_MIN, SLACK_RECORDS_MAX),
            renewed: None,
        }
    }

    pub(super) fn records(&self) -> usize {
        self.records
    }

    /// The earliest moment of the next renewal.
    pub(super) fn not_before(&self) -> Moment {
        self.renewed.map_or(Moment(0), |renewed| {
            renewed.after_ms(RENEWAL_INTERVAL_MS_MIN)
        })
    }

    /// The window is filled now, for the first time or again.
    pub(super) fn fill(&mut self, now: Moment) {
        if let Some(before) = self.renewed.replace(now) {
            let lasted = now.since(before);
            if lasted < QUICK_MS {
                self.records = (self.records * 2).min(SLACK_RECORDS_MAX);
            } else if lasted > SLOW_MS {
                let fewer = self.records - self.records.div_ceil(SHRINK_DIVISOR);
                self.records = fewer.max(SLACK_RECORDS_MIN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_quickly_and_shrinks_slowly_within_its_limits() {
        let mut slack = Slack::of(20);
        assert_eq!((slack.records(), slack.not_before()), (10, Moment(0)));
        slack.fill(Moment(5));
        assert_eq!((slack.records(), slack.not_before()), (10, Moment(1_005)));
        let mut now = 5;
        for expected in [20, 40, 80, 160, 320, 640, 1_024, 1_024] {
            now += 9_000;
            slack.fill(Moment(now));
            assert_eq!(slack.records(), expected);
        }
        now += 60_000;
        slack.fill(Moment(now));
        assert_eq!(slack.records(), 1_024, "neither quick nor slow");
        for _ in 0..100 {
            now += 120_001;
            slack.fill(Moment(now));
        }
        assert_eq!(slack.records(), SLACK_RECORDS_MIN);
    }
}
