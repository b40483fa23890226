//! Writes a pattern for the `regex` crate so that it matches the same texts. Everything is spelled out: no
//! option letters but case, no shorthand, every unusual character by number.

use std::fmt::Write as _;

use super::class::{Class, Shorthand};
use super::parse::Tree;
use super::{Options, RegexReason};

/// Scripts in which PCRE 8.4x and the `regex` crate fold case alike, but for the two lists below: Latin up to
/// Extended-B, Greek, Cyrillic, Latin Extended Additional. A test asks a server about every letter.
const FOLDING_CHECKED: [(char, char); 3] = [
    ('\0', '\u{24f}'),
    ('\u{370}', '\u{52f}'),
    ('\u{1e00}', '\u{1eff}'),
];
/// Letters that newer versions of Unicode gave another partner.
const FOLDING_DIFFERS: [char; 3] = ['\u{19b}', '\u{390}', '\u{3b0}'];
/// Cyrillic letters that Unicode 9 gave a third form (U+1C80 and following), which PCRE 8.4x does not know: upper, lower.
const WITHOUT_THIRD_FORM: [(char, char); 7] = [
    ('В', 'в'),
    ('Д', 'д'),
    ('О', 'о'),
    ('С', 'с'),
    ('Т', 'т'),
    ('Ъ', 'ъ'),
    ('Ѣ', 'ѣ'),
];

/// What stands behind an item, up to the end of the pattern.
#[derive(Clone, Copy)]
struct Behind {
    /// Nothing at all.
    nothing: bool,
    /// At least one character is consumed.
    consumes: bool,
}

/// Writes a pattern.
pub(super) fn pattern(tree: &Tree, options: Options) -> Result<String, RegexReason> {
    let mut out = String::new();
    if options.ignore_case {
        out.push_str("(?i)");
    }
    let behind = Behind {
        nothing: true,
        consumes: false,
    };
    Emitter {
        options,
        out: &mut out,
    }
    .tree(tree, behind)?;
    Ok(out)
}

struct Emitter<'o> {
    options: Options,
    out: &'o mut String,
}

