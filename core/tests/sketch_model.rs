//! The sketch against a model that remembers every copy ever issued: whatever a cache could still hand
//! out or use and is out of date must be in the sketch (no false negatives, ever), and with few keys
//! nothing else may be.

use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::sketch::Epoch;
use freshet_core::sketch::machine::{Limits, NewCopy, Refused, Sketch};
use freshet_core::sketch::wire::{self, Header};
use freshet_core::time::{Moment, Position, Ttl};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

struct IssuedCopy {
    key: usize,
    position: u64,
    until: u64,
    m_ms: u64,
    embedded: bool,
}

fn limits() -> Limits {
    Limits {
        keys_max: 1_000,
        changes_max: 10_000,
        collections_max: 4,
        retention_ms: 30_000,
        caps: Lifetimes {
            m: Ttl(3),
            s: Ttl(9),
        },
    }
}

/// Whether `key` is in the sketch as a client sees it.
fn contained(sketch: &mut Sketch, namespace: &Namespace, now: u64, key: &Key) -> bool {
    missing(sketch, namespace, now, [key]).is_none()
}

/// The first of `keys` that is not in the sketch.
fn missing<'k>(
    sketch: &mut Sketch,
    namespace: &Namespace,
    now: u64,
    keys: impl IntoIterator<Item = &'k Key>,
) -> Option<&'k Key> {
    let union = sketch.union(std::slice::from_ref(namespace), Moment(now));
    let header = Header {
        k: 4,
        saturated: union.saturated,
        m: union.m,
        age_ms: 0,
        epoch: sketch.epoch(),
        watermark: Position(0),
        invalidation_ms: 0,
    };
    keys.into_iter()
        .find(|key| !wire::contains(&header, &union.bits, key.as_str()))
}

#[test]
fn c3_no_false_negative_in_100_000_operations() {
    let namespace = Namespace::new("d", "c").expect("valid");
    let keys: Vec<Key> = (0..40)
        .map(|i| namespace.record_key(&i.to_string()))
        .collect();
    for seed in 0..10 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut sketch = Sketch::new(
            limits(),
            Epoch {
                number: 1,
                salt: [seed as u8; 16],
            },
        );
        let mut copies: Vec<IssuedCopy> = Vec::new();
        // Per key: when it last changed; positions at which it changed.
        let mut changed = vec![0u64; keys.len()];
        let (mut now, mut position) = (1_000u64, 1u64);
        for step in 0..10_000 {
            let key = random.random_range(0..keys.len());
            match random.random_range(0..100) {
                0..45 => {
                    let at = position - random.random_range(0..position.min(4));
                    let (m, s) = (random.random_range(0..4), random.random_range(0..10));
                    let copy = NewCopy {
                        key: &keys[key],
                        position: Position(at),
                        lifetimes: Lifetimes {
                            m: Ttl(m),
                            s: Ttl(s),
                        },
                        embedded: random.random_bool(0.3),
                    };
                    match sketch.settle(&namespace, copy, Moment(now)) {
                        Ok(()) => {
                            assert!(changed[key] <= at, "seed {seed} step {step}: C2");
                            copies.push(IssuedCopy {
                                key,
                                position: at,
                                until: now + u64::from(m + s) * 1000,
                                m_ms: u64::from(m) * 1000,
                                embedded: copy.embedded,
                            });
                        }
                        Err(Refused::InvalidatedAt(p)) => assert!(p > Position(at)),
                        Err(Refused::Full) => panic!("not that many keys"),
                    }
                }
                45..75 => {
                    position += 1;
                    changed[key] = position;
                    sketch.report_write(&namespace, &keys[key], Position(position), Moment(now));
                    if random.random_bool(0.2) {
                        sketch.report_write(
                            &namespace,
                            &keys[key],
                            Position(position),
                            Moment(now),
                        );
                    }
                }
                75..85 => {
                    // A purge of everything up to the key's last change was confirmed.
                    let p = changed[key];
                    sketch.confirm_purge(&namespace, &keys[key], Position(p), Moment(now));
                    for copy in copies
                        .iter_mut()
                        .filter(|c| c.key == key && c.position < p && !c.embedded)
                    {
                        copy.until = copy.until.min(now + copy.m_ms);
                    }
                }
                85..86 => {
                    position += 1;
                    changed.fill(position);
                    sketch.report_collection(&namespace, Position(position), Moment(now));
                }
                _ => now += random.random_range(0..600),
            }
            copies.retain(|copy| copy.until > now);
            if step % 11 == 0 {
                let stale = copies.iter().filter(|c| c.position < changed[c.key]);
                let lost = missing(&mut sketch, &namespace, now, stale.map(|c| &keys[c.key]));
                assert_eq!(
                    lost, None,
                    "seed {seed} step {step}: a stale copy is not in the sketch"
                );
            }
        }
        now += 13_000;
        let union = sketch.union(std::slice::from_ref(&namespace), Moment(now));
        assert_eq!(union.stale_keys, 0);
        assert!(
            union.bits.iter().all(|byte| *byte == 0),
            "seed {seed}: nothing is left"
        );
    }
}

