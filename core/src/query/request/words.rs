//! Parameters that are one of a few words.

use crate::query::{QueryError, QueryErrorKind};

/// What an answer's items are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum View {
    /// Documents.
    #[default]
    Objects,
    /// References to records.
    Ids,
    /// The server decides.
    Auto,
}

/// The dialect of Extended JSON in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rep {
    /// Numbers as JSON numbers where they are safe.
    #[default]
    Relaxed,
    /// Every type spelled out.
    Canonical,
}

impl View {
    pub(super) fn parse(text: &str) -> Result<View, QueryError> {
        match text {
            "objects" => Ok(View::Objects),
            "ids" => Ok(View::Ids),
            "auto" => Ok(View::Auto),
            _ => Err(not_a_word("view", "objects, ids or auto")),
        }
    }

    pub(super) fn text(self) -> Option<String> {
        match self {
            View::Objects => None,
            View::Ids => Some("ids".into()),
            View::Auto => Some("auto".into()),
        }
    }
}

impl Rep {
    pub(super) fn parse(text: &str) -> Result<Rep, QueryError> {
        match text {
            "relaxed" => Ok(Rep::Relaxed),
            "canonical" => Ok(Rep::Canonical),
            _ => Err(not_a_word("rep", "relaxed or canonical")),
        }
    }

    pub(super) fn text(self) -> Option<String> {
        match self {
            Rep::Relaxed => None,
            Rep::Canonical => Some("canonical".into()),
        }
    }
}

fn not_a_word(parameter: &str, words: &str) -> QueryError {
    QueryError::new(
        QueryErrorKind::Word,
        parameter,
        format!("one of {words} is needed"),
    )
}
