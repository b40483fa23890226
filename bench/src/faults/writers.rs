//! Foreign programs that write with the driver, acknowledged by the majority: records change, change their group, go and
//! come again.

use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;

use super::history::Value;
use super::load::Load;
use super::universe::{COLLECTIONS, Place, RECORDS, skewed};

/// A write whose outcome is not known may still arrive for so long: until then the record is not removed, since its
/// version would not be there to refuse what comes late.
const LATE_US_MAX: u64 = 60_000_000;

/// Writes until `stop`, with this time between two writes on average.
pub(super) async fn write_on(
    load: Arc<Load>,
    mut random: StdRng,
    pause: Duration,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        // Exponential: what comes does not wait for what came.
        let factor = -f64::ln(1.0 - random.random::<f64>());
        tokio::time::sleep(pause.mul_f64(factor.min(5.0))).await;
        let collection = random.random_range(0..COLLECTIONS.len());
        let hot = skewed(&mut random, RECORDS);
        let place = Place {
            collection,
            // Half of them write what is read most, half what is read least.
            number: if random.random() {
                hot
            } else {
                RECORDS - 1 - hot
            },
        };
        let _gate = load.gates[collection].read().await;
        let Some(_turn) = load.turn(place) else {
            continue;
        };
        let next = next_value(&load, place, &mut random);
        load.write(place, next, doc! {}).await;
    }
}

/// What the record is to be next.
fn next_value(load: &Load, place: Place, random: &mut StdRng) -> Option<Value> {
    let history = load.universe.of(place);
    let version = history.next_version();
    let [home, other] = place.groups();
    let group = match history.settled() {
        Some(Some(Value { group, .. })) => {
            let late = history
                .unsure_since()
                .is_some_and(|since| load.clock.us() < since + LATE_US_MAX);
            match random.random_range(0..100) {
                0..6 if !late => return None,
                0..18 if group == home => other,
                0..18 => home,
                _ => group,
            }
        }
        _ => home,
    };
    Some(Value { version, group })
}
