//! A settings tree that remembers where each value was written, so that a mistake can be shown with its place.
//!
//! TOML is turned into this once; variables and flags become nodes too. Nothing here knows a setting's meaning.

use std::fmt;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// File, line and column, both from 1; the column counts characters.
    File(Arc<str>, usize, usize),
    /// An environment variable.
    Variable(String),
    /// A command-line flag.
    Flag(String),
    /// Nowhere: the setting was left out.
    Absent,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(file, line, column) => write!(f, "{file}:{line}:{column}"),
            Place::Variable(name) => write!(f, "environment variable {name}"),
            Place::Flag(name) => write!(f, "flag {name}"),
            Place::Absent => f.write_str("settings"),
        }
    }
}

/// One value with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// What was written.
    pub value: Value,
    /// Where.
    pub place: Place,
    /// The text as it stood, for values from variables and flags: `8080` may be meant as a string.
    pub text: Option<String>,
}

/// The kinds of value that settings have.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    String(String),
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A boolean.
    Boolean(bool),
    /// An array.
    Array(Vec<Node>),
    /// A table: name, place of the name, value.
    Table(Vec<(String, Place, Node)>),
    /// A date, or a number that does not fit: no setting takes one.
    Other(&'static str),
}

impl Value {
    /// The kind, with an article, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::String(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Boolean(_) => "a boolean",
            Value::Array(_) => "an array",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }
}

/// A mistake in the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where.
    pub place: Place,
    /// What is wrong and, where it can be said, what would be right.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Reads a TOML document. What can be read is, and every syntax mistake is reported.
#[must_use]
pub fn parse_file(file: &str, source: &str) -> (Node, Vec<Mistake>) {
    let file: Arc<str> = file.into();
    let place = |offset: usize| locate(&file, source, offset);
    let (table, errors) = DeTable::parse_recoverable(source);
    let mistakes = errors
        .iter()
        .map(|error| Mistake {
            place: place(error.span().map_or(0, |span| span.start)),
            what: error.message().to_owned(),
        })
        .collect();
    let node = Node {
        value: table_value(table.get_ref(), &place),
        place: place(0),
        text: None,
    };
    (node, mistakes)
}

/// Reads the text of a variable or flag: a TOML value where it is one, otherwise a string.
#[must_use]
pub fn parse_text(text: &str, place: &Place) -> Node {
    let value = DeValue::parse(text.trim()).map_or_else(
        |_| Value::String(text.to_owned()),
        |parsed| from_toml(parsed.get_ref(), &|_| place.clone()),
    );
    Node {
        value,
        place: place.clone(),
        text: Some(text.to_owned()),
    }
}

fn table_value(table: &DeTable<'_>, place: &dyn Fn(usize) -> Place) -> Value {
    Value::Table(
        table
            .iter()
            .map(|(name, value)| {
                let node = Node {
                    value: from_toml(value.get_ref(), place),
                    place: place(value.span().start),
                    text: None,
                };
                (name.get_ref().to_string(), place(name.span().start), node)
            })
            .collect(),
    )
}

fn from_toml(value: &DeValue<'_>, place: &dyn Fn(usize) -> Place) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_or(Value::Other("an integer beyond 64 bits"), Value::Integer),
        DeValue::Float(float) => float
            .as_str()
            .parse()
            .map_or(Value::Other("a float"), Value::Float),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| Node {
                    value: from_toml(item.get_ref(), place),
                    place: place(item.span().start),
                    text: None,
                })
                .collect(),
        ),
        DeValue::Table(table) => table_value(table, place),
    }
}

fn locate(file: &Arc<str>, source: &str, offset: usize) -> Place {
    let before = source.get(..offset).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    Place::File(Arc::clone(file), line, column)
}
