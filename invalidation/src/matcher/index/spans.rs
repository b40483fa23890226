//! Which spans contain a key: an interval tree over the bits of the keys (H. Edelsbrunner, "Dynamic data structures
//! for orthogonal intersection queries", 1980; the tree's nodes are those of a binary trie, hence it never has to be
//! balanced). A span lives at the highest node whose middle it contains. Of the at most 128 nodes above a key only
//! those on levels that are in use are looked up, each by one hash.
//!
//! Asking costs the levels in use and what is found; adding and removing cost a logarithm at worst.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use freshet_core::value::order_key::OrderKey;
use hashbrown::HashTable;

/// Beyond it a node keeps its spans in order.
const FEW_MAX: usize = 24;

#[derive(Clone, Copy, Debug)]
struct Span {
    low: OrderKey,
    high: OrderKey,
    id: u32,
}

#[derive(Debug)]
enum Node {
    One(Span),
    /// None, when it is not in use.
    Few(Vec<Span>),
    Many(Box<Many>),
}

#[derive(Debug)]
struct Many {
    lows: BTreeSet<(OrderKey, u32)>,
    highs: BTreeSet<(OrderKey, u32)>,
}

/// The spans. An id may stand for several.
#[derive(Debug)]
pub(super) struct Spans {
    /// By the middle, which tells the level: its lowest bit that is set.
    nodes: HashTable<u32>,
    slots: Vec<(OrderKey, Node)>,
    free: Vec<u32>,
    /// Nodes per level; level 1 is that of two neighbouring keys.
    levels: [u32; 129],
    /// The middles in order, from the first question for an overlap on.
    middles: Option<BTreeSet<OrderKey>>,
}

impl Default for Spans {
    fn default() -> Spans {
        Spans {
            nodes: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            levels: [0; 129],
            middles: None,
        }
    }
}

/// The level and the middle of the highest node whose middle lies within.
fn node_of(low: u128, high: u128) -> (u32, u128) {
    let level = match low ^ high {
        0 => low.trailing_zeros() + 1,
        differing => 128 - differing.leading_zeros(),
    };
    (level, high >> (level - 1) << (level - 1))
}

/// No key is 0 but `MinKey`'s: a span of it alone would have no middle.
fn bounds(low: OrderKey, high: OrderKey) -> (u128, u128) {
    (low.bits(), high.bits().max(1))
}

impl Spans {
    pub(super) fn insert(&mut self, low: OrderKey, high: OrderKey, id: u32) {
        let (low, high) = bounds(low, high);
        let (level, middle) = node_of(low, high);
        let span = Span {
            low: OrderKey::from_bits(low),
            high: OrderKey::from_bits(high),
            id,
        };
        let middle = OrderKey::from_bits(middle);
        match self.find(middle) {
            Some(at) => self.slots[at].1.insert(span),
            None => self.add(middle, level, Node::One(span)),
        }
    }

    fn find(&self, middle: OrderKey) -> Option<usize> {
        let same = |at: &u32| self.slots[*at as usize].0 == middle;
        self.nodes.find(hash(middle), same).map(|at| *at as usize)
    }

    fn add(&mut self, middle: OrderKey, level: u32, node: Node) {
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = (middle, node);
                at
            }
            None => {
                self.slots.push((middle, node));
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        let slots = &self.slots;
        let rehash = |at: &u32| hash(slots[*at as usize].0);
        self.nodes.insert_unique(hash(middle), at, rehash);
        self.levels[level as usize] += 1;
        if let Some(middles) = &mut self.middles {
            middles.insert(middle);
        }
    }