impl Emitter<'_> {
    fn tree(&mut self, tree: &Tree, behind: Behind) -> Result<(), RegexReason> {
        match tree {
            Tree::Alternatives(trees) => {
                for (index, tree) in trees.iter().enumerate() {
                    self.out.push_str(if index == 0 { "(?:" } else { "|" });
                    self.tree(tree, behind)?;
                }
                self.out.push(')');
                Ok(())
            }
            Tree::Sequence(trees) => {
                for (index, tree) in trees.iter().enumerate() {
                    let rest = &trees[index + 1..];
                    let behind = Behind {
                        nothing: rest.is_empty() && behind.nothing,
                        consumes: behind.consumes || rest.iter().any(consumes),
                    };
                    self.tree(tree, behind)?;
                }
                Ok(())
            }
            Tree::Repeat { tree, min, max } => self.repeat(tree, *min, *max),
            Tree::Char(c) => self.literal(*c),
            Tree::Any => {
                let any = if self.options.dot_all {
                    r"[\s\S]"
                } else {
                    r"[^\n]"
                };
                self.plain(any);
                Ok(())
            }
            Tree::Class(class) => self.class(class),
            Tree::LineStart => self.line_start(behind),
            Tree::LineEnd => self.line_end(behind),
            Tree::TextStart => self.assertion(r"\A"),
            Tree::TextEnd => self.assertion(r"\z"),
            Tree::TextEndOrNewline => self.text_end(behind),
            // ASCII, as without Unicode properties.
            Tree::WordBoundary => self.assertion(r"(?-u:\b)"),
        }
    }

    /// What is repeated stands behind itself, so nothing is known of what follows it.
    fn repeat(&mut self, tree: &Tree, min: u32, max: Option<u32>) -> Result<(), RegexReason> {
        let behind = Behind {
            nothing: false,
            consumes: false,
        };
        self.tree(tree, behind)?;
        match max {
            Some(max) => write!(self.out, "{{{min},{max}}}"),
            None => write!(self.out, "{{{min},}}"),
        }
        .map_err(|_| RegexReason::Size)
    }

    fn assertion(&mut self, text: &str) -> Result<(), RegexReason> {
        self.out.push_str(text);
        Ok(())
    }

    /// In multi-line mode PCRE's `^` does not hold behind a newline that ends the text, the automaton's does.
    /// Where a character must follow, the difference cannot show.
    fn line_start(&mut self, behind: Behind) -> Result<(), RegexReason> {
        match (self.options.multi_line, behind.consumes) {
            (false, _) => self.assertion(r"\A"),
            (true, true) => self.assertion("(?m:^)"),
            (true, false) => Err(RegexReason::Anchor),
        }
    }

    fn line_end(&mut self, behind: Behind) -> Result<(), RegexReason> {
        match self.options.multi_line {
            true => self.assertion("(?m:$)"),
            false => self.text_end(behind),
        }
    }

    /// The end, or before a newline that ends the text. At the end of the pattern that newline may as well
    /// be consumed; elsewhere that would change what follows.
    fn text_end(&mut self, behind: Behind) -> Result<(), RegexReason> {
        match behind.nothing {
            true => self.assertion(r"(?:\n?\z)"),
            false => Err(RegexReason::Anchor),
        }
    }

    fn literal(&mut self, c: char) -> Result<(), RegexReason> {
        let two = |(upper, lower): &&(char, char)| c == *upper || c == *lower;
        match WITHOUT_THIRD_FORM.iter().find(two) {
            Some((upper, lower)) if self.options.ignore_case => {
                self.out.push_str("(?-i:");
                self.set(false, &[(*upper, *upper), (*lower, *lower)], &[]);
                self.out.push(')');
            }
            _ => {
                self.check_folding(c, c)?;
                self.push(c);
            }
        }
        Ok(())
    }

    fn check_folding(&self, low: char, high: char) -> Result<(), RegexReason> {
        let within = |c: &char| low <= *c && *c <= high;
        let checked = FOLDING_CHECKED
            .iter()
            .any(|(from, to)| *from <= low && high <= *to);
        let third = WITHOUT_THIRD_FORM
            .iter()
            .any(|(upper, lower)| within(upper) || within(lower));
        match !self.options.ignore_case || checked && !third && !FOLDING_DIFFERS.iter().any(within)
        {
            true => Ok(()),
            false => Err(RegexReason::Fold),
        }
    }

    fn class(&mut self, class: &Class) -> Result<(), RegexReason> {
        for (low, high) in &class.ranges {
            self.check_folding(*low, *high)?;
        }
        if !self.options.ignore_case || class.shorthands.is_empty() {
            self.set(class.negated, &class.ranges, &class.shorthands);
            return Ok(());
        }
        // PCRE does not fold shorthands: `\w` never matches the Kelvin sign, `k` does.
        if class.ranges.is_empty() {
            self.out.push_str("(?-i:");
            self.set(class.negated, &[], &class.shorthands);
            self.out.push(')');
            return Ok(());
        }
        if class.negated {
            return Err(RegexReason::Class);
        }
        self.out.push_str("(?:(?-i:");
        self.set(false, &[], &class.shorthands);
        self.out.push_str(")|");
        self.set(false, &class.ranges, &[]);
        self.out.push(')');
        Ok(())
    }

    fn set(&mut self, negated: bool, ranges: &[(char, char)], shorthands: &[Shorthand]) {
        self.out.push_str(if negated { "[^" } else { "[" });
        for (low, high) in ranges {
            self.push(*low);
            self.out.push('-');
            self.push(*high);
        }
        for shorthand in shorthands {
            self.out
                .push_str(if shorthand.negated { "[^" } else { "[" });
            self.out.push_str(match shorthand.letter {
                'd' => "0-9",
                'w' => "0-9A-Za-z_",
                _ => r"\t\n\x0B\x0C\r\x20",
            });
            self.out.push(']');
        }
        self.out.push(']');
    }

    fn plain(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn push(&mut self, c: char) {
        if c.is_ascii_alphanumeric() {
            self.out.push(c);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(self.out, "\\x{{{:X}}}", u32::from(c));
        }
    }
}

/// Whether every match of a pattern is at least one character long.
fn consumes(tree: &Tree) -> bool {
    match tree {
        Tree::Alternatives(trees) => trees.iter().all(consumes),
        Tree::Sequence(trees) => trees.iter().any(consumes),
        Tree::Repeat { tree, min, .. } => *min > 0 && consumes(tree),
        Tree::Char(_) | Tree::Any | Tree::Class(_) => true,
        _ => false,
    }
}
