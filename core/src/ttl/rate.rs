//! Write rates that fade: each write counts 1/τ and decays with e^(−t/τ), so a rate needs two numbers and
//! no list of arrivals (Quaestor §5.3).

use std::collections::HashMap;

use crate::key::Key;
use crate::time::Moment;

/// τ: the window over which a rate is measured, milliseconds (300 s in the authors' prepared runs).
pub const WINDOW_MS: f64 = 300_000.0;

/// A fading rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Decayed {
    rate: f64,
    at: Moment,
}

impl Decayed {
    /// One more event.
    pub fn count(&mut self, now: Moment) {
        self.rate = self.per_ms(now) + 1.0 / WINDOW_MS;
        self.at = now;
    }

    /// Events per millisecond.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn per_ms(&self, now: Moment) -> f64 {
        self.rate * (-(now.since(self.at) as f64) / WINDOW_MS).exp()
    }
}

/// The write rates of one collection's records: exact for those written lately, a prior for the rest.
#[derive(Debug)]
pub struct WriteRates {
    records: HashMap<Key, Decayed>,
    /// Writes to records that were not known: what the unknown ones have in store.
    news: Decayed,
    /// At least so many records there are.
    population: usize,
    records_max: usize,
}

impl WriteRates {
    /// Knows at most `records_max` records apart.
    #[must_use]
    pub fn new(records_max: usize) -> WriteRates {
        WriteRates {
            records: HashMap::new(),
            news: Decayed::default(),
            population: 1,
            records_max,
        }
    }

    /// The record was written.
    pub fn count(&mut self, record: &Key, now: Moment) {
        if let Some(rate) = self.records.get_mut(record.as_str()) {
            return rate.count(now);
        }
        self.news.count(now);
        if self.records.len() >= self.records_max {
            let faded = 1.0 / WINDOW_MS / std::f64::consts::E;
            self.records.retain(|_, rate| rate.per_ms(now) > faded);
        }
        if self.records.len() < self.records_max {
            let mut rate = Decayed::default();
            rate.count(now);
            self.records.insert(record.clone(), rate);
        }
        self.population = self.population.max(self.records.len());
    }

    /// An answer had so many records.
    pub fn saw(&mut self, records: usize) {
        self.population = self.population.max(records);
    }

    /// Writes per millisecond of a record. One that was not written lately gets its share of the writes
    /// that go to such records.
    #[must_use]
    pub fn per_ms(&self, record: &Key, now: Moment) -> f64 {
        self.per_ms_among(record, 0, now)
    }

    /// The same, where at least so many records are known to be there.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn per_ms_among(&self, record: &Key, records: usize, now: Moment) -> f64 {
        match self.records.get(record.as_str()) {
            Some(rate) => rate.per_ms(now),
            None => self.news.per_ms(now) / self.population.max(records) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(i: u64) -> Key {
        Key::from(format!("/v1/d/c/{i}"))
    }

    #[test]
    fn a_steady_rate_is_found_and_fades() {
        let mut rates = WriteRates::new(100);
        // Two writes a second for twenty minutes.
        for i in 0..2_400 {
            rates.count(&key(1), Moment(i * 500));
        }
        let now = Moment(2_400 * 500);
        let per_s = rates.per_ms(&key(1), now) * 1000.0;
        assert!((1.9..2.1).contains(&per_s), "{per_s}");
        let later = now.after_ms(3_000_000);
        assert!(rates.per_ms(&key(1), later) * 1000.0 < 0.001);
    }

    #[test]
    fn hot_records_do_not_make_cold_ones_look_hot() {
        let mut rates = WriteRates::new(100);
        rates.saw(1_000);
        for i in 0..10_000 {
            rates.count(&key(i % 5), Moment(i * 10));
        }
        let now = Moment(100_000);
        assert!(rates.per_ms(&key(3), now) > 1_000.0 * rates.per_ms(&key(77), now));
        assert!(rates.per_ms(&key(77), now) > 0.0, "but not immutable");
    }

    #[test]
    fn the_table_is_bounded() {
        let mut rates = WriteRates::new(10);
        for i in 0..1_000 {
            rates.count(&key(i), Moment(i));
        }
        assert!(rates.records.len() <= 10);
        assert!(rates.per_ms(&key(999), Moment(1_000)) > 0.0);
        rates.count(&key(5_000), Moment(10_000_000));
        assert_eq!(rates.records.len(), 1, "faded records make room");
    }
}
