//! Conditions joined by and, or, not. Negation stands at the conditions only: whoever looks for an index reads
//! the tree as it is.

/// A tree over conditions of type `A`.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr<A> {
    /// The condition holds.
    Is(A),
    /// It does not.
    Not(A),
    /// All of these; empty: always.
    All(Box<[Expr<A>]>),
    /// One of these at least; empty: never.
    Any(Box<[Expr<A>]>),
}

impl<A> Expr<A> {
    /// What never holds.
    #[must_use]
    pub fn never() -> Expr<A> {
        Expr::Any(Box::default())
    }

    /// All of these.
    #[must_use]
    pub fn all(mut of: Vec<Expr<A>>) -> Expr<A> {
        match of.len() {
            1 => of.remove(0),
            _ => Expr::All(of.into()),
        }
    }

    /// One of these.
    #[must_use]
    pub fn any(mut of: Vec<Expr<A>>) -> Expr<A> {
        match of.len() {
            1 => of.remove(0),
            _ => Expr::Any(of.into()),
        }
    }

    /// The opposite.
    #[must_use]
    pub fn negated(self) -> Expr<A> {
        match self {
            Expr::Is(condition) => Expr::Not(condition),
            Expr::Not(condition) => Expr::Is(condition),
            Expr::All(of) => Expr::Any(of.into_iter().map(Expr::negated).collect()),
            Expr::Any(of) => Expr::All(of.into_iter().map(Expr::negated).collect()),
        }
    }

    /// Whether the whole holds, where `test` says it of each condition. Asks no more than it has to.
    pub fn holds(&self, test: &mut impl FnMut(&A) -> bool) -> bool {
        match self {
            Expr::Is(condition) => test(condition),
            Expr::Not(condition) => !test(condition),
            Expr::All(of) => of.iter().all(|one| one.holds(test)),
            Expr::Any(of) => of.iter().any(|one| one.holds(test)),
        }
    }

    /// The same tree over other conditions.
    pub fn map<B>(self, to: &mut impl FnMut(A) -> B) -> Expr<B> {
        match self {
            Expr::Is(condition) => Expr::Is(to(condition)),
            Expr::Not(condition) => Expr::Not(to(condition)),
            Expr::All(of) => Expr::All(of.into_iter().map(|one| one.map(to)).collect()),
            Expr::Any(of) => Expr::Any(of.into_iter().map(|one| one.map(to)).collect()),
        }
    }

    /// Calls `visit` with every condition.
    pub fn each<'a>(&'a self, visit: &mut impl FnMut(&'a A)) {
        match self {
            Expr::Is(condition) | Expr::Not(condition) => visit(condition),
            Expr::All(of) | Expr::Any(of) => of.iter().for_each(|one| one.each(visit)),
        }
    }
}
