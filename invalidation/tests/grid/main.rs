//! The grid, whole: cells that match, a gateway that registers, an ingest leader, over both kinds of streams and a real
//! Redis for the sketch.

#[path = "../conformance/mod.rs"]
mod conformance;
#[path = "../stage/mod.rs"]
mod stage;
mod whole;

use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::{RawDocumentBuf, doc};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::freshness::{ResourceKind, SurrogateKey, database_surrogate};
use freshet_core::key::Key;
use freshet_core::query::{Filter, Projection, Sort};
use freshet_invalidation::partition::Shape;
use freshet_invalidation::partition::streams::Line;
use freshet_invalidation::{NotCached, Resource, Watch, Watched};
use rstest::rstest;
use stage::{Stage, namespace, record, state};
use whole::{Grid, Transport};

/// The records with this x.
fn query(x: i32) -> Resource {
    let filter = RawDocumentBuf::try_from(&doc! {"x": x}).expect("encodes");
    let watch = Watch::records(
        Filter::parse(&filter).expect("a filter"),
        Sort::default(),
        Projection::default(),
        false,
    );
    Resource {
        namespace: namespace(),
        key: Key::from(format!("/v1/d/c?filter={x}")),
        watched: Watched::Query(watch),
        joins: Vec::new(),
        hinted: false,
    }
}

fn all() -> Vec<Resource> {
    (0..40).map(query).chain((0..40).map(record)).collect()
}

/// The first query of a row.
fn of_row(shape: Shape, row: u32) -> (i32, Resource) {
    let is = |x: &i32| shape.row_of(&query(*x)) == row;
    let x = (0..40).find(is).expect("forty are enough");
    (x, query(x))
}

fn insert(id: i32, x: i32) -> ChangeEvent {
    Stage::event(0, id, Image::Absent, state(id, x))
}

fn purged(grid: &Grid, resource: &Resource) -> usize {
    grid.cache
        .times(SurrogateKey::resource(resource.kind(), &resource.key))
}

const TWO_BY_TWO: Shape = Shape {
    queries: 2,
    writes: 2,
};

#[rstest]
#[case(Transport::Local)]
#[case(Transport::Redis)]
#[tokio::test]
async fn every_pair_of_query_and_write_meets(#[case] transport: Transport) {
    let grid = Grid::new(transport, TWO_BY_TWO, all()).await;
    // The gateway hears of all cells: what the first notice of one follows on is not known.
    for x in 20..30 {
        grid.cached(&query(x)).await;
        grid.commit(vec![insert(x, x)]);
    }
    grid.quiet().await;
    grid.tier.keys.lock().clear();
    for x in 0..20 {
        grid.cached(&query(x)).await;
        grid.cached(&record(x)).await;
    }
    for x in 0..20 {
        assert!(!grid.contains(&query(x)).await);
        // Each by a record of its own: of both columns.
        grid.commit(vec![insert(x, x)]);
    }
    grid.quiet().await;
    for x in 0..20 {
        assert!(grid.contains(&query(x)).await, "query {x}");
        assert!(grid.contains(&record(x)).await, "record {x}");
    }
    assert!(!grid.contains(&query(30)).await);
    grid.until("all is purged, again, and confirmed", || {
        (0..20).all(|x| purged(&grid, &query(x)) >= 2 && purged(&grid, &record(x)) >= 2)
    })
    .await;
    grid.until("the gateway's tier has dropped it", || {
        let dropped = grid.tier.keys.lock();
        (0..20).all(|x| dropped.contains(&query(x).key) && dropped.contains(&record(x).key))
    })
    .await;
    assert_eq!(
        grid.cache
            .times(SurrogateKey::resource(ResourceKind::Query, &query(30).key)),
        0
    );
}

/// C1: a query is registered after its answer was read; what changed in between is not lost.
#[rstest]
#[case(Transport::Local)]
#[case(Transport::Redis)]
#[tokio::test]
async fn c1_a_change_between_the_read_and_the_registration_is_replayed(
    #[case] transport: Transport,
) {
    let grid = Grid::new(transport, TWO_BY_TWO, all()).await;
    grid.cached(&query(1)).await;
    for x in 2..12 {
        grid.gateway
            .declare(&namespace(), freshet_invalidation::Images::Both);
        let ticket = grid.gateway.begin(query(x)).expect("begins");
        let read_at = grid.position();
        grid.commit(vec![insert(100 + x, x)]);
        grid.commit(vec![insert(200 + x, 39)]);
        if x % 2 == 0 {
            grid.quiet().await; // matched long ago; else perhaps not yet
        }
        let answer = freshet_invalidation::Answer {
            position: freshet_core::time::Position(read_at),
            lifetimes: stage::lives(50, 500),
            members: &[],
            window: freshet_invalidation::Window::default(),
            joined: Vec::new(),
        };
        let settled = grid.gateway.settle(ticket, answer).await;
        if settled.is_ok() {
            grid.quiet().await;
            assert!(grid.contains(&query(x)).await, "query {x}");
        } else {
            assert_eq!(settled, Err(NotCached::InvalidatedMeanwhile));
        }
        assert!(x % 2 == 1 || settled.is_err(), "query {x} had changed");
        // What changed were others.
        grid.cached(&query(30)).await;
        assert!(!grid.contains(&query(30)).await);
    }
}

