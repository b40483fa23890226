//! The replica set: fail-overs, and what happens to whole collections.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bson::{Document, doc};
use tokio::sync::RwLockWriteGuard;

use super::{Fault, World, fault, hold};
use crate::faults::history::Value;
use crate::faults::load::document;
use crate::faults::universe::{COLLECTIONS, PICTURED, Place, RECORDS, Universe};

/// The collection without images.
const PLAIN: usize = 1;
/// Transactions that are tried, every fourth of which is given up.
const TRANSACTIONS: usize = 60;
/// Records in each.
const RECORDS_OF_ONE: usize = 6;

pub(super) fn faults() -> Vec<Fault> {
    vec![
        fault!(
            "primary-killed",
            "SIGKILL of the primary, restarted after 5 s",
            killed
        ),
        fault!(
            "primary-stopped",
            "SIGSTOP of the primary for 10 s: another takes over, and it does not know",
            stopped
        ),
        fault!("primary-steps-down", "replSetStepDown", steps_down),
        fault!(
            "two-fail-overs",
            "two primaries step down, one right after the other",
            two_fail_overs
        ),
        fault!(
            "set-killed",
            "SIGKILL of all three nodes, restarted after 5 s",
            set_killed
        ),
        fault!(
            "transactions",
            "transactions over several records of both collections, some given up",
            transactions
        ),
        fault!(
            "collection-dropped",
            "a collection is dropped, and 1 s later written anew",
            dropped
        ),
        fault!(
            "collection-renamed",
            "a collection is renamed, and 2 s later back",
            renamed
        ),
        fault!(
            "database-dropped",
            "dropDatabase; 1 s later all is written anew",
            database_dropped
        ),
    ]
}

pub(super) async fn killed(world: &World) -> Result<()> {
    let node = world.primary().await?;
    node.kill().await?;
    hold(5).await;
    node.restart().await
}

async fn stopped(world: &World) -> Result<()> {
    let node = world.primary().await?;
    node.pause();
    hold(10).await;
    node.resume();
    Ok(())
}

async fn steps_down(world: &World) -> Result<()> {
    let client = World::direct(world.primary().await?).await?;
    let command = doc! { "replSetStepDown": 10, "secondaryCatchUpPeriodSecs": 2, "force": true };
    client.database("admin").run_command(command).await?;
    Ok(())
}

async fn two_fail_overs(world: &World) -> Result<()> {
    steps_down(world).await?;
    world.primary().await?;
    steps_down(world).await
}

async fn set_killed(world: &World) -> Result<()> {
    for node in &world.mongo.nodes {
        node.kill().await?;
    }
    hold(5).await;
    for node in &world.mongo.nodes {
        node.restart().await?;
    }
    Ok(())
}

/// Keeps every writer away from these collections.
async fn alone<'w>(world: &'w World, collections: &[usize]) -> Vec<RwLockWriteGuard<'w, ()>> {
    let mut gates = Vec::new();
    for collection in collections {
        gates.push(world.load.gates[*collection].write().await);
    }
    gates
}

/// Notes that every record of a collection is being written: to nothing, or to what `value` says.
fn begin_all(
    world: &World,
    collection: usize,
    value: impl Fn(Place) -> Option<Value>,
) -> Vec<(Place, usize)> {
    let begin = |place| {
        let state = world
            .load
            .universe
            .of(place)
            .begin(value(place), world.load.clock.us());
        (place, state)
    };
    Universe::places(collection).map(begin).collect()
}

async fn dropped(world: &World) -> Result<()> {
    let _gates = alone(world, &[PICTURED]).await;
    let gone = begin_all(world, PICTURED, |_| None);
    world.load.collection(PICTURED).drop().await?;
    world.acknowledge(&gone);
    hold(1).await;
    world.create(PICTURED).await?;
    world.fill(PICTURED).await
}

