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
        transfer_ms: 0,
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

/// The sketch, and the truth beside it.
struct Model {
    sketch: Sketch,
    namespace: Namespace,
    keys: Vec<Key>,
    copies: Vec<IssuedCopy>,
    /// Per key, the position of its last change.
    changed: Vec<u64>,
    now: u64,
    position: u64,
    random: SmallRng,
}

impl Model {
    fn new(seed: u64) -> Model {
        let namespace = Namespace::new("d", "c").expect("valid");
        let salt = [u8::try_from(seed).expect("small"); 16];
        Model {
            sketch: Sketch::new(limits(), Epoch { number: 1, salt }),
            keys: (0..40)
                .map(|i| namespace.record_key(&i.to_string()))
                .collect(),
            namespace,
            copies: Vec::new(),
            changed: vec![0; 40],
            now: 1_000,
            position: 1,
            random: SmallRng::seed_from_u64(seed),
        }
    }

    fn step(&mut self) {
        let key = self.random.random_range(0..self.keys.len());
        match self.random.random_range(0..100) {
            0..45 => self.read(key),
            45..75 => self.write(key),
            75..85 => self.confirm(key),
            85..86 => self.drop_collection(),
            _ => self.now += self.random.random_range(0..600),
        }
        let now = self.now;
        self.copies.retain(|copy| copy.until > now);
    }

    fn read(&mut self, key: usize) {
        let at = self.position - self.random.random_range(0..self.position.min(4));
        let (m, s) = (
            self.random.random_range(0..4),
            self.random.random_range(0..10),
        );
        let copy = NewCopy {
            key: &self.keys[key],
            position: Position(at),
            lifetimes: Lifetimes {
                m: Ttl(m),
                s: Ttl(s),
            },
            embedded: self.random.random_bool(0.3),
        };
        let settled = self.sketch.settle(&self.namespace, copy, Moment(self.now));
        match settled {
            Ok(()) => {
                assert!(self.changed[key] <= at, "C2");
                self.copies.push(IssuedCopy {
                    key,
                    position: at,
                    until: self.now + u64::from(m + s) * 1000,
                    m_ms: u64::from(m) * 1000,
                    embedded: copy.embedded,
                });
            }
            Err(Refused::InvalidatedAt(p)) => assert!(p > Position(at)),
            Err(Refused::Full) => panic!("not that many keys"),
        }
    }

    fn write(&mut self, key: usize) {
        self.position += 1;
        self.changed[key] = self.position;
        for _ in 0..self.random.random_range(1..3) {
            let position = Position(self.position);
            self.sketch
                .report_write(&self.namespace, &self.keys[key], position, Moment(self.now));
        }
    }

    /// A purge of everything up to the key's last change was confirmed.
    fn confirm(&mut self, key: usize) {
        let (p, now) = (self.changed[key], self.now);
        self.sketch
            .confirm_purge(&self.namespace, &self.keys[key], Position(p), Moment(now));
        let purged =
            |copy: &&mut IssuedCopy| copy.key == key && copy.position < p && !copy.embedded;
        for copy in self.copies.iter_mut().filter(purged) {
            copy.until = copy.until.min(now + copy.m_ms);
        }
    }

    fn drop_collection(&mut self) {
        self.position += 1;
        self.changed.fill(self.position);
        let position = Position(self.position);
        self.sketch
            .report_collection(&self.namespace, position, Moment(self.now));
    }

    /// A key of which a stale, usable copy is out, and which is not in the sketch.
    fn false_negative(&mut self) -> Option<&Key> {
        let changed = &self.changed;
        let stale = self.copies.iter().filter(|c| c.position < changed[c.key]);
        let keys = &self.keys;
        missing(
            &mut self.sketch,
            &self.namespace,
            self.now,
            stale.map(|c| &keys[c.key]),
        )
    }
}

#[test]
fn c3_no_false_negative_in_100_000_operations() {
    for seed in 0..10 {
        let mut model = Model::new(seed);
        for step in 0..10_000 {
            model.step();
            if step % 11 == 0 {
                assert_eq!(model.false_negative(), None, "seed {seed} step {step}");
            }
        }
        let later = Moment(model.now + 13_000);
        let union = model
            .sketch
            .union(std::slice::from_ref(&model.namespace), later);
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

#[test]
fn collections_that_nothing_is_left_of_make_room_and_leave_their_floor() {
    let limits = Limits {
        collections_max: 2,
        ..limits()
    };
    let epoch = Epoch {
        number: 1,
        salt: [1; 16],
    };
    let mut sketch = Sketch::new(limits, epoch);
    let space = |name: &str| Namespace::new("d", name).expect("valid");
    let read = |sketch: &mut Sketch, namespace: &Namespace, position, now| {
        let key = namespace.record_key("1");
        let copy = NewCopy {
            key: &key,
            position: Position(position),
            lifetimes: Lifetimes {
                m: Ttl(1),
                s: Ttl(0),
            },
            embedded: false,
        };
        sketch.settle(namespace, copy, Moment(now))
    };
    assert_eq!(read(&mut sketch, &space("a"), 1, 0), Ok(()));
    sketch.report_write(
        &space("b"),
        &space("b").record_key("1"),
        Position(5),
        Moment(0),
    );
    assert_eq!(read(&mut sketch, &space("c"), 1, 999), Err(Refused::Full));
    assert_eq!(
        read(&mut sketch, &space("c"), 1, 1_000),
        Ok(()),
        "a is gone"
    );
    assert_eq!(
        read(&mut sketch, &space("b"), 4, 29_999),
        Err(Refused::InvalidatedAt(Position(5)))
    );
    // b is forgotten, but not that something changed at 5.
    assert_eq!(read(&mut sketch, &space("d"), 9, 30_000), Ok(()));
    assert_eq!(
        read(&mut sketch, &space("b"), 4, 30_000),
        Err(Refused::InvalidatedAt(Position(5)))
    );
    // What has no room cannot be remembered: nothing read before it is cached anywhere new.
    sketch.report_write(
        &space("x"),
        &space("x").record_key("1"),
        Position(20),
        Moment(30_000),
    );
    assert_eq!(
        read(&mut sketch, &space("x"), 19, 60_000),
        Err(Refused::InvalidatedAt(Position(20)))
    );
}
