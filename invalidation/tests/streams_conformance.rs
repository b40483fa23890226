//! One suite for the streams of a grid: in process, and in Redis.

mod conformance;

use std::sync::Arc;

use conformance::{Kind, SystemClock};
use freshet_core::time::Clock;
use freshet_fixture::fresh_database_name;
use freshet_invalidation::partition::Shape;
use freshet_invalidation::partition::streams::{
    ENTRIES_AT_ONCE_MAX, From, Line, LocalStreams, Reader, RedisStreams, RedisStreamsSettings, Row,
    StreamError, Streams,
};
use rstest::rstest;

#[derive(Clone, Copy, Debug)]
enum Adapter {
    Local,
    Redis(Kind),
}

const CHANGES: Line = Line::Changes(0);

async fn streams(adapter: Adapter, clock: &Arc<SystemClock>) -> Arc<dyn Streams> {
    let clock: Arc<dyn Clock> = clock.clone();
    match adapter {
        Adapter::Local => Arc::new(LocalStreams::new(clock, 1_000)),
        Adapter::Redis(kind) => {
            let settings = RedisStreamsSettings {
                server: kind.server().await,
                prefix: fresh_database_name(),
                operation_ms_max: 2_000,
                shape: Shape {
                    queries: 1,
                    writes: 1,
                },
                retention_ms: 1_000,
            };
            Arc::new(RedisStreams::new(settings, clock).expect("settings"))
        }
    }
}

fn bodies(texts: &[&str]) -> Vec<Vec<u8>> {
    let body = |text: &&str| text.as_bytes().to_vec();
    texts.iter().map(body).collect()
}

