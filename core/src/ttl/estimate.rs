//! How long an answer will hold: a record by its write rate; a query by the lifetimes its answers were
//! seen to have, and by its members' rates before any was seen (Quaestor §5.1, eq. 1 and 2).
//!
//! A lifetime is measured from the first read of a value to its invalidation, over all its copies. Were it
//! measured from the last copy, it could never exceed the lifetime given out, and estimates would only sink.

use std::collections::HashMap;

use super::explain::Explained;
use super::policy::{Policy, quantile_ms};
use super::rate::{Decayed, WriteRates};
use crate::key::Key;
use crate::name::Namespace;
use crate::time::Moment;

/// What the estimator may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EstimatorLimits {
    /// Records with a rate of their own, per collection.
    pub records_max: usize,
    /// Queries with observations, over all collections.
    pub queries_max: usize,
    /// Collections with rates; beyond it the one that was written longest ago makes room.
    pub collections_max: usize,
}

impl Default for EstimatorLimits {
    fn default() -> EstimatorLimits {
        EstimatorLimits {
            records_max: 20_000,
            queries_max: 50_000,
            collections_max: 256,
        }
    }
}

/// What was observed.
#[derive(Debug)]
pub struct Estimator {
    limits: EstimatorLimits,
    /// With the moment of the last write.
    rates: HashMap<Namespace, (Moment, WriteRates)>,
    queries: HashMap<Key, Observed>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Observed {
    /// When the current value was first read.
    pub(super) since: Option<Moment>,
    /// The average of lifetimes, milliseconds; the first computed one before any was seen.
    pub(super) average_ms: Option<f64>,
    /// The last lifetime that was seen, milliseconds.
    pub(super) last_ms: Option<u64>,
    /// Invalidations: they come from records entering the result, too.
    pub(super) churn: Decayed,
    touched: Moment,
}

impl Estimator {
    /// Nothing observed yet.
    #[must_use]
    pub fn new(limits: EstimatorLimits) -> Estimator {
        Estimator {
            limits,
            rates: HashMap::new(),
            queries: HashMap::new(),
        }
    }

    /// A record was written.
    pub fn written(&mut self, namespace: &Namespace, record: &Key, now: Moment) {
        self.make_room(namespace);
        let records_max = self.limits.records_max;
        let (touched, rates) = self
            .rates
            .entry(namespace.clone())
            .or_insert_with(|| (now, WriteRates::new(records_max)));
        *touched = now;
        rates.count(record, now);
    }

    /// How long a record will hold, in milliseconds.
    #[must_use]
    pub fn record_ms(
        &self,
        policy: &Policy,
        namespace: &Namespace,
        record: &Key,
        now: Moment,
    ) -> f64 {
        quantile_ms(policy.quantile, self.rate(namespace, record, now))
    }

    /// How long a query's answer will hold, in milliseconds; the answer is being read now.
    pub fn query_ms(
        &mut self,
        policy: &Policy,
        namespace: &Namespace,
        query: &Key,
        members: &[Key],
        now: Moment,
    ) -> f64 {
        // Reads make no entry: names can be invented, writes cannot.
        if let Some((_, rates)) = self.rates.get_mut(namespace) {
            rates.saw(members.len());
        }
        let of_members: f64 = members.iter().map(|m| self.rate(namespace, m, now)).sum();
        let Some(observed) = self.observed(query, now) else {
            return quantile_ms(policy.quantile, of_members);
        };
        observed.since.get_or_insert(now);
        let explained = Explained::of_query(policy, of_members, observed, now);
        if observed.last_ms.is_none() {
            let computed = explained.computed_ms;
            observed.average_ms = computed.is_finite().then_some(computed);
        }
        explained.expected_ms
    }

    /// How the estimate of a query comes about; nothing is learned from being asked.
    #[must_use]
    pub fn explain(
        &self,
        policy: &Policy,
        namespace: &Namespace,
        query: &Key,
        members: &[Key],
        now: Moment,
    ) -> Explained {
        let rates = self.rates.get(namespace).map(|(_, rates)| rates);
        let each = members.iter().map(|member| {
            rates.map_or(0.0, |rates| rates.per_ms_among(member, members.len(), now))
        });
        let (sum, most) = each.fold((0.0, 0.0), |(sum, most): (f64, f64), rate| {
            (sum + rate, most.max(rate))
        });
        let observed = self.queries.get(query.as_str()).copied();
        Explained {
            hottest_per_ms: most,
            ..Explained::of_query(policy, sum, &observed.unwrap_or_default(), now)
        }
    }

    /// A query's answer was invalidated.
    pub fn invalidated(&mut self, policy: &Policy, query: &Key, now: Moment) {
        let Some(observed) = self.queries.get_mut(query.as_str()) else {
            return;
        };
        let Some(since) = observed.since.take() else {
            return;
        };
        let actual_ms = now.since(since);
        #[allow(clippy::cast_precision_loss)]
        let actual = actual_ms as f64;
        let average = observed.average_ms.unwrap_or(actual);
        observed.average_ms = Some(policy.alpha * average + (1.0 - policy.alpha) * actual);
        observed.last_ms = Some(actual_ms);
        observed.churn.count(now);
        observed.touched = now;
    }

    fn rate(&self, namespace: &Namespace, record: &Key, now: Moment) -> f64 {
        self.rates
            .get(namespace)
            .map_or(0.0, |(_, rates)| rates.per_ms(record, now))
    }

