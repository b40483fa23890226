//! The change stream: its history is lost, its cursor dies, an event does not fit.

use anyhow::{Result, ensure};
use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongodb::Client;

use super::{Fault, World, fault, hold};
use crate::faults::history::Value;
use crate::faults::universe::{LARGE, PICTURED, Place};

/// Two images of this size do not fit into one event.
const LARGE_BYTES: usize = 9 << 20;

pub(super) fn faults() -> Vec<Fault> {
    vec![
        fault!(
            "history-lost",
            "both gateways' change streams fail with 286 (ChangeStreamHistoryLost)",
            history_lost
        ),
        fault!(
            "event-too-large",
            "both gateways' change streams fail with 10334 (BSONObjectTooLarge)",
            too_large
        ),
        fault!(
            "large-record",
            "a record of 9 MB is written twice: its images do not fit into one event",
            large_record
        ),
        fault!(
            "cursors-killed",
            "the change streams' cursors are killed",
            cursors_killed
        ),
    ]
}

async fn history_lost(world: &World) -> Result<()> {
    fail_streams(world, 286).await
}

async fn too_large(world: &World) -> Result<()> {
    fail_streams(world, 10_334).await
}

/// The next `getMore` of each gateway fails with this code, as the server says it of a stream that cannot go on.
async fn fail_streams(world: &World, code: i32) -> Result<()> {
    let admin = World::direct(world.primary().await?)
        .await?
        .database("admin");
    for gateway in &world.gateways {
        let data = doc! {
            "failCommands": ["getMore"],
            "errorCode": code,
            "errorLabels": ["NonResumableChangeStreamError"],
            "appName": &gateway.name,
        };
        let once =
            doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data };
        admin.run_command(once).await?;
        // There is one such fail point: it is met before it is set for the next.
        hold(2).await;
        let off = doc! { "configureFailPoint": "failCommand", "mode": "off" };
        let met = admin.run_command(off).await?;
        let count = met
            .get_i64("count")
            .or_else(|_| met.get_i32("count").map(i64::from));
        ensure!(count.unwrap_or(0) > 0, "the fail point was not met: {met}");
    }
    Ok(())
}

async fn large_record(world: &World) -> Result<()> {
    let place = Place {
        collection: PICTURED,
        number: LARGE,
    };
    let load = &world.load;
    let _gate = load.gates[PICTURED].read().await;
    let _turn = load.next_turn(place).await;
    for letter in ["a", "b", "c"] {
        let value = Value {
            version: load.universe.of(place).next_version(),
            group: place.groups()[0],
        };
        let blob = doc! { "blob": letter.repeat(LARGE_BYTES) };
        load.write(place, Some(value), blob).await;
        hold(2).await;
    }
    let value = Value {
        version: load.universe.of(place).next_version(),
        group: place.groups()[0],
    };
    load.write(place, Some(value), doc! {}).await;
    Ok(())
}

async fn cursors_killed(world: &World) -> Result<()> {
    let mut killed = 0;
    for _ in 0..3 {
        for node in &world.mongo.nodes {
            killed += kill_cursors(&World::direct(node).await?).await?;
        }
        hold(1).await;
    }
    ensure!(killed > 0, "no cursor was found");
    Ok(())
}

/// Kills the gateways' cursors on one node. Between two requests they are idle, else in the midst of one.
async fn kill_cursors(client: &Client) -> Result<usize> {
    let admin = client.database("admin");
    let stages = [
        doc! { "$currentOp": { "allUsers": true, "idleCursors": true } },
        doc! { "$match": { "appName": { "$regex": "^gateway" }, "cursor.cursorId": { "$exists": true } } },
    ];
    let found: Vec<Document> = admin.aggregate(stages).await?.try_collect().await?;
    for operation in &found {
        let cursor = operation.get_document("cursor")?.get_i64("cursorId")?;
        let kill = doc! { "killCursors": "$cmd.aggregate", "cursors": [cursor] };
        admin.run_command(kill).await?;
    }
    Ok(found.len())
}
