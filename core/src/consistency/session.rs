//! What a session knows, and the events that change it (`sdk-ts/SPEC.md`, *State* and *Events*). Whatever is forgotten
//! makes reads more careful, never less (I13).

use std::collections::{BTreeMap, HashMap};

use super::decide::{Mode, Target};
use super::held::Held;
use crate::time::Position;

/// Keys and scopes of which something is known. Those beyond are forgotten, what was learnt longest ago first.
pub const KNOWN_KEYS_MAX: usize = 10_000;

/// What is known of a key, or of the path of a record or collection. `None` stands before every position.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The highest position of the answers that were shown (C12).
    pub shown: Option<Position>,
    /// The tag of the last of them; none for what does not exist.
    pub etag: Option<String>,
    /// Of the last own write to what has this path (C11).
    pub written: Option<Position>,
    /// The sketch under which it was revalidated (C10).
    under: Option<Held>,
}

/// One session: everything that a client of one database remembers.
#[derive(Clone, Debug, Default)]
pub struct Session {
    held: Option<Held>,
    known: HashMap<String, (u64, Known)>,
    /// The keys of `known` by the turn in which something was last learnt of them.
    turns: BTreeMap<u64, String>,
    turn: u64,
    /// Nothing that was forgotten had been shown or written at a later position.
    forgotten: Option<Position>,
    seen: Option<Position>,
}

impl Session {
    /// The sketch.
    #[must_use]
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// The highest position of anything shown or written (C13).
    #[must_use]
    pub fn seen(&self) -> Option<Position> {
        self.seen
    }

    /// What is known of `key`. Of one that may have been forgotten, the most that may have been known.
    #[must_use]
    pub fn known(&self, key: &str) -> Known {
        match self.known.get(key) {
            Some((_, known)) => known.clone(),
            None => Known {
                shown: self.forgotten,
                // Assumed to be the later, so that no answer counts as showing the write.
                written: self
                    .forgotten
                    .map(|position| Position(position.0.saturating_add(1))),
                ..Known::default()
            },
        }
    }

    /// Whether `key` was revalidated under the very sketch that is held (I5).
    #[must_use]
    pub fn is_revalidated(&self, key: &str) -> bool {
        let under = self
            .known
            .get(key)
            .and_then(|(_, known)| known.under.as_ref());
        under
            .zip(self.held.as_ref())
            .is_some_and(|(under, held)| under.is(held))
    }

    /// A sketch arrived. One that proves less than what is held changes nothing.
    pub fn sketch_arrived(&mut self, held: Held) {
        if !self
            .held
            .as_ref()
            .is_some_and(|before| held.is_older_than(before))
        {
            self.held = Some(held);
        }
    }

    /// An answer for `key` is shown. `position` is `None` where it names none.
    pub fn answer_shown(&mut self, key: &str, position: Option<Position>, etag: Option<String>) {
        self.learn(key, position, |known| {
            // A position is a lower bound: where it is not above the one known, the content still is the newest (I10).
            known.shown = known.shown.max(position);
            known.etag = etag;
        });
    }

    /// `key` was revalidated by a request that was sent while `under` was held (C10).
    pub fn key_revalidated(&mut self, key: &str, under: Option<Held>) {
        self.learn(key, None, |known| known.under = under);
    }

    /// A write was acknowledged; `scopes` are the paths of its records and of their collection (C11). A write whose
    /// answer names no position counts as later than everything: no answer can prove to be newer.
    pub fn write_acknowledged(&mut self, scopes: &[&str], position: Option<Position>) {
        let position = position.or(Some(Position(u64::MAX)));
        for scope in scopes {
            self.learn(scope, position, |known| {
                known.written = known.written.max(position);
            });
        }
    }

    /// Whether an answer would take back what the session has shown, or what it wrote to this record (C11, C12). One
    /// that may be a cache's, as its mode says, proves nothing by naming the same position.
    #[must_use]
    pub fn is_older(
        &self,
        target: &Target<'_>,
        position: Option<Position>,
        etag: Option<&str>,
        mode: Mode,
    ) -> bool {
        let known = self.known(target.key);
        // Equal content takes nothing back: the answer is as good as the one that was shown.
        let same = etag.is_some() && known.etag.as_deref() == etag;
        let at = if same { known.shown } else { position };
        at < known.shown
            || (mode != Mode::Reload && !same && position.is_some() && position == known.shown)
            || (target.record && at < self.known(target.scope).written)
    }

