//! Regular expressions, and texts for them, out of one alphabet.

use super::Nasty;

const LETTERS: [&str; 16] = [
    "a", "b", "a", "b", "k", "s", "K", "é", "É", "ß", " ", "1", "_", "\n", "σ", "\u{212a}",
];

impl Nasty {
    /// A text of up to six characters.
    pub fn subject(&mut self) -> String {
        let length = self.below(7);
        (0..length).map(|_| self.one(&LETTERS[..])).collect()
    }

    /// A pattern and its options.
    pub fn expression(&mut self) -> (String, String) {
        let mut source = self.alternatives(2);
        if self.percent(8) {
            source.insert_str(0, self.one(&["(?i)", "(?s)", "(?m)", "(?x)", "(?is)"]));
        }
        if self.percent(25) {
            source.insert(0, '^');
        }
        if self.percent(25) {
            source.push('$');
        }
        let options = self.one(&["", "", "", "i", "i", "s", "m", "im", "x", "imsx"]);
        (source, options.to_owned())
    }

    fn alternatives(&mut self, depth: usize) -> String {
        let count = self.one(&[1, 1, 1, 2, 3]);
        let alternatives: Vec<String> = (0..count).map(|_| self.sequence(depth)).collect();
        alternatives.join("|")
    }

    fn sequence(&mut self, depth: usize) -> String {
        let count = self.below(4);
        (0..count).map(|_| self.item(depth)).collect()
    }

    fn item(&mut self, depth: usize) -> String {
        let atom = match self.below(20) {
            0..8 => self.one(&LETTERS[..]).to_owned(),
            8 => ".".to_owned(),
            9 => self
                .one(&[r"\d", r"\w", r"\s", r"\D", r"\W", r"\S"])
                .to_owned(),
            10 => self
                .one(&[r"\b", "^", "$", r"\A", r"\z", r"\Z", r"\B"])
                .to_owned(),
            11 => self
                .one(&[
                    r"\n",
                    r"\x61",
                    r"\x{212a}",
                    r"\.",
                    r"\_",
                    r"\t",
                    "#",
                    "]",
                    "}",
                    "{",
                    "-",
                ])
                .to_owned(),
            12..15 => self.class(),
            15 if depth > 0 => format!("({})", self.alternatives(depth - 1)),
            16 if depth > 0 => format!("(?:{})", self.alternatives(depth - 1)),
            17 => self
                .one(&[
                    "(?=a)",
                    r"(a)\1",
                    "a++",
                    "(?<!b)",
                    r"\p{L}",
                    "(?i:a)",
                    "[[:alpha:]]",
                ])
                .to_owned(),
            _ => self.one(&["ab", "ka"]).to_owned(),
        };
        let quantifier = self.one(&[
            "", "", "", "", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}", "*?", "+?",
            "{,2}", "{a",
        ]);
        atom + quantifier
    }

    fn class(&mut self) -> String {
        let mut class = String::from(self.one(&["[", "[", "[^"]));
        for _ in 0..1 + self.below(3) {
            class.push_str(self.one(&[
                "a", "b", "a-c", "k", "s", "K", "é", "à-ö", "A-Z", "0-9", "_", " ", r"\w", r"\d",
                r"\s", r"\W", r"\n", r"\x61", "σ", "^", "-", "[", r"\]", r"\-", ".", "&&", "~~",
                "#", "$", "\u{212a}",
            ]));
        }
        class + "]"
    }
}
