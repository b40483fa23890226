//! The records of an answer, in the form they came in: slices of the database's reply where it has one,
//! so that a result is copied once, into the response, and never decoded.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, Timestamp};
use mongodb::raw_batch_cursor::RawBatch;

/// The records of an answer, in order.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    parts: Vec<Part>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Part {
    Reply(RawBatch),
    Owned(Vec<RawDocumentBuf>),
}

impl Documents {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The records, in order.
    pub fn iter(&self) -> impl Iterator<Item = &RawDocument> {
        self.parts.iter().flat_map(|part| {
            let (reply, owned) = match part {
                Part::Reply(batch) => (batch.doc_slices().ok(), None),
                Part::Owned(documents) => (None, Some(documents)),
            };
            let slices = reply.into_iter().flatten().filter_map(|value| match value {
                Ok(RawBsonRef::Document(document)) => Some(document),
                _ => None,
            });
            slices.chain(owned.into_iter().flatten().map(|document| &**document))
        })
    }

    /// When the state that was read was current, if the reply says so (snapshot reads do).
    pub(crate) fn snapshot(&self) -> Option<Timestamp> {
        let Some(Part::Reply(first)) = self.parts.first() else {
            return None;
        };
        let cursor = first.as_raw_document().get_document("cursor").ok()?;
        cursor.get_timestamp("atClusterTime").ok()
    }

    /// Adds a reply's batch, having looked at every document's frame: afterwards nothing is skipped.
    ///
    /// # Errors
    /// The driver's, when the reply is not what a cursor's reply is.
    pub(crate) fn push_reply(&mut self, batch: RawBatch) -> Result<(), mongodb::error::Error> {
        let mut count = 0;
        for value in batch.doc_slices()? {
            if let RawBsonRef::Document(_) = value? {
                count += 1;
            }
        }
        // The first says what was read, even if that is nothing.
        if count > 0 || self.parts.is_empty() {
            self.len += count;
            self.parts.push(Part::Reply(batch));
        }
        Ok(())
    }
}

impl From<Vec<RawDocumentBuf>> for Documents {
    fn from(documents: Vec<RawDocumentBuf>) -> Documents {
        Documents {
            len: documents.len(),
            parts: vec![Part::Owned(documents)],
        }
    }
}