async fn renamed(world: &World) -> Result<()> {
    let _gates = alone(world, &[PLAIN]).await;
    settle(world, PLAIN).await?;
    let shown = |place| world.load.universe.of(place).settled().flatten();
    let before: Vec<Option<Value>> = Universe::places(PLAIN).map(shown).collect();
    let gone = begin_all(world, PLAIN, |_| None);
    rename(world, COLLECTIONS[PLAIN], "elsewhere").await?;
    world.acknowledge(&gone);
    hold(2).await;
    let back = begin_all(world, PLAIN, |place| before[place.number]);
    rename(world, "elsewhere", COLLECTIONS[PLAIN]).await?;
    world.acknowledge(&back);
    Ok(())
}

/// Writes what has a write without an outcome once more, so that it is known what the records show. The caller is alone
/// with the collection.
async fn settle(world: &World, collection: usize) -> Result<()> {
    for place in Universe::places(collection) {
        let history = world.load.universe.of(place);
        if history.settled().is_none() {
            let value = Value {
                version: history.next_version(),
                group: place.groups()[0],
            };
            world.load.write(place, Some(value), doc! {}).await;
            ensure!(history.settled().is_some(), "{place:?} cannot be written");
        }
    }
    Ok(())
}

async fn rename(world: &World, from: &str, to: &str) -> Result<()> {
    let database = &world.load.database;
    let full = |name: &str| format!("{}.{name}", database.name());
    let command = doc! {
        "renameCollection": full(from),
        "to": full(to),
        "writeConcern": { "w": "majority" },
    };
    let admin = database.client().database("admin");
    admin.run_command(command).await?;
    Ok(())
}

async fn database_dropped(world: &World) -> Result<()> {
    let all = [PICTURED, PLAIN];
    let _gates = alone(world, &all).await;
    let gone: Vec<_> = all
        .iter()
        .flat_map(|collection| begin_all(world, *collection, |_| None))
        .collect();
    world.load.database.drop().await?;
    world.acknowledge(&gone);
    hold(1).await;
    for collection in all {
        world.create(collection).await?;
        world.fill(collection).await?;
    }
    Ok(())
}

async fn transactions(world: &World) -> Result<()> {
    for number in 0..TRANSACTIONS {
        transaction(world, number).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// One, over records of both collections. What is given up was never there, so nothing is noted of it.
async fn transaction(world: &World, number: usize) -> Result<()> {
    let load = &world.load;
    let mut turns = Vec::new();
    let mut _gates = Vec::new();
    let mut writes: Vec<(Place, Value)> = Vec::new();
    for collection in 0..COLLECTIONS.len() {
        _gates.push(load.gates[collection].read().await);
    }
    for of_it in 0..RECORDS_OF_ONE {
        let place = Place {
            collection: of_it % COLLECTIONS.len(),
            number: (number * 7 + of_it * 24) % RECORDS,
        };
        let history = load.universe.of(place);
        if let Some(turn) = load.turn(place)
            && let Some(Some(Value { group, .. })) = history.settled()
        {
            turns.push(turn);
            let version = history.next_version();
            writes.push((place, Value { version, group }));
        }
    }
    let mut session = load.database.client().start_session().await?;
    session.start_transaction().await?;
    for (place, value) in &writes {
        let records = load.collection(place.collection);
        let update = doc! { "$set": versions(*place, *value)? };
        let updated = records
            .update_one(doc! { "_id": place.id() }, update)
            .session(&mut session);
        updated.await?;
    }
    if number % 4 == 3 {
        // The version is not to be given again: it must never be seen.
        for (place, value) in &writes {
            let history = load.universe.of(*place);
            let state = history.begin(Some(*value), load.clock.us());
            history.refuse(state);
        }
        session.abort_transaction().await?;
        return Ok(());
    }
    let begin = |(place, value): &(Place, Value)| {
        let history = load.universe.of(*place);
        (*place, history.begin(Some(*value), load.clock.us()))
    };
    let states: Vec<_> = writes.iter().map(begin).collect();
    session.commit_transaction().await?;
    world.acknowledge(&states);
    let made = states.len() as u64;
    load.count(|tally| tally.writes += made);
    Ok(())
}

fn versions(place: Place, value: Value) -> Result<Document> {
    let mut document = document(place, value);
    document.remove("_id").context("a record has an id")?;
    Ok(document)
}
