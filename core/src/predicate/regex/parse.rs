//! Reads the part of PCRE's language that has an exact counterpart (pcrepattern(3), PCRE 8.4x, UTF mode without
//! Unicode properties), and names what it refuses.

use std::iter::Peekable;
use std::str::Chars;

use super::class::{Class, shorthand};
use super::{Options, RegexReason};

/// The deepest nesting of groups.
const GROUP_DEPTH_MAX: usize = 32;
/// The largest repetition count.
const REPETITIONS_MAX: u32 = 1_000;

/// How often unbounded repetition may be repeated.
const NESTED_REPETITIONS_MAX: u32 = 3;

/// A pattern.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Alternatives(Vec<Tree>),
    Sequence(Vec<Tree>),
    Repeat {
        tree: Box<Tree>,
        min: u32,
        /// `None` is unbounded.
        max: Option<u32>,
    },
    Char(char),
    /// `.`
    Any,
    Class(Class),
    /// `^`
    LineStart,
    /// `$`
    LineEnd,
    /// `\A`
    TextStart,
    /// `\z`
    TextEnd,
    /// `\Z`: before a final newline, too.
    TextEndOrNewline,
    /// `\b`
    WordBoundary,
}

/// Reads a pattern; options that it sets for itself at its head (`(?i)`) are added to those given.
pub(super) fn pattern(source: &str, options: Options) -> Result<(Tree, Options), RegexReason> {
    let mut reader = Reader {
        rest: source.chars().peekable(),
        options,
        depth: 0,
    };
    reader.leading_options()?;
    let tree = reader.alternatives()?;
    match reader.rest.next() {
        None => Ok((tree, reader.options)),
        Some(_) => Err(RegexReason::Syntax),
    }
}

/// The plain text that every match begins with, where the pattern begins at the text's start.
pub(super) fn prefix(tree: &Tree, options: Options) -> Box<str> {
    let Tree::Sequence(items) = tree else {
        return Box::default();
    };
    let anchored = match items.first() {
        Some(Tree::TextStart) => true,
        Some(Tree::LineStart) => !options.multi_line,
        _ => false,
    };
    if !anchored || options.ignore_case {
        return Box::default();
    }
    let plain = items[1..].iter().map_while(|item| match item {
        Tree::Char(c) => Some(*c),
        _ => None,
    });
    plain.collect::<String>().into()
}

/// What a pattern without any metacharacter but a leading anchor looks for.
pub(super) enum Plain {
    /// The text of [`prefix`], at the beginning.
    Beginning,
    /// This text, anywhere.
    Anywhere(Box<str>),
    /// These texts, one after the other, anything but a line's end between them (`ab.*cd`).
    Ordered(Vec<String>),
}

/// The plain text a pattern is, if it is one.
pub(super) fn plain(tree: &Tree, options: Options) -> Option<Plain> {
    let items = match tree {
        Tree::Sequence(items) => &items[..],
        one => std::slice::from_ref(one),
    };
    let text = |items: &[Tree]| {
        let chars = items.iter().map(|item| match item {
            Tree::Char(c) => Some(*c),
            _ => None,
        });
        chars.collect::<Option<String>>()
    };
    if options.ignore_case {
        return None;
    }
    match items.split_first()? {
        (Tree::TextStart, rest) => text(rest).map(|_| Plain::Beginning),
        (Tree::LineStart, rest) if !options.multi_line => text(rest).map(|_| Plain::Beginning),
        _ => match text(items) {
            Some(text) => Some(Plain::Anywhere(text.into())),
            None => ordered(items).map(Plain::Ordered),
        },
    }
}

/// The plain texts between `.*`, at least two. At the ends it says nothing.
fn ordered(items: &[Tree]) -> Option<Vec<String>> {
    let mut texts = vec![String::new()];
    for item in items {
        match (item, texts.last_mut()) {
            (Tree::Char(c), Some(text)) => text.push(*c),
            (
                Tree::Repeat {
                    tree,
                    min: 0,
                    max: None,
                },
                _,
            ) if **tree == Tree::Any => {
                texts.push(String::new());
            }
            _ => return None,
        }
    }
    texts.retain(|text| !text.is_empty());
    (texts.len() > 1).then_some(texts)
}

