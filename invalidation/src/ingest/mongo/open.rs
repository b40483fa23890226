//! Opening the stream: what this server can do, and the pipeline that asks for it.

use std::time::Duration;

use bson::{Bson, Document, RawDocumentBuf, Timestamp, doc};
use freshet_core::time::Position;
use mongodb::Client;
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria};
use mongodb::raw_batch_cursor::RawBatchCursor;

use super::{AWAIT_MS, BATCH_EVENTS_MAX, ping};

/// Where a stream begins.
#[derive(Clone, Debug)]
pub(super) enum Start {
    /// At the primary's operation time when it is opened.
    Now,
    /// At this time.
    At(Position),
    /// After this resume token.
    After(RawDocumentBuf),
    /// After a token that cannot be read.
    Lost,
}

/// What the server's version has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// Before- and after-images, and `showExpandedEvents` (6.0).
    images: bool,
    /// `$changeStreamSplitLargeEvent` (6.0.9; 7.0).
    split: bool,
}

impl Features {
    fn of(version: (i64, i64, i64)) -> Features {
        Features {
            images: version >= (6, 0, 0),
            split: version >= (6, 0, 9),
        }
    }
}

/// Asks the server for its version.
pub(super) async fn features(client: &Client) -> Result<Features, Error> {
    let info = client
        .database("admin")
        .run_command(doc! { "buildInfo": 1 })
        .await?;
    let part = |index: usize| {
        info.get_array("versionArray")
            .ok()
            .and_then(|parts| parts.get(index))
            .and_then(|part| part.as_i64().or(part.as_i32().map(i64::from)))
            .unwrap_or(0)
    };
    Ok(Features::of((part(0), part(1), part(2))))
}

/// The primary's operation time: the newest write it has applied, majority-committed or not.
pub(super) async fn operation_time(client: &Client) -> Result<Position, Error> {
    let reply = client
        .database("admin")
        .run_command(ping())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .await?;
    match reply.get("operationTime") {
        Some(Bson::Timestamp(time)) => Ok(Position::from_timestamp(time.time, time.increment)),
        _ => Err(ErrorKind::Custom(std::sync::Arc::new(
            "the deployment is no replica set: it has no operation time".to_owned(),
        ))
        .into()),
    }
}

/// Opens the stream over all databases but the server's own.
pub(super) async fn stream(
    client: &Client,
    features: Features,
    start: &Start,
) -> Result<RawBatchCursor, Error> {
    client
        .database("admin")
        .aggregate(pipeline(features, start)?)
        .read_concern(ReadConcern::majority())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .batch_size(BATCH_EVENTS_MAX)
        .max_await_time(Duration::from_millis(AWAIT_MS))
        .batch()
        .await
}

fn pipeline(features: Features, start: &Start) -> Result<Vec<Document>, Error> {
    let mut stage = doc! { "allChangesForCluster": true };
    if features.images {
        stage.insert("fullDocument", "whenAvailable");
        stage.insert("fullDocumentBeforeChange", "whenAvailable");
        stage.insert("showExpandedEvents", true);
    }
    match start {
        Start::At(position) => {
            let (time, increment) = position.to_timestamp();
            stage.insert("startAtOperationTime", Timestamp { time, increment });
        }
        // Unlike `resumeAfter`, also past an event that ended an earlier stream.
        Start::After(token) => {
            stage.insert("startAfter", Document::try_from(token.as_ref())?);
        }
        Start::Now | Start::Lost => {}
    }
    let mut stages = vec![
        doc! { "$changeStream": stage },
        doc! { "$match": { "ns.db": { "$nin": ["admin", "config", "local"] } } },
        // It repeats what the images say, and can be as large.
        doc! { "$unset": "updateDescription" },
    ];
    if features.split {
        stages.push(doc! { "$changeStreamSplitLargeEvent": {} });
    }
    Ok(stages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_only_for_what_its_version_has() {
        let stages = |version| pipeline(Features::of(version), &Start::Now).unwrap();
        let old = stages((5, 0, 32));
        assert!(
            !old[0]
                .get_document("$changeStream")
                .unwrap()
                .contains_key("fullDocument")
        );
        assert_eq!(stages((6, 0, 5)).len(), 3);
        assert_eq!(
            stages((6, 0, 27)).last().unwrap(),
            &doc! { "$changeStreamSplitLargeEvent": {} }
        );
        assert_eq!(stages((8, 0, 0)).len(), 4);
    }
}
