//! What headers an answer gets: `Cache-Control`, `ETag`, surrogate keys (RFC 9110 §8.8, §13.1; RFC 9111
//! §5.2; rule C15). Pure: a lifetime and a resource in, header values out.

mod etag;
mod headers;
mod surrogate;

pub use etag::{ETag, TagList, etag};
pub use headers::{Edge, Header, NOT_SHARED, cacheable, lifetime_headers, private, tag_headers};
pub use surrogate::{
    ResourceKind, SurrogateKey, collection_surrogate, database_surrogate, resource_surrogates,
};

use crate::time::{Moment, Ttl};

/// The two lifetimes of a copy: M for clients, S for shared caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// M, `max-age`.
    pub m: Ttl,
    /// S, `s-maxage`.
    pub s: Ttl,
}

impl Lifetimes {
    /// Not cacheable at all.
    pub const ZERO: Lifetimes = Lifetimes {
        m: Ttl::ZERO,
        s: Ttl::ZERO,
    };

    /// Whether nobody may keep the answer.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Lifetimes::ZERO
    }

    /// How long after it was issued a copy can be handed out or used: S in a shared cache, then M in a
    /// client, since caches reset `Age` (rule C3).
    #[must_use]
    pub fn span_ms(self) -> u64 {
        self.s.as_ms() + self.m.as_ms()
    }

    /// What is left when the gateway's own tier hands an answer out again that was read at `read_at`:
    /// M − x and S − x, rounded down, so that the horizon t0 + S + M still holds (rule C3).
    #[must_use]
    pub fn remaining(self, read_at: Moment, now: Moment) -> Lifetimes {
        let elapsed_s = now.since(read_at).div_ceil(1000);
        let left = |ttl: Ttl| Ttl(u64::from(ttl.0).saturating_sub(elapsed_s) as u32);
        Lifetimes {
            m: left(self.m),
            s: left(self.s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c3_an_answer_handed_out_again_never_outlives_the_horizon() {
        let given = Lifetimes {
            m: Ttl(10),
            s: Ttl(60),
        };
        let read_at = Moment(5_000);
        for x in [
            0, 1, 999, 1000, 1001, 9_999, 10_000, 59_500, 60_000, 100_000,
        ] {
            let now = read_at.after_ms(x);
            let again = given.remaining(read_at, now);
            assert!(now.after_ms(again.span_ms()) <= read_at.after_ms(given.span_ms()).max(now));
            if again.s > Ttl::ZERO {
                assert!(x + again.s.as_ms() <= given.s.as_ms());
            }
        }
        assert_eq!(given.remaining(read_at, read_at), given);
        assert_eq!(
            given.remaining(read_at, read_at.after_ms(1)),
            Lifetimes {
                m: Ttl(9),
                s: Ttl(59)
            }
        );
        assert!(given.remaining(read_at, read_at.after_ms(60_000)).is_zero());
    }
}
