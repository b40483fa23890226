//! Events too large for one reply: `$changeStreamSplitLargeEvent` cuts them at their top-level fields, and
//! every fragment says `splitEvent: { fragment, of }`. They are put together before anything counts as read.

use std::borrow::Cow;

use bson::error::Error;
use bson::{RawDocument, RawDocumentBuf};

/// The fragments of an event that has begun and not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Fragments {
    parts: Vec<RawDocumentBuf>,
}

impl Fragments {
    /// The whole event, if `document` is one or ends one.
    pub(super) fn complete<'d>(
        &mut self,
        document: &'d RawDocument,
    ) -> Result<Option<Cow<'d, RawDocument>>, Error> {
        let Some(split) = document
            .get("splitEvent")?
            .and_then(|split| split.as_document())
        else {
            return Ok(Some(Cow::Borrowed(document)));
        };
        let (fragment, of) = (number(split, "fragment")?, number(split, "of")?);
        if fragment <= 1 {
            self.parts.clear();
        }
        self.parts.push(document.to_owned());
        if fragment < of {
            return Ok(None);
        }
        let mut whole = RawDocumentBuf::new();
        for part in std::mem::take(&mut self.parts) {
            for field in &*part {
                let (name, value) = field?;
                if !matches!(name.as_str(), "_id" | "splitEvent") {
                    whole.append(name, value);
                }
            }
        }
        Ok(Some(Cow::Owned(whole)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }
}

fn number(document: &RawDocument, name: &str) -> Result<i64, Error> {
    Ok(match document.get(name)? {
        Some(bson::RawBsonRef::Int32(number)) => i64::from(number),
        Some(bson::RawBsonRef::Int64(number)) => number,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn an_event_is_whole_with_its_last_fragment() {
        let mut fragments = Fragments::default();
        let first = rawdoc! { "_id": 1, "operationType": "update", "splitEvent": { "fragment": 1, "of": 2 } };
        let second = rawdoc! { "_id": 2, "fullDocument": { "a": 1 }, "splitEvent": { "fragment": 2, "of": 2 } };
        assert!(fragments.complete(&first).unwrap().is_none());
        assert!(!fragments.is_empty());
        assert_eq!(
            &*fragments.complete(&second).unwrap().unwrap(),
            &*rawdoc! { "operationType": "update", "fullDocument": { "a": 1 } }
        );
        assert!(fragments.is_empty());
    }

    #[test]
    fn an_event_delivered_again_begins_again() {
        let mut fragments = Fragments::default();
        let part = |n: i32| match n {
            1 => rawdoc! { "f1": 1, "splitEvent": { "fragment": 1, "of": 3 } },
            2 => rawdoc! { "f2": 2, "splitEvent": { "fragment": 2, "of": 3 } },
            _ => rawdoc! { "f3": 3, "splitEvent": { "fragment": 3, "of": 3 } },
        };
        for n in [1, 2, 1, 2] {
            assert!(fragments.complete(&part(n)).unwrap().is_none());
        }
        let last = part(3);
        let whole = fragments.complete(&last).unwrap().unwrap();
        assert_eq!(&*whole, &*rawdoc! { "f1": 1, "f2": 2, "f3": 3 });
    }
}