pub(super) struct Reader<'s> {
    pub(super) rest: Peekable<Chars<'s>>,
    options: Options,
    depth: usize,
}

impl<'s> Reader<'s> {
    pub(super) fn eat(&mut self, expected: char) -> bool {
        self.rest.next_if_eq(&expected).is_some()
    }

    /// What follows, when it begins with `prefix`.
    pub(super) fn after(&self, prefix: &str) -> Option<Peekable<Chars<'s>>> {
        let mut ahead = self.rest.clone();
        prefix
            .chars()
            .all(|c| ahead.next() == Some(c))
            .then_some(ahead)
    }

    fn leading_options(&mut self) -> Result<(), RegexReason> {
        let Some(mut ahead) = self.after("(?") else {
            return Ok(());
        };
        let mut letters = String::new();
        while let Some(letter) = ahead.next_if(|c| "imsx".contains(*c)) {
            letters.push(letter);
        }
        if letters.is_empty() || ahead.next() != Some(')') {
            return Ok(());
        }
        let own = Options::of(&letters);
        self.options = Options {
            ignore_case: self.options.ignore_case || own.ignore_case,
            multi_line: self.options.multi_line || own.multi_line,
            dot_all: self.options.dot_all || own.dot_all,
            extended: self.options.extended || own.extended,
        };
        for _ in 0..letters.len() + 3 {
            self.rest.next();
        }
        Ok(())
    }

    fn alternatives(&mut self) -> Result<Tree, RegexReason> {
        let mut alternatives = vec![self.sequence()?];
        while self.eat('|') {
            alternatives.push(self.sequence()?);
        }
        Ok(match alternatives.len() {
            1 => alternatives.remove(0),
            _ => Tree::Alternatives(alternatives),
        })
    }

    fn sequence(&mut self) -> Result<Tree, RegexReason> {
        let mut items = Vec::new();
        loop {
            self.skip_space();
            match self.rest.peek() {
                None | Some('|' | ')') => return Ok(Tree::Sequence(items)),
                Some(_) => {
                    let atom = self.atom()?;
                    items.push(self.quantified(atom)?);
                }
            }
        }
    }

    /// White space and comments say nothing in extended mode.
    fn skip_space(&mut self) -> bool {
        let mut skipped = false;
        while self.options.extended {
            if self
                .rest
                .next_if(|c| matches!(c, '\t'..='\r' | ' '))
                .is_some()
            {
                skipped = true;
            } else if self.eat('#') {
                skipped = true;
                while self.rest.next().is_some_and(|c| c != '\n') {}
            } else {
                break;
            }
        }
        skipped
    }

    fn atom(&mut self) -> Result<Tree, RegexReason> {
        match self.rest.next() {
            Some('.') => Ok(Tree::Any),
            Some('^') => Ok(Tree::LineStart),
            Some('$') => Ok(Tree::LineEnd),
            Some('(') => self.group(),
            Some('[') => self.class().map(Tree::Class),
            Some('\\') => self.escape(),
            Some('*' | '+' | '?') | None => Err(RegexReason::Syntax),
            Some(c) => Ok(Tree::Char(c)),
        }
    }

    fn group(&mut self) -> Result<Tree, RegexReason> {
        if self.eat('*') || (self.eat('?') && !self.eat(':')) {
            return Err(RegexReason::Group);
        }
        if self.depth == GROUP_DEPTH_MAX {
            return Err(RegexReason::Size);
        }
        self.depth += 1;
        let tree = self.alternatives()?;
        self.depth -= 1;
        match self.eat(')') {
            // A group stays one item: what repeats it repeats the whole.
            true => Ok(Tree::Alternatives(vec![tree])),
            false => Err(RegexReason::Syntax),
        }
    }

    fn quantified(&mut self, atom: Tree) -> Result<Tree, RegexReason> {
        let spaced = self.skip_space();
        let Some((min, max)) = self.quantifier()? else {
            return Ok(atom);
        };
        let assertion = !matches!(
            atom,
            Tree::Char(_) | Tree::Any | Tree::Class(_) | Tree::Alternatives(_)
        );
        // Laziness changes which match is found, never whether there is one.
        let lazy = self.eat('?');
        let possessive = !lazy && self.eat('+');
        self.skip_space();
        if spaced || assertion || possessive || self.quantifier()?.is_some() {
            return Err(RegexReason::Quantifier);
        }
        // Here PCRE's back-tracking explodes, and the server gives up with "no match" after 10^7 steps.
        if max.is_none_or(|max| max > NESTED_REPETITIONS_MAX) && has_unbounded(&atom) {
            return Err(RegexReason::Nested);
        }
        Ok(Tree::Repeat {
            tree: Box::new(atom),
            min,
            max,
        })
    }

    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>)>, RegexReason> {
        let simple = match self.rest.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => return self.counted(),
            _ => return Ok(None),
        };
        self.rest.next();
        Ok(Some(simple))
    }

    /// `{n}`, `{n,}`, `{n,m}`; any other brace is a character.
    fn counted(&mut self) -> Result<Option<(u32, Option<u32>)>, RegexReason> {
        let mut ahead = self.rest.clone();
        ahead.next();
        let Some(min) = number(&mut ahead) else {
            return Ok(None);
        };
        let max = match ahead.next() {
            Some('}') => Some(Some(min)),
            Some(',') => {
                let max = number(&mut ahead);
                (ahead.next() == Some('}')).then_some(max)
            }
            _ => None,
        };
        let Some(max) = max else {
            return Ok(None);
        };
        if max.unwrap_or(min) < min {
            return Err(RegexReason::Syntax);
        }
        if max.unwrap_or(min) > REPETITIONS_MAX {
            return Err(RegexReason::Size);
        }
        self.rest = ahead;
        Ok(Some((min, max)))
    }

    fn escape(&mut self) -> Result<Tree, RegexReason> {
        let Some(letter) = self.rest.next() else {
            return Err(RegexReason::Syntax);
        };
        Ok(match letter {
            'A' => Tree::TextStart,
            'z' => Tree::TextEnd,
            'Z' => Tree::TextEndOrNewline,
            'b' => Tree::WordBoundary,
            _ => match shorthand(letter) {
                Some(shorthand) => Tree::Class(Class {
                    shorthands: vec![shorthand],
                    ..Class::default()
                }),
                None => Tree::Char(self.escaped_char(letter)?),
            },
        })
    }

    pub(super) fn escaped_char(&mut self, letter: char) -> Result<char, RegexReason> {
        match letter {
            't' => Ok('\t'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            'f' => Ok('\u{c}'),
            'e' => Ok('\u{1b}'),
            'a' => Ok('\u{7}'),
            'x' => self.hexadecimal(),
            c if c.is_ascii_alphanumeric() => Err(RegexReason::Escape),
            c => Ok(c),
        }
    }

    /// `\xhh` with exactly two digits, or `\x{…}`.
    fn hexadecimal(&mut self) -> Result<char, RegexReason> {
        let mut digits = String::new();
        let braced = self.eat('{');
        while digits.len() < if braced { 6 } else { 2 } {
            match self.rest.next_if(char::is_ascii_hexdigit) {
                Some(digit) => digits.push(digit),
                None => break,
            }
        }
        if (braced && !self.eat('}')) || (!braced && digits.len() != 2) {
            return Err(RegexReason::Escape);
        }
        let code = u32::from_str_radix(&digits, 16).map_err(|_| RegexReason::Escape)?;
        char::from_u32(code).ok_or(RegexReason::Escape)
    }
}

/// A count of up to five digits (PCRE's own limit is 65,535).
fn number(ahead: &mut Peekable<Chars<'_>>) -> Option<u32> {
    let mut digits = String::new();
    while let Some(digit) = ahead.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    if digits.len() > 5 {
        return Some(u32::MAX);
    }
    digits.parse().ok()
}

fn has_unbounded(tree: &Tree) -> bool {
    match tree {
        Tree::Alternatives(trees) | Tree::Sequence(trees) => trees.iter().any(has_unbounded),
        Tree::Repeat { tree, max, .. } => max.is_none() || has_unbounded(tree),
        _ => false,
    }
}
