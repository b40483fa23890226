//! A condition tree over atoms, in one stretch of memory: with a million queries hardly anything is in the processor's
//! caches, and every pointer that is followed waits for the memory.

use freshet_core::predicate::Expr;
use smallvec::SmallVec;

use super::atoms::AtomId;

/// The tree in prefix order.
#[derive(Debug)]
pub(super) enum Flat {
    /// Most filters are one condition.
    One(Token),
    Tree(Box<[Token]>),
}

/// A node: two bits say what it is; the others are an atom's number, or how many of the following tokens are below it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token(u32);

const IS: u32 = 0 << 30;
const NOT: u32 = 1 << 30;
const ALL: u32 = 2 << 30;
const ANY: u32 = 3 << 30;
const KIND: u32 = 3 << 30;

impl Token {
    fn new(kind: u32, number: usize) -> Token {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        assert!(number & KIND == 0, "2^30 atoms do not fit into memory");
        Token(kind | number)
    }

    fn kind(self) -> u32 {
        self.0 & KIND
    }

    fn number(self) -> u32 {
        self.0 & !KIND
    }

    fn is_atom(self) -> bool {
        matches!(self.kind(), IS | NOT)
    }
}

impl Flat {
    pub(super) fn of(expr: &Expr<AtomId>) -> Flat {
        let mut tokens = SmallVec::new();
        write(expr, &mut tokens);
        match tokens[..] {
            [one] => Flat::One(one),
            _ => Flat::Tree(tokens[..].into()),
        }
    }

    fn tokens(&self) -> &[Token] {
        match self {
            Flat::One(one) => std::slice::from_ref(one),
            Flat::Tree(tokens) => tokens,
        }
    }

    /// Whether the whole holds, where `test` says it of each atom. Asks no more than it has to.
    pub(super) fn holds(&self, test: &mut impl FnMut(AtomId) -> bool) -> bool {
        holds(self.tokens(), test)
    }

    /// The atoms.
    pub(super) fn atoms(&self) -> impl Iterator<Item = AtomId> {
        let tokens = self.tokens().iter();
        tokens.filter(|one| one.is_atom()).map(|one| one.number())
    }

    /// The tree again.
    pub(super) fn expr(&self) -> Expr<AtomId> {
        expr(self.tokens())
    }

    /// Has it in the processor's cache soon.
    pub(super) fn glance(&self) -> u64 {
        self.tokens().first().map_or(0, |first| u64::from(first.0))
    }
}

fn write(expr: &Expr<AtomId>, tokens: &mut SmallVec<[Token; 16]>) {
    let (kind, of) = match expr {
        Expr::Is(id) => return tokens.push(Token::new(IS, *id as usize)),
        Expr::Not(id) => return tokens.push(Token::new(NOT, *id as usize)),
        Expr::All(of) => (ALL, of),
        Expr::Any(of) => (ANY, of),
    };
    let at = tokens.len();
    tokens.push(Token(kind));
    of.iter().for_each(|one| write(one, tokens));
    tokens[at] = Token::new(kind, tokens.len() - at - 1);
}

fn holds(tokens: &[Token], test: &mut impl FnMut(AtomId) -> bool) -> bool {
    let Some((node, below)) = tokens.split_first() else {
        return false;
    };
    match node.kind() {
        IS => test(node.number()),
        NOT => !test(node.number()),
        ALL => Nodes(below).all(|one| holds(one, test)),
        _ => Nodes(below).any(|one| holds(one, test)),
    }
}

fn expr(tokens: &[Token]) -> Expr<AtomId> {
    let Some((node, below)) = tokens.split_first() else {
        return Expr::never();
    };
    match node.kind() {
        IS => Expr::Is(node.number()),
        NOT => Expr::Not(node.number()),
        ALL => Expr::All(Nodes(below).map(expr).collect()),
        _ => Expr::Any(Nodes(below).map(expr).collect()),
    }
}

/// Neighbouring nodes, each with all that is below it.
struct Nodes<'t>(&'t [Token]);

impl<'t> Iterator for Nodes<'t> {
    type Item = &'t [Token];

    fn next(&mut self) -> Option<&'t [Token]> {
        let first = self.0.first()?;
        let below = match first.is_atom() {
            true => 0,
            false => first.number() as usize,
        };
        let (node, rest) = self.0.split_at_checked(1 + below)?;
        self.0 = rest;
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tree() -> impl Strategy<Value = Expr<AtomId>> {
        let leaf = prop_oneof![
            (0..6_u32).prop_map(Expr::Is),
            (0..6_u32).prop_map(Expr::Not)
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            let of = prop::collection::vec(inner, 0..4);
            prop_oneof![
                of.clone().prop_map(|of| Expr::All(of.into())),
                of.prop_map(|of| Expr::Any(of.into())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_the_tree(tree in tree(), holding in 0..64_u32) {
            let flat = Flat::of(&tree);
            let (mut asked, mut asked_of_tree) = (Vec::new(), Vec::new());
            let held = flat.holds(&mut |atom| {
                asked.push(atom);
                holding >> atom & 1 == 1
            });
            let expected = tree.holds(&mut |atom| {
                asked_of_tree.push(*atom);
                holding >> *atom & 1 == 1
            });
            prop_assert_eq!(held, expected);
            prop_assert_eq!(asked, asked_of_tree, "it asks as little");
            let mut atoms = Vec::new();
            tree.each(&mut |atom| atoms.push(*atom));
            prop_assert_eq!(flat.atoms().collect::<Vec<_>>(), atoms);
            prop_assert_eq!(flat.expr(), tree);
        }
    }

    #[test]
    fn it_is_small() {
        assert_eq!(size_of::<Flat>(), 16);
    }
}
