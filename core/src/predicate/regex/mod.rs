//! Regular expressions: MongoDB's are PCRE's, ours are automata. A pattern is read as PCRE reads it (`parse.rs`) and
//! written for the `regex` crate with the same meaning (`emit.rs`), or refused with a reason. The automaton's time
//! is linear in the text, which is why nobody can stall the matcher with a pattern.

mod class;
mod emit;
mod parse;

use std::hash::Hasher;

use bson::{RawBsonRef, Regex};
use memchr::memmem;

use self::parse::Plain;
use crate::query::Pattern;

/// The largest compiled automaton, in bytes.
const AUTOMATON_BYTES_MAX: usize = 1 << 20;
/// The largest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 4_096;

/// Why a pattern is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegexReason {
    /// Look-ahead, look-behind, atomic or conditional groups, named groups, comments, options on the way.
    #[error("a group that is more than a group")]
    Group,
    /// A back reference, a property, or another escape without an exact counterpart.
    #[error("an escape without an exact counterpart")]
    Escape,
    /// A possessive or doubled quantifier, or one on an assertion.
    #[error("a quantifier without an exact counterpart")]
    Quantifier,
    /// Unbounded repetition within unbounded repetition: PCRE may give up on it.
    #[error("nested unbounded repetition")]
    Nested,
    /// `$` where something follows, `^` in multi-line mode where nothing must follow.
    #[error("an anchor without an exact counterpart")]
    Anchor,
    /// A class with a POSIX name, or one whose parts fold case differently.
    #[error("a character class without an exact counterpart")]
    Class,
    /// Case-insensitive characters outside the scripts whose folding was checked.
    #[error("characters whose case folding may differ")]
    Fold,
    /// Not a valid pattern.
    #[error("a syntax error")]
    Syntax,
    /// Too long, nested too deeply, or too large an automaton.
    #[error("too large an automaton")]
    Size,
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Matcher {
    search: Search,
    /// As given: a stored regular expression matches when it is the same.
    source: Regex,
    prefix: Box<str>,
}

/// How a text is searched. Plain texts, which most patterns are, need no automaton: it would be a hundred times their
/// size.
#[derive(Clone, Debug)]
enum Search {
    Beginning,
    Anywhere(Box<memmem::Finder<'static>>),
    /// The automaton is for texts of several lines.
    Ordered(Box<[memmem::Finder<'static>]>, regex::Regex),
    Automaton(regex::Regex),
}

/// The letters of a pattern's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
    extended: bool,
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Matcher) -> bool {
        self.source == other.source
    }
}

impl Matcher {
    /// Feeds what tells it from others.
    pub(super) fn feed(&self, hasher: &mut impl Hasher) {
        hasher.write(self.source.pattern.as_str().as_bytes());
        hasher.write(self.source.options.as_str().as_bytes());
    }

    /// The text that every matching string begins with, as far as it is a plain one: the pattern is anchored.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Compiles the operand of `$regex`.
    pub(super) fn new(pattern: &Pattern) -> Result<Matcher, RegexReason> {
        match pattern.to_value() {
            bson::RawBson::RegularExpression(regex) => Matcher::of(&regex),
            _ => Err(RegexReason::Syntax),
        }
    }

    /// Compiles a regular expression.
    pub(super) fn of(regex: &Regex) -> Result<Matcher, RegexReason> {
        if regex.pattern.len() > PATTERN_BYTES_MAX {
            return Err(RegexReason::Size);
        }
        let options = Options::of(regex.options.as_str());
        let (tree, options) = parse::pattern(regex.pattern.as_str(), options)?;
        let translated = emit::pattern(&tree, options)?;
        let prefix = parse::prefix(&tree, options);
        let search = match parse::plain(&tree, options) {
            Some(Plain::Beginning) => Search::Beginning,
            Some(Plain::Anywhere(text)) => {
                Search::Anywhere(Box::new(memmem::Finder::new(&*text).into_owned()))
            }
            Some(Plain::Ordered(texts)) => {
                let finders = texts
                    .iter()
                    .map(|text| memmem::Finder::new(text).into_owned());
                Search::Ordered(finders.collect(), automaton(&translated)?)
            }
            None => Search::Automaton(automaton(&translated)?),
        };
        Ok(Matcher {
            search,
            source: regex.clone(),
            prefix,
        })
    }

    /// Whether a value is a text that matches, or this very regular expression.
    pub(super) fn matches(&self, value: RawBsonRef<'_>) -> bool {
        match value {
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => match &self.search {
                Search::Beginning => text.starts_with(&*self.prefix),
                Search::Anywhere(finder) => finder.find(text.as_bytes()).is_some(),
                Search::Ordered(finders, automaton) => match memchr::memchr(b'\n', text.as_bytes())
                {
                    Some(_) => automaton.is_match(text),
                    None => in_order(finders, text.as_bytes()),
                },
                Search::Automaton(automaton) => automaton.is_match(text),
            },
            RawBsonRef::RegularExpression(stored) => {
                stored.pattern.as_str() == self.source.pattern.as_str()
                    && stored.options.as_str() == self.source.options.as_str()
            }
            _ => false,
        }
    }
}

/// Whether the texts are there one after the other: the first place of each leaves most room for the next.
fn in_order(finders: &[memmem::Finder<'_>], text: &[u8]) -> bool {
    let mut rest = text;
    finders.iter().all(|finder| match finder.find(rest) {
        Some(at) => {
            rest = &rest[at + finder.needle().len()..];
            true
        }
        None => false,
    })
}

fn automaton(translated: &str) -> Result<regex::Regex, RegexReason> {
    regex::RegexBuilder::new(translated)
        .size_limit(AUTOMATON_BYTES_MAX)
        .dfa_size_limit(AUTOMATON_BYTES_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => RegexReason::Size,
            _ => RegexReason::Syntax,
        })
}

impl Options {
    fn of(letters: &str) -> Options {
        let has = |letter| letters.contains(letter);
        Options {
            ignore_case: has('i'),
            multi_line: has('m'),
            dot_all: has('s'),
            extended: has('x'),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::raw::CString;

    use super::*;

    #[test]
    fn texts_in_order_are_what_the_automaton_finds() {
        let patterns = [
            ("ab.*cd", ""),
            ("a.*a", ""),
            (".*ab.*.*cd.*", ""),
            ("ab.*cd.*ab", ""),
            ("ab.*cd", "s"),
            ("é.*b", ""),
        ];
        let texts = [
            "",
            "a",
            "aa",
            "abcd",
            "xxabyycdzz",
            "cdab",
            "ab\ncd",
            "ab\nabxcd",
            "abcdab",
            "abcab",
            "éb",
            "bé",
            "acdab",
        ];
        for (pattern, options) in patterns {
            let regex = Regex {
                pattern: CString::try_from(pattern).expect("no NUL"),
                options: CString::try_from(options).expect("no NUL"),
            };
            let matcher = Matcher::of(&regex).expect("it can be decided");
            let Search::Ordered(_, automaton) = &matcher.search else {
                panic!("{pattern} is texts in order");
            };
            for text in texts {
                let found = matcher.matches(RawBsonRef::String(text));
                assert_eq!(found, automaton.is_match(text), "{pattern:?} {text:?}");
            }
        }
    }
}
