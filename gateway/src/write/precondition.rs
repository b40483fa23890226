//! What must hold of a record for a write to happen (RFC 9110 §13.1, RFC 6585 §3). Looked at inside the store's
//! transaction, so that nothing changes between the look and the write.

use bson::RawDocument;
use freshet_core::freshness::{ETag, TagList, etag};
use freshet_core::query::Rep;
use http::HeaderMap;
use http::header::{IF_MATCH, IF_NONE_MATCH};

use crate::error::{Kind, Problem};
use crate::read::answer::tags;
use crate::read::fetch::document_body;

/// A write's conditions.
#[derive(Clone, Debug, Default)]
pub struct Precondition {
    if_match: Option<TagList>,
    if_none_match: Option<TagList>,
    /// The collection demands that changing an existing record is conditional.
    required: bool,
}

/// Why a write does not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// 412.
    Failed,
    /// 428.
    Required,
}

impl Precondition {
    /// Reads the conditions.
    ///
    /// # Errors
    /// 400 for a field that is no list of tags: a condition that cannot be read is never taken as met.
    pub fn parse(headers: &HeaderMap, required: bool) -> Result<Precondition, Problem> {
        Ok(Precondition {
            if_match: tags(headers, &IF_MATCH)?,
            if_none_match: tags(headers, &IF_NONE_MATCH)?,
            required,
        })
    }

    /// Whether it holds whatever the record is.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.if_match.is_none() && self.if_none_match.is_none() && !self.required
    }

    /// Whether it holds of the record as it is. A record has a tag in each representation; any of them names it.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, current: Option<&RawDocument>) -> Result<(), Unmet> {
        let tags = current.map_or([None, None], |document| {
            [Rep::Relaxed, Rep::Canonical].map(|rep| Some(record_tag(document, rep)))
        });
        let names = |list: &TagList| tags.iter().any(|tag| list.matches(*tag));
        if self.if_match.as_ref().is_some_and(|list| !names(list)) {
            return Err(Unmet::Failed);
        }
        if self.if_none_match.as_ref().is_some_and(names) {
            return Err(Unmet::Failed);
        }
        // `If-None-Match` with a tag that is long gone holds of any state: it is no protection against lost updates.
        if self.required && current.is_some() && self.if_match.is_none() {
            return Err(Unmet::Required);
        }
        Ok(())
    }
}

impl From<Unmet> for Problem {
    fn from(unmet: Unmet) -> Problem {
        match unmet {
            Unmet::Failed => Problem::new(
                Kind::PreconditionFailed,
                "the record is not in the state that the request named",
            ),
            Unmet::Required => Problem::new(
                Kind::PreconditionRequired,
                "this collection's records are changed with If-Match only",
            ),
        }
    }
}

/// A record's tag.
#[must_use]
pub fn record_tag(document: &RawDocument, rep: Rep) -> ETag {
    etag(&document_body(document, rep))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;
    use http::HeaderValue;

    fn parse(name: http::HeaderName, value: &str, required: bool) -> Precondition {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).expect("a header value"));
        Precondition::parse(&headers, required).expect("valid")
    }

    #[test]
    fn e3_a_tag_of_either_representation_names_the_record() {
        let document = rawdoc! { "_id": 1, "n": 5_i64 };
        for rep in [Rep::Relaxed, Rep::Canonical] {
            let tag = record_tag(&document, rep).to_string();
            assert_eq!(parse(IF_MATCH, &tag, true).check(Some(&document)), Ok(()));
            let strong = tag.trim_start_matches("W/");
            assert_eq!(
                parse(IF_MATCH, strong, false).check(Some(&document)),
                Ok(())
            );
            let other = rawdoc! { "_id": 1, "n": 6_i64 };
            assert_eq!(
                parse(IF_MATCH, &tag, false).check(Some(&other)),
                Err(Unmet::Failed)
            );
            assert_eq!(parse(IF_MATCH, &tag, false).check(None), Err(Unmet::Failed));
        }
    }

    #[test]
    fn creating_only_and_demanded_conditions() {
        let document = rawdoc! { "_id": 1 };
        let star = parse(IF_NONE_MATCH, "*", true);
        assert_eq!(star.check(None), Ok(()));
        assert_eq!(star.check(Some(&document)), Err(Unmet::Failed));
        let demanded = Precondition::parse(&HeaderMap::new(), true).expect("valid");
        assert_eq!(demanded.check(Some(&document)), Err(Unmet::Required));
        assert_eq!(demanded.check(None), Ok(()));
        let evading = parse(IF_NONE_MATCH, "\"gone\"", true);
        assert_eq!(evading.check(Some(&document)), Err(Unmet::Required));
        assert!(
            Precondition::parse(&HeaderMap::new(), false)
                .expect("valid")
                .is_none()
        );
    }
}