#[test]
fn c8_a_new_epoch_is_saturated_until_the_longest_copy_is_gone() {
    let namespace = Namespace::new("d", "c").expect("valid");
    let key = namespace.record_key("1");
    let mut sketch = Sketch::new(
        limits(),
        Epoch {
            number: 1,
            salt: [1; 16],
        },
    );
    let copy = |position| NewCopy {
        key: &key,
        position: Position(position),
        lifetimes: Lifetimes {
            m: Ttl(1),
            s: Ttl(0),
        },
        embedded: false,
    };
    sketch.saturate(
        Epoch {
            number: 2,
            salt: [2; 16],
        },
        Position(50),
        Moment(0),
    );
    assert!(contained(&mut sketch, &namespace, 11_999, &key));
    assert!(!contained(&mut sketch, &namespace, 12_000, &key));
    assert_eq!(
        sketch.settle(&namespace, copy(49), Moment(0)),
        Err(Refused::InvalidatedAt(Position(50)))
    );
    assert_eq!(sketch.settle(&namespace, copy(50), Moment(0)), Ok(()));
    sketch.saturate(
        Epoch {
            number: 3,
            salt: [3; 16],
        },
        Position(60),
        Moment(0),
    );
    sketch.confirm_saturation(Moment(2_000));
    assert!(contained(&mut sketch, &namespace, 4_999, &key));
    assert!(!contained(&mut sketch, &namespace, 5_000, &key));
}

#[test]
fn a_full_sketch_refuses_and_drops_nothing() {
    let namespace = Namespace::new("d", "c").expect("valid");
    let small = Limits {
        keys_max: 3,
        ..limits()
    };
    let mut sketch = Sketch::new(
        small,
        Epoch {
            number: 1,
            salt: [1; 16],
        },
    );
    let keys: Vec<Key> = (0..4)
        .map(|i| namespace.record_key(&i.to_string()))
        .collect();
    let settle = |sketch: &mut Sketch, i: usize, now| {
        let copy = NewCopy {
            key: &keys[i],
            position: Position(1),
            lifetimes: Lifetimes {
                m: Ttl(1),
                s: Ttl(1),
            },
            embedded: false,
        };
        sketch.settle(&namespace, copy, Moment(now))
    };
    for i in 0..3 {
        assert_eq!(settle(&mut sketch, i, 0), Ok(()));
    }
    assert_eq!(settle(&mut sketch, 3, 1_000), Err(Refused::Full));
    assert!(sketch.report_write(&namespace, &keys[0], Position(2), Moment(1_000)));
    assert!(contained(&mut sketch, &namespace, 1_500, &keys[0]));
    assert_eq!(
        settle(&mut sketch, 3, 2_000),
        Ok(()),
        "room once copies are gone"
    );
}

#[test]
fn the_filter_grows_with_its_keys_and_shrinks_again() {
    let namespace = Namespace::new("d", "c").expect("valid");
    let mut sketch = Sketch::new(
        Limits {
            keys_max: 100_000,
            changes_max: 1_000,
            ..limits()
        },
        Epoch {
            number: 1,
            salt: [9; 16],
        },
    );
    let keys: Vec<Key> = (0..45_000)
        .map(|i| namespace.record_key(&i.to_string()))
        .collect();
    for key in &keys {
        let copy = NewCopy {
            key,
            position: Position(1),
            lifetimes: Lifetimes {
                m: Ttl(3),
                s: Ttl(9),
            },
            embedded: false,
        };
        assert_eq!(sketch.settle(&namespace, copy, Moment(0)), Ok(()));
    }
    for key in &keys {
        assert!(sketch.report_write(&namespace, key, Position(2), Moment(0)));
    }
    let union = sketch.union(std::slice::from_ref(&namespace), Moment(1));
    assert_eq!((union.stale_keys, union.m), (45_000, 116_800 * 4));
    for key in keys.iter().step_by(500) {
        assert!(contained(&mut sketch, &namespace, 1, key));
    }
    let other = |i: usize| namespace.record_key(&format!("other{i}"));
    let wrong = (0..400)
        .filter(|i| contained(&mut sketch, &namespace, 1, &other(*i)))
        .count();
    assert!(
        wrong <= 24,
        "{wrong} of 400 false positives, the target is 6 %"
    );
    let later = sketch.union(std::slice::from_ref(&namespace), Moment(12_000));
    assert_eq!((later.stale_keys, later.m), (0, 116_800));
}
