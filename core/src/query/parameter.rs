//! The texts of parameters: integers, words, signed paths. Strict, so that a request has one meaning.

use super::{PATH_COMPONENTS_MAX, QueryError, QueryErrorKind};
use crate::value::path::{INDEXES_MAX, Path};

/// Why a text is not a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// Empty, or with an empty component.
    #[error("a path and each of its components has at least one character")]
    Empty,
    /// A component begins with `$`.
    #[error("no component of a path begins with $")]
    Dollar,
    /// U+0000, which BSON names cannot hold.
    #[error("a path cannot hold U+0000")]
    Nul,
    /// More components than [`PATH_COMPONENTS_MAX`], or more numbers among them than [`INDEXES_MAX`].
    #[error(
        "a path has at most {PATH_COMPONENTS_MAX} components, at most {INDEXES_MAX} of them numbers"
    )]
    TooLong,
}

/// Checks a path of `sort` or `fields`, or of a pipeline's stage.
pub(crate) fn check_path(path: &str) -> Result<(), PathError> {
    if path.contains('\0') {
        return Err(PathError::Nul);
    }
    if path.split('.').any(str::is_empty) {
        return Err(PathError::Empty);
    }
    if path.split('.').any(|component| component.starts_with('$')) {
        return Err(PathError::Dollar);
    }
    check_length(path)
}

/// Whether a path is short enough to be followed.
pub(super) fn check_length(path: &str) -> Result<(), PathError> {
    match path.split('.').count() > PATH_COMPONENTS_MAX || Path::new(path).indexes() > INDEXES_MAX {
        true => Err(PathError::TooLong),
        false => Ok(()),
    }
}

/// A path and whether a minus stands before it.
pub(super) fn split_signed(part: &str) -> (bool, &str) {
    match part.strip_prefix('-') {
        Some(path) => (true, path),
        None => (false, part),
    }
}

/// A decimal integer without sign, fraction or leading zeros, from `min` to `max`.
pub(super) fn integer(parameter: &str, text: &str, min: u32, max: u32) -> Result<u32, QueryError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || (text.len() > 1 && text.starts_with('0')) {
        let detail = "a decimal integer without sign, fraction or leading zeros is needed";
        return Err(QueryError::new(QueryErrorKind::Integer, parameter, detail));
    }
    match text.parse() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => {
            let detail = format!("an integer from {min} to {max} is needed");
            Err(QueryError::new(QueryErrorKind::Range, parameter, detail))
        }
    }
}