    fn make_room(&mut self, namespace: &Namespace) {
        if self.rates.len() < self.limits.collections_max || self.rates.contains_key(namespace) {
            return;
        }
        let oldest = self.rates.iter().min_by_key(|(_, (touched, _))| *touched);
        if let Some(oldest) = oldest.map(|(namespace, _)| namespace.clone()) {
            self.rates.remove(&oldest);
        }
    }

    fn observed(&mut self, query: &Key, now: Moment) -> Option<&mut Observed> {
        if !self.queries.contains_key(query.as_str()) {
            if self.queries.len() >= self.limits.queries_max {
                self.queries
                    .retain(|_, observed| now.since(observed.touched) < FORGOTTEN_AFTER_MS);
            }
            if self.queries.len() >= self.limits.queries_max {
                return None;
            }
            self.queries.insert(query.clone(), Observed::default());
        }
        let observed = self.queries.get_mut(query.as_str())?;
        observed.touched = now;
        Some(observed)
    }
}

/// A query that nobody read for so long makes room, milliseconds.
const FORGOTTEN_AFTER_MS: u64 = 600_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> (Estimator, Policy, Namespace, Key) {
        let namespace = Namespace::new("d", "c").expect("valid");
        (
            Estimator::new(EstimatorLimits::default()),
            Policy::default(),
            namespace,
            Key::from("/v1/d/c?filter=x"),
        )
    }

    #[test]
    fn without_a_write_nothing_bounds_the_lifetime_but_the_cap() {
        let (mut estimator, policy, namespace, query) = fixture();
        let ms = estimator.query_ms(&policy, &namespace, &query, &[], Moment(0));
        assert_eq!(policy.lifetimes(ms), policy.caps());
    }

    #[test]
    fn a_result_changes_with_the_first_of_its_members() {
        let (mut estimator, policy, namespace, query) = fixture();
        let members: Vec<Key> = (0..4)
            .map(|i| namespace.record_key(&i.to_string()))
            .collect();
        for i in 0..4_000u64 {
            let record = &members[(i % 4) as usize];
            estimator.written(&namespace, record, Moment(i * 250));
        }
        let now = Moment(1_000_000);
        let one = estimator.record_ms(&policy, &namespace, &members[0], now);
        let all = estimator.query_ms(&policy, &namespace, &query, &members, now);
        // One write a second each: 1.6 s for one record at p = 0.8, a quarter of it for four.
        assert!((1_500.0..1_800.0).contains(&one), "{one}");
        assert!((all * 4.0 / one - 1.0).abs() < 0.05, "{all} {one}");
    }

    #[test]
    fn observed_lifetimes_take_over_and_rise_and_fall() {
        let (mut estimator, policy, namespace, query) = fixture();
        let mut now = Moment(0);
        let mut settle = |estimator: &mut Estimator, life_ms: u64| {
            let ms = estimator.query_ms(&policy, &namespace, &query, &[], now);
            now = now.after_ms(life_ms);
            estimator.invalidated(&policy, &query, now);
            ms
        };
        for _ in 0..30 {
            settle(&mut estimator, 5_000);
        }
        let short = settle(&mut estimator, 5_000);
        assert!((4_900.0..5_100.0).contains(&short), "{short}");
        for _ in 0..30 {
            settle(&mut estimator, 60_000);
        }
        let long = settle(&mut estimator, 60_000);
        assert!((55_000.0..61_000.0).contains(&long), "rises again: {long}");
    }

    #[test]
    fn a_value_that_holds_longer_than_the_average_raises_the_estimate() {
        let (mut estimator, policy, namespace, query) = fixture();
        estimator.query_ms(&policy, &namespace, &query, &[], Moment(0));
        estimator.invalidated(&policy, &query, Moment(1_000));
        let first = estimator.query_ms(&policy, &namespace, &query, &[], Moment(1_000));
        let later = estimator.query_ms(&policy, &namespace, &query, &[], Moment(101_000));
        assert!((999.0..1_001.0).contains(&first), "{first}");
        assert!((30_000.0..31_000.0).contains(&later), "{later}");
    }

    #[test]
    fn what_is_explained_is_what_a_read_would_be_given() {
        let (mut estimator, policy, namespace, query) = fixture();
        let members: Vec<Key> = (0..3)
            .map(|i| namespace.record_key(&i.to_string()))
            .collect();
        let mut now = Moment(0);
        for round in 0..200u64 {
            now = now.after_ms(700 + 13 * (round % 7));
            estimator.written(&namespace, &members[(round % 2) as usize], now);
            if round % 11 == 5 {
                estimator.invalidated(&policy, &query, now);
            }
            let before = estimator.explain(&policy, &namespace, &query, &members, now);
            let again = estimator.explain(&policy, &namespace, &query, &members, now);
            assert_eq!(before, again, "asking changes nothing");
            let given = estimator.query_ms(&policy, &namespace, &query, &members, now);
            assert_eq!(before.expected_ms.to_bits(), given.to_bits(), "{round}");
        }
        let explained = estimator.explain(&policy, &namespace, &query, &members, now);
        assert!(explained.last_ms.is_some() && explained.average_ms.is_some());
        assert!(explained.hottest_per_ms < explained.members_per_ms);
        assert!(explained.churn_per_ms > 0.0);
    }
}