#[rstest]
#[case(Transport::Local)]
#[case(Transport::Redis)]
#[tokio::test]
async fn c8_a_cell_that_is_gone_makes_its_row_stale_and_nothing_else(#[case] transport: Transport) {
    let mut grid = Grid::new(transport, TWO_BY_TWO, all()).await;
    let ((lost_x, lost), (kept_x, kept)) = (of_row(grid.shape, 1), of_row(grid.shape, 0));
    grid.cached(&lost).await;
    grid.cached(&kept).await;
    let epoch = grid.gateway.status().epoch;
    grid.kill(1, 0);
    grid.until_stale(&lost).await;
    grid.until("it is purged", || purged(&grid, &lost) >= 2)
        .await;
    assert!(!grid.contains(&kept).await);
    assert_eq!(purged(&grid, &kept), 0);
    assert_eq!(grid.cache.times(database_surrogate("d")), 0);
    assert_eq!(grid.gateway.status().epoch, epoch);
    grid.until("its row is not cached", || {
        grid.gateway.begin(lost.clone()).is_err()
    })
    .await;
    // C4: nor are records of that row within answers of another one.
    let of_lost_row = |id: &i32| grid.shape.row_of(&record(*id)) == 1;
    let shown = record((0..40).find(of_lost_row).expect("forty are enough"));
    let refused = grid.read(&kept, &[shown.key]).await;
    assert_eq!(refused, Err(NotCached::MatcherBehind));
    // The other row goes on.
    grid.cached(&kept).await;
    grid.commit(vec![insert(1, kept_x)]);
    grid.until_stale(&kept).await;
    grid.start(1, 0);
    grid.all_up().await;
    grid.cached(&query(lost_x)).await;
    grid.commit((0..8).map(|id| insert(50 + id, lost_x)).collect());
    grid.quiet().await;
    assert!(grid.contains(&lost).await);
}

/// One that comes back in time has lost nothing.
#[rstest]
#[case(Transport::Local)]
#[case(Transport::Redis)]
#[tokio::test]
async fn c8_a_cell_that_comes_back_in_time_goes_on_where_it_was(#[case] transport: Transport) {
    let mut grid = Grid::new(transport, TWO_BY_TWO, all()).await;
    let (x, resource) = of_row(grid.shape, 1);
    let (_, untouched) = (0..40)
        .filter(|other| *other != x)
        .map(|other| (other, query(other)))
        .find(|(_, other)| grid.shape.row_of(other) == 1)
        .expect("forty are enough");
    grid.cached(&resource).await;
    grid.cached(&untouched).await;
    grid.kill(1, 0);
    grid.kill(1, 1);
    grid.commit((0..8).map(|id| insert(id, x)).collect());
    grid.start(1, 0);
    grid.start(1, 1);
    grid.quiet().await;
    assert!(grid.contains(&resource).await, "it changed meanwhile");
    assert!(!grid.contains(&untouched).await);
    assert_eq!(purged(&grid, &untouched), 0);
}

#[rstest]
#[case(Transport::Local)]
#[case(Transport::Redis)]
#[tokio::test]
async fn another_leads_when_the_ingest_leader_is_gone(#[case] transport: Transport) {
    let shape = Shape {
        queries: 1,
        writes: 2,
    };
    let mut grid = Grid::new(transport, shape, all()).await;
    grid.cached(&query(5)).await;
    for column in 0..2 {
        // Whichever leads: each goes and comes back, and at most one of them had the lead.
        grid.end(0, column).await;
        grid.commit((0..8).map(|id| insert(id, 30)).collect());
        grid.start(0, column);
        grid.quiet().await;
    }
    assert!(!grid.contains(&query(5)).await, "nothing was lost");
    grid.commit((0..8).map(|id| insert(10 + id, 5)).collect());
    grid.quiet().await;
    assert!(grid.contains(&query(5)).await);
}