    fn learn(&mut self, key: &str, position: Option<Position>, what: impl FnOnce(&mut Known)) {
        let mut known = self.known(key);
        what(&mut known);
        self.turn += 1;
        if let Some((turn, _)) = self.known.insert(key.to_owned(), (self.turn, known)) {
            self.turns.remove(&turn);
        }
        self.turns.insert(self.turn, key.to_owned());
        self.seen = self.seen.max(position);
        while self.known.len() > KNOWN_KEYS_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, key)) = self.turns.pop_first() else {
            return;
        };
        if let Some((_, gone)) = self.known.remove(&key) {
            self.forgotten = self.forgotten.max(gone.shown).max(gone.written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::tests::Stated;
    use super::*;

    const KEY: &str = "/v1/db/c/1";

    fn target() -> Target<'static> {
        Target {
            key: KEY,
            scope: KEY,
            record: true,
            linearizable: false,
        }
    }

    fn is_older(
        session: &Session,
        position: Option<Position>,
        tag: Option<&str>,
        mode: Mode,
    ) -> bool {
        session.is_older(&target(), position, tag, mode)
    }

    #[test]
    fn a_sketch_that_proves_less_than_the_one_held_changes_nothing() {
        let aged = |sent, age_ms, watermark| {
            let stated = Stated {
                age_ms,
                watermark,
                ..Stated::default()
            };
            stated.sent(sent)
        };
        let mut session = Session::default();
        session.sketch_arrived(aged(5_000, 0, 7));
        session.sketch_arrived(aged(5_100, 400, 6));
        assert_eq!(session.held().map(Held::watermark), Some(Position(7)));
        session.sketch_arrived(aged(5_100, 50, 8));
        assert_eq!(session.held().map(Held::watermark), Some(Position(8)));
    }

    #[test]
    fn c12_an_answer_before_one_that_was_shown_is_older_unless_it_is_the_same() {
        let mut session = Session::default();
        let late = Position((1 << 63) + 1);
        session.answer_shown(KEY, Some(late), Some("a".into()));
        let before = Some(Position(1 << 63));
        assert!(is_older(&session, before, Some("b"), Mode::Default));
        assert!(is_older(&session, before, Some("b"), Mode::Reload));
        assert!(!is_older(&session, before, Some("a"), Mode::Default));
        assert!(is_older(&session, None, None, Mode::Default));
        session.answer_shown(KEY, before, Some("b".into()));
        assert_eq!(session.known(KEY).shown, Some(late), "it never goes back");
    }

    #[test]
    fn c12_what_is_no_longer_so_at_the_origin_does_not_come_back_from_a_cache() {
        let (floor, below) = (Some(Position(7)), Some(Position(6)));
        // A 404 and an answer of a gateway that knows a lower bound, or the same one, or none.
        for (at, tag) in [
            (below, None),
            (below, Some("b")),
            (floor, Some("b")),
            (None, Some("b")),
        ] {
            let mut session = Session::default();
            session.answer_shown(KEY, floor, Some("a".into()));
            session.answer_shown(KEY, at, tag.map(Into::into));
            for mode in [Mode::Default, Mode::NoCache] {
                assert!(is_older(&session, floor, Some("a"), mode), "{at:?} {tag:?}");
            }
            assert_eq!(
                is_older(&session, floor, tag, Mode::Default),
                tag.is_none(),
                "only a cache's answer without a tag is no proof"
            );
            let later = Some(Position(8));
            assert!(!is_older(&session, later, Some("a"), Mode::Default));
            assert!(
                !is_older(&session, floor, Some("c"), Mode::Reload),
                "the origin knows better than an equal position"
            );
        }
    }

    #[test]
    fn an_answer_without_a_position_is_shown_where_nothing_was() {
        assert!(!is_older(
            &Session::default(),
            None,
            Some("a"),
            Mode::Default
        ));
    }

    #[test]
    fn c11_a_record_must_be_as_new_as_the_own_write() {
        let mut session = Session::default();
        session.write_acknowledged(&[KEY, "/v1/db/c"], Some(Position(8)));
        assert!(is_older(&session, Some(Position(7)), None, Mode::Default));
        assert!(!is_older(&session, Some(Position(8)), None, Mode::Default));
        session.write_acknowledged(&[KEY], None);
        assert!(
            is_older(&session, Some(Position(9)), None, Mode::Default),
            "a write without a position"
        );
    }

    #[test]
    fn i13_what_was_forgotten_is_assumed_to_be_the_newest() {
        let mut session = Session::default();
        session.answer_shown(KEY, Some(Position(5)), None);
        for number in 0..KNOWN_KEYS_MAX {
            session.key_revalidated(&format!("/v1/db/d/{number}"), None);
        }
        assert!(is_older(
            &session,
            Some(Position(4)),
            Some("a"),
            Mode::Default
        ));
        assert_eq!(session.known("/v1/db/e/1").written, Some(Position(6)));
        session.sketch_arrived(Stated::default().sent(0));
        let query = Target {
            key: "/v1/db/e?limit=1",
            scope: "/v1/db/e",
            record: false,
            linearizable: false,
        };
        let policy = super::super::Policy {
            delta_ms: 60_000,
            causal: false,
        };
        let decision = super::super::decide(&session, &query, &policy, crate::time::Moment(0));
        assert_eq!(
            decision.mode,
            Mode::Reload,
            "an own write may have been forgotten"
        );
    }
}
