//! Character classes, as PCRE reads them.

use super::RegexReason;
use super::parse::Reader;

/// A character class.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Class {
    pub(super) negated: bool,
    pub(super) ranges: Vec<(char, char)>,
    pub(super) shorthands: Vec<Shorthand>,
}

/// `\d`, `\w`, `\s` and their complements: ASCII, since MongoDB compiles without Unicode properties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shorthand {
    pub(super) letter: char,
    pub(super) negated: bool,
}

impl Reader<'_> {
    /// The class whose `[` has been read.
    pub(super) fn class(&mut self) -> Result<Class, RegexReason> {
        let mut class = Class {
            negated: self.eat('^'),
            ..Class::default()
        };
        let mut first = true;
        loop {
            let next = self.rest.next().ok_or(RegexReason::Syntax)?;
            if next == ']' && !first {
                return Ok(class);
            }
            first = false;
            match self.class_item(next)? {
                Err(shorthand) => {
                    class.shorthands.push(shorthand);
                    // A hyphen after a shorthand is a character, but only just: left to PCRE.
                    if self.after("-").is_some() && self.after("-]").is_none() {
                        return Err(RegexReason::Class);
                    }
                }
                Ok(low) => {
                    let high = self.range_end(low)?;
                    if high < low {
                        return Err(RegexReason::Syntax);
                    }
                    class.ranges.push((low, high));
                }
            }
        }
    }

    fn range_end(&mut self, low: char) -> Result<char, RegexReason> {
        if self.after("-").is_none() || self.after("-]").is_some() {
            return Ok(low);
        }
        self.rest.next();
        let next = self.rest.next().ok_or(RegexReason::Syntax)?;
        self.class_item(next)?.map_err(|_| RegexReason::Class)
    }

    /// A character of a class, or a shorthand.
    fn class_item(&mut self, next: char) -> Result<Result<char, Shorthand>, RegexReason> {
        match next {
            '[' if matches!(self.rest.peek(), Some(':' | '.' | '=')) => Err(RegexReason::Class),
            '\\' => {
                let letter = self.rest.next().ok_or(RegexReason::Syntax)?;
                match (letter, shorthand(letter)) {
                    ('b', _) => Ok(Ok('\u{8}')),
                    (_, Some(shorthand)) => Ok(Err(shorthand)),
                    (letter, None) => self.escaped_char(letter).map(Ok),
                }
            }
            c => Ok(Ok(c)),
        }
    }
}

/// The shorthand that a letter after a backslash is.
pub(super) fn shorthand(letter: char) -> Option<Shorthand> {
    matches!(letter, 'd' | 'w' | 's' | 'D' | 'W' | 'S').then(|| Shorthand {
        letter: letter.to_ascii_lowercase(),
        negated: letter.is_ascii_uppercase(),
    })
}