async fn next(reader: &mut Box<dyn Reader>) -> Vec<String> {
    let entries = reader.next(200).await.expect("an answer");
    let text = |entry: freshet_invalidation::partition::streams::Entry| {
        String::from_utf8(entry.body).expect("text")
    };
    entries.into_iter().map(text).collect()
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn every_reader_gets_every_entry_in_order(#[case] adapter: Adapter) {
    let streams = streams(adapter, &Arc::new(SystemClock::new())).await;
    streams
        .append(&CHANGES, bodies(&["before"]), None)
        .await
        .expect("appended");
    let mut one = streams.read(&CHANGES, From::Now).await.expect("reads");
    let mut two = streams.read(&CHANGES, From::Now).await.expect("reads");
    assert_eq!(next(&mut one).await, Vec::<String>::new());
    streams
        .append(&CHANGES, bodies(&["a", "b"]), None)
        .await
        .expect("appended");
    streams
        .append(&CHANGES, bodies(&["c"]), None)
        .await
        .expect("appended");
    for reader in [&mut one, &mut two] {
        let mut all = Vec::new();
        while all.len() < 3 {
            all.extend(next(reader).await);
        }
        assert_eq!(all, ["a", "b", "c"]);
    }
    let last = streams.last(&CHANGES).await.expect("an answer");
    assert_eq!(last.expect("an entry").body, b"c");
    assert_eq!(streams.last(&Line::Notices).await, Ok(None));
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn a_reader_goes_on_where_another_was(#[case] adapter: Adapter) {
    let streams = streams(adapter, &Arc::new(SystemClock::new())).await;
    streams
        .append(&CHANGES, bodies(&["a", "b", "c"]), None)
        .await
        .expect("appended");
    let last = streams.last(&CHANGES).await.expect("an answer");
    streams
        .append(&CHANGES, bodies(&["d"]), None)
        .await
        .expect("appended");
    let from = From::After(last.expect("an entry").cursor);
    let mut reader = streams.read(&CHANGES, from).await.expect("reads");
    assert_eq!(next(&mut reader).await, ["d"]);
}

/// Who reads until there were no more must come to an end under load.
#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn fewer_entries_than_may_be_are_all_there_are(#[case] adapter: Adapter) {
    let streams = streams(adapter, &Arc::new(SystemClock::new())).await;
    let mut reader = streams.read(&CHANGES, From::Now).await.expect("reads");
    let bodies = vec![b"x".to_vec(); ENTRIES_AT_ONCE_MAX + 44];
    let appended = streams.append(&CHANGES, bodies, None).await;
    appended.expect("appended");
    let mut counts = Vec::new();
    for _ in 0..3 {
        counts.push(reader.next(0).await.expect("an answer").len());
    }
    assert_eq!(counts, [ENTRIES_AT_ONCE_MAX, 44, 0]);
}

/// In process the length is kept, in Redis the age, about; what is read is what is there.
#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn a_stream_does_not_grow_for_ever(#[case] adapter: Adapter) {
    let streams = streams(adapter, &Arc::new(SystemClock::new())).await;
    let mut slow = streams.read(&CHANGES, From::Now).await.expect("reads");
    for hundred in 0..30 {
        let texts: Vec<String> = (0..100).map(|n| (hundred * 100 + n).to_string()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let appended = streams.append(&CHANGES, bodies(&texts), None).await;
        appended.expect("appended");
        if hundred == 19 && !matches!(adapter, Adapter::Local) {
            tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        }
    }
    let mut read = Vec::new();
    loop {
        let some = next(&mut slow).await;
        if some.is_empty() {
            break;
        }
        read.extend(some);
    }
    assert!((1_000..1_500).contains(&read.len()), "{}", read.len());
    assert_eq!(read.last().map(String::as_str), Some("2999"));
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn one_leads_and_an_earlier_one_is_refused(#[case] adapter: Adapter) {
    let streams = streams(adapter, &Arc::new(SystemClock::new())).await;
    let first = streams.lead("office", "a", 300).await.expect("an answer");
    let term = first.expect("nobody else leads");
    assert_eq!(streams.lead("office", "b", 300).await, Ok(None));
    let other = streams.lead("another", "b", 300).await.expect("an answer");
    assert!(
        other.is_some(),
        "offices have nothing to do with one another"
    );
    assert_eq!(
        streams.lead("office", "a", 300).await,
        Ok(Some(term)),
        "prolonged"
    );
    let append = |term| streams.append(&CHANGES, bodies(&["x"]), Some(term));
    assert_eq!(append(term).await, Ok(()));
    let next = loop {
        match streams.lead("office", "b", 300).await.expect("an answer") {
            Some(term) => break term,
            None => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
        }
    };
    assert!(next > term);
    assert_eq!(append(term).await, Ok(()), "nobody wrote since");
    assert_eq!(append(next).await, Ok(()));
    assert_eq!(append(term).await, Err(StreamError::Deposed));
    assert_eq!(streams.step_down("office", "a").await, Ok(()));
    assert_eq!(
        streams.lead("office", "a", 300).await,
        Ok(None),
        "it was b's"
    );
    assert_eq!(streams.step_down("office", "b").await, Ok(()));
    assert!(streams.lead("office", "a", 300).await.expect("an answer") > Some(next));
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn a_row_has_generations(#[case] adapter: Adapter) {
    let streams = streams(adapter, &Arc::new(SystemClock::new())).await;
    assert_eq!(streams.row(1).await, Ok(Row::default()));
    streams.mark(1, 3, true).await.expect("marked");
    streams.mark(1, 4, true).await.expect("marked");
    streams.mark(1, 3, false).await.expect("marked");
    let row = streams.row(1).await.expect("an answer");
    assert_eq!((row.generation, row.up), (3, vec![4]));
    streams.lag(1, 4, true).await.expect("marked");
    let row = streams.row(1).await.expect("an answer");
    assert_eq!((row.generation, row.lagging), (3, vec![4]));
    streams.mark(1, 4, false).await.expect("marked");
    let row = streams.row(1).await.expect("an answer");
    assert_eq!((row.up, row.lagging), (vec![], vec![]));
    assert_eq!(streams.row(0).await, Ok(Row::default()));
}

/// C6: no clock of one machine is compared with another's; what is counted may only be too long.
#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c6_a_stamp_is_at_least_as_old_as_it_is(#[case] adapter: Adapter) {
    let clock = Arc::new(SystemClock::new());
    let streams = streams(adapter, &clock).await;
    streams.lead("office", "a", 300).await.expect("an answer");
    let stamped = clock.now();
    let stamp = streams.stamp(stamped).expect("the clock was heard");
    for _ in 0..5 {
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        streams.lead("office", "a", 300).await.expect("an answer");
        let now = clock.now();
        let age = streams.age_ms(stamp, now).expect("an age");
        let real = now.since(stamped);
        assert!(age >= real && age < real + 500, "{age} for {real}");
    }
}
