//! Looking up records whose update came without its after-image: one query per collection and reply, made
//! causally after the newest of the events, so that what it finds is `Later`, never earlier.

use std::collections::HashMap;

use bson::{Bson, RawBson, RawDocumentBuf, Timestamp, doc};
use freshet_core::change::{Change, Image};
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use futures_util::StreamExt;
use mongodb::Client;
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria};

use super::event::Parsed;

/// Fills in the after-images that are missing, where the database lets us.
pub(super) async fn fill(client: &Client, events: &mut [Parsed]) -> Result<(), Error> {
    let mut wanted: HashMap<Namespace, Vec<RawBson>> = HashMap::new();
    let mut newest = Position::ZERO;
    for event in events.iter().filter(|event| event.look_up) {
        if let Change::Record { id, .. } = &event.change.change {
            newest = newest.max(event.change.position);
            let ids = wanted.entry(event.change.namespace.clone()).or_default();
            if !ids.contains(id) {
                ids.push(id.clone());
            }
        }
    }
    for (namespace, ids) in wanted {
        let found = match read(client, &namespace, &ids, newest).await {
            Ok(found) => found,
            // Not permitted, or not a collection any more: unknown is an answer, and waiting would not help.
            Err(error) if matches!(*error.kind, ErrorKind::Command(_)) => continue,
            Err(error) => return Err(error),
        };
        let looked_up = events
            .iter_mut()
            .filter(|event| event.look_up && event.change.namespace == namespace);
        for event in looked_up {
            if let Change::Record { id, after, .. } = &mut event.change.change {
                let record = found.iter().find(|record| has_id(record, id));
                *after = Image::Later(record.cloned());
                event.look_up = false;
            }
        }
    }
    Ok(())
}

async fn read(
    client: &Client,
    namespace: &Namespace,
    ids: &[RawBson],
    after: Position,
) -> Result<Vec<RawDocumentBuf>, Error> {
    let mut members = Vec::with_capacity(ids.len());
    for id in ids {
        members.push(Bson::try_from(id.clone())?);
    }
    let mut session = client.start_session().causal_consistency(true).await?;
    let (time, increment) = after.to_timestamp();
    session.advance_operation_time(Timestamp { time, increment });
    let mut cursor = client
        .database(namespace.db())
        .collection::<RawDocumentBuf>(namespace.collection())
        .find(doc! { "_id": { "$in": members } })
        .read_concern(ReadConcern::majority())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .session(&mut session)
        .await?;
    let mut found = Vec::new();
    let mut records = cursor.stream(&mut session);
    while let Some(record) = records.next().await {
        found.push(record?);
    }
    Ok(found)
}

/// An event names the `_id` exactly as it is stored.
fn has_id(record: &RawDocumentBuf, id: &RawBson) -> bool {
    matches!(record.get("_id"), Ok(Some(stored)) if stored == id.as_raw_bson_ref())
}