/// C8: the column's stream lost its end, or its cell was away for longer than it is kept.
#[tokio::test]
async fn c8_a_cell_that_missed_changes_makes_its_row_stale_and_nothing_else() {
    let mut grid = Grid::new(Transport::Local, TWO_BY_TWO, all()).await;
    let ((x, lost), (_, kept)) = (of_row(grid.shape, 1), of_row(grid.shape, 0));
    grid.cached(&lost).await;
    grid.cached(&kept).await;
    grid.kill(1, 0);
    grid.commit(vec![insert(0, 39)]);
    grid.pages(0).await;
    // A stream keeps 5,000 entries: what the cell would read next goes.
    let last = grid.streams.last(&Line::Changes(0)).await.expect("answers");
    let page = last.expect("a page").body;
    for _ in 0..6 {
        let copies = vec![page.clone(); 1_000];
        let appended = grid.streams.append(&Line::Changes(0), copies, None).await;
        appended.expect("appended");
    }
    grid.commit(vec![insert(1, 39)]);
    grid.start(1, 0);
    grid.until_stale(&lost).await;
    grid.all_up().await;
    assert!(!grid.contains(&kept).await);
    grid.cached(&query(x)).await;
    grid.commit((0..8).map(|id| insert(50 + id, x)).collect());
    grid.quiet().await;
    assert!(grid.contains(&lost).await);
}

#[rstest]
#[case(Transport::Local)]
#[case(Transport::Redis)]
#[tokio::test]
async fn c8_history_that_is_lost_makes_everything_stale(#[case] transport: Transport) {
    let mut grid = Grid::new(transport, TWO_BY_TWO, all()).await;
    grid.cached(&query(5)).await;
    let epoch = grid.gateway.status().epoch;
    for row in 0..2 {
        for column in 0..2 {
            grid.end(row, column).await;
        }
    }
    grid.commit(vec![insert(1, 5)]);
    grid.lose_history();
    for row in 0..2 {
        for column in 0..2 {
            grid.start(row, column);
        }
    }
    grid.until_stale(&query(5)).await;
    grid.until("a new epoch begins", || {
        grid.gateway.status().epoch != epoch
    })
    .await;
    grid.until("the database is purged", || {
        grid.cache.times(database_surrogate("d")) >= 1
    })
    .await;
    assert!(grid.tier.all.load(Ordering::SeqCst) >= 1);
}

#[rstest]
#[case(Transport::Local)]
#[case(Transport::Redis)]
#[tokio::test]
async fn c14_a_collection_that_is_dropped_makes_all_of_it_stale(#[case] transport: Transport) {
    let grid = Grid::new(transport, TWO_BY_TWO, all()).await;
    let shape = grid.gateway.shape();
    for x in 0..6 {
        grid.cached(&query(x)).await;
        grid.cached(&record(x)).await;
    }
    let dropped = ChangeEvent {
        change: Change::Collection,
        ..insert(0, 0)
    };
    grid.commit(vec![dropped]);
    grid.quiet().await;
    for x in 0..6 {
        assert!(grid.contains(&query(x)).await);
        assert!(grid.contains(&record(x)).await);
    }
    grid.until("the gateway hears of it", || grid.gateway.shape() > shape)
        .await;
}

/// A worker may be started before the one that it replaces has ended: they are never both the cell.
#[rstest]
#[case(Transport::Local)]
#[case(Transport::Redis)]
#[tokio::test]
async fn two_processes_are_never_the_same_cell(#[case] transport: Transport) {
    let mut grid = Grid::new(transport, TWO_BY_TWO, all()).await;
    let (x, resource) = of_row(grid.shape, 1);
    grid.cached(&resource).await;
    let mut first = grid.take(1, 0);
    grid.start(1, 0);
    for _ in 0..10 {
        grid.cached(&query(x)).await;
        grid.commit((0..4).map(|id| insert(id, x)).collect());
        grid.quiet().await;
        assert!(grid.contains(&resource).await);
    }
    first.end().await;
    grid.all_up().await;
    grid.cached(&resource).await;
    grid.commit((0..8).map(|id| insert(id, x)).collect());
    grid.quiet().await;
    assert!(grid.contains(&resource).await);
}

/// C16: who cannot reach the cells does not cache.
#[tokio::test]
async fn c16_without_cells_nothing_is_cached() {
    let mut grid = Grid::new(Transport::Local, TWO_BY_TWO, all()).await;
    grid.cached(&query(1)).await;
    for row in 0..2 {
        grid.kill(row, 0);
        grid.kill(row, 1);
    }
    let refused = grid.read(&query(2), &[]).await;
    assert_eq!(refused, Err(NotCached::MatcherBehind));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let age = grid.gateway.status().watermark_age_ms;
    assert!(age >= 100, "{age}");
    for row in 0..2 {
        grid.start(row, 0);
        grid.start(row, 1);
    }
    grid.all_up().await;
    grid.cached(&query(2)).await;
}