    pub(super) fn remove(&mut self, low: OrderKey, high: OrderKey, id: u32) {
        let (low, high) = bounds(low, high);
        let (level, middle) = node_of(low, high);
        let middle = OrderKey::from_bits(middle);
        let Some(at) = self.find(middle) else {
            return;
        };
        let node = &mut self.slots[at].1;
        node.remove(OrderKey::from_bits(low), OrderKey::from_bits(high), id);
        if !node.is_empty() {
            return;
        }
        *node = Node::Few(Vec::new());
        let same = |one: &u32| *one as usize == at;
        if let Ok(entry) = self.nodes.find_entry(hash(middle), same) {
            self.free.push(*entry.get());
            entry.remove();
        }
        self.levels[level as usize] -= 1;
        if let Some(middles) = &mut self.middles {
            middles.remove(&middle);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The spans that contain a key.
    pub(super) fn containing(&self, key: OrderKey, visit: &mut impl FnMut(u32)) {
        let key = key.bits().max(1);
        self.above(
            key,
            |node, middle, visit| {
                match key < middle {
                    true => node.beginning_by(OrderKey::from_bits(key), visit),
                    false => node.ending_after(OrderKey::from_bits(key), visit),
                };
            },
            visit,
        );
    }

    /// The spans that have a key between these, both included.
    pub(super) fn overlapping(
        &mut self,
        low: OrderKey,
        high: OrderKey,
        visit: &mut impl FnMut(u32),
    ) {
        let (low, high) = bounds(low, high);
        let slots = &self.slots;
        let in_use = self.nodes.iter().map(|at| slots[*at as usize].0);
        let middles = self.middles.get_or_insert_with(|| in_use.collect());
        for middle in middles.range(OrderKey::from_bits(low)..=OrderKey::from_bits(high)) {
            let same = |at: &u32| slots[*at as usize].0 == *middle;
            if let Some(at) = self.nodes.find(hash(*middle), same) {
                slots[*at as usize].1.each(visit);
            }
        }
        // What is not above one of the ends lies between them, or beyond.
        self.above(
            low,
            |node, middle, visit| {
                if middle < low {
                    node.ending_after(OrderKey::from_bits(low), visit);
                }
            },
            visit,
        );
        self.above(
            high,
            |node, middle, visit| {
                if middle > high {
                    node.beginning_by(OrderKey::from_bits(high), visit);
                }
            },
            visit,
        );
    }

    /// Every node that has the key below it, with its middle.
    fn above<V: FnMut(u32)>(
        &self,
        key: u128,
        mut ask: impl FnMut(&Node, u128, &mut V),
        visit: &mut V,
    ) {
        for level in 1..=128_u32 {
            if self.levels[level as usize] == 0 {
                continue;
            }
            let middle = (key >> (level - 1) | 1) << (level - 1);
            if let Some(at) = self.find(OrderKey::from_bits(middle)) {
                ask(&self.slots[at].1, middle, visit);
            }
        }
    }
}

fn hash(middle: OrderKey) -> u64 {
    FixedState::default().hash_one(middle)
}

impl Node {
    fn insert(&mut self, span: Span) {
        match self {
            Node::One(one) => *self = Node::Few(vec![*one, span]),
            Node::Few(few) if few.len() < FEW_MAX => few.push(span),
            Node::Few(few) => {
                let all = || few.iter().chain([&span]);
                *self = Node::Many(Box::new(Many {
                    lows: all().map(|one| (one.low, one.id)).collect(),
                    highs: all().map(|one| (one.high, one.id)).collect(),
                }));
            }
            Node::Many(many) => {
                many.lows.insert((span.low, span.id));
                many.highs.insert((span.high, span.id));
            }
        }
    }

    fn remove(&mut self, low: OrderKey, high: OrderKey, id: u32) {
        let same = |one: &Span| (one.low, one.high, one.id) == (low, high, id);
        match self {
            Node::One(one) => {
                if same(one) {
                    *self = Node::Few(Vec::new());
                }
            }
            Node::Few(few) => {
                if let Some(at) = few.iter().position(same) {
                    few.swap_remove(at);
                }
            }
            Node::Many(many) => {
                many.lows.remove(&(low, id));
                many.highs.remove(&(high, id));
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Node::One(_) => false,
            Node::Few(few) => few.is_empty(),
            Node::Many(many) => many.lows.is_empty(),
        }
    }

    fn each(&self, visit: &mut impl FnMut(u32)) {
        match self {
            Node::One(one) => visit(one.id),
            Node::Few(few) => few.iter().for_each(|one| visit(one.id)),
            Node::Many(many) => many.lows.iter().for_each(|(_, id)| visit(*id)),
        }
    }

    fn beginning_by(&self, key: OrderKey, visit: &mut impl FnMut(u32)) {
        match self {
            Node::One(one) => {
                if one.low <= key {
                    visit(one.id);
                }
            }
            Node::Few(few) => {
                let found = few.iter().filter(|one| one.low <= key);
                found.for_each(|one| visit(one.id));
            }
            Node::Many(many) => {
                let found = many.lows.range(..=(key, u32::MAX));
                found.for_each(|(_, id)| visit(*id));
            }
        }
    }

    fn ending_after(&self, key: OrderKey, visit: &mut impl FnMut(u32)) {
        match self {
            Node::One(one) => {
                if one.high >= key {
                    visit(one.id);
                }
            }
            Node::Few(few) => {
                let found = few.iter().filter(|one| one.high >= key);
                found.for_each(|one| visit(one.id));
            }
            Node::Many(many) => {
                let found = many.highs.range((key, 0)..);
                found.for_each(|(_, id)| visit(*id));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(ask: impl FnOnce(&mut dyn FnMut(u32))) -> Vec<u32> {
        let mut all = Vec::new();
        ask(&mut |id| all.push(id));
        all.sort_unstable();
        all
    }

    /// Keys that meet: small ones, and ones that differ in high bits only.
    fn key() -> impl Strategy<Value = u128> {
        prop_oneof![
            0..64_u128,
            (0..8_u128).prop_map(|n| n << 125),
            any::<u128>()
        ]
    }

    proptest! {
        #[test]
        fn spans_are_found_as_a_loop_finds_them(
            spans in prop::collection::vec((key(), key()), 1..120),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
            asked in prop::collection::vec((key(), key()), 1..20),
        ) {
            let ordered = |(a, b): (u128, u128)| (a.min(b), a.max(b));
            let mut model: Vec<Option<(u128, u128)>> = spans.into_iter().map(ordered).map(Some).collect();
            let mut index = Spans::default();
            for (id, span) in (0..).zip(&model) {
                let (low, high) = span.unwrap_or_default();
                index.insert(OrderKey::from_bits(low), OrderKey::from_bits(high), id);
            }
            for at in removed {
                let at = at.index(model.len());
                if let Some((low, high)) = model[at].take() {
                    let id = u32::try_from(at).unwrap_or_default();
                    index.remove(OrderKey::from_bits(low), OrderKey::from_bits(high), id);
                }
            }
            for (low, high) in asked.into_iter().map(ordered) {
                let expected = |low: u128, high: u128| -> Vec<u32> {
                    let overlaps = |span: &(u128, u128)| span.0 <= high.max(1) && span.1.max(1) >= low;
                    (0..).zip(&model).filter(|(_, span)| span.as_ref().is_some_and(overlaps)).map(|(id, _)| id).collect()
                };
                let (l, h) = (OrderKey::from_bits(low), OrderKey::from_bits(high));
                prop_assert_eq!(found(|mut v| index.containing(l, &mut v)), expected(low.max(1), low));
                prop_assert_eq!(found(|mut v| index.overlapping(l, h, &mut v)), expected(low, high));
            }
            let left = model.iter().flatten().count();
            prop_assert_eq!(index.is_empty(), left == 0);
        }
    }
}
