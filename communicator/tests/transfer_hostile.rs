//! Sources and pullers of snapshots that do not behave hurt themselves alone.

mod common;
mod transfer_support;

use common::{Replica, bind, configuration, within};
use quorate_communicator::frame::FrameKind;
use quorate_communicator::transfer::{CHUNK_HEADER_BYTES, Chunk, Outcome, WINDOW_BYTES};
use quorate_communicator::{PullEnd, PullError, PullOrder};
use quorate_framework::{ServedSnapshot, SnapshotId, limits};
use rand::RngExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use transfer_support::{
    MemorySource, Pull, RawEnd, Written, accept_puller, chunk_frame, fetch_frame, frame, order, pair, raw_puller,
    serve_well, snapshot, state,
};

const LENGTH: usize = 1 << 20;
const PART: usize = limits::SNAPSHOT_CHUNK_BYTES;

/// Replica 2, which pulls a snapshot from whoever listens here as replica 1.
async fn puller_of_a_script() -> (TcpListener, Replica) {
    let (script, address) = bind().await;
    let mut two = configuration(2, &[(1, &address)]);
    two.options.snapshot_stall_timeout = Duration::from_millis(1_200);
    // The link to the peer itself is not what this is about.
    two.options.backoff_max = Duration::from_millis(50);
    (script, Replica::start(two, bind().await.0))
}

/// What the puller makes of a source that sends these bytes as soon as it is asked, by each connection.
async fn end_with_a_source_that_sends(bytes: Vec<u8>) -> (PullEnd, Vec<u8>, u64) {
    let (script, two) = puller_of_a_script().await;
    let written = Written::default();
    let pull = Pull::start(&two, order(1, snapshot(7, LENGTH)), &written);
    let sending = tokio::spawn(async move {
        loop {
            let mut end = accept_puller(&script, 1).await;
            end.fetch().await;
            end.send(&bytes).await;
            tokio::spawn(async move { end.closed().await });
        }
    });
    let end = pull.end().await;
    sending.abort();
    (end, written.take(), two.communicator.handle().transfers().damaged)
}

fn tampered(offset: usize, value: u32) -> Vec<u8> {
    let mut bytes = chunk_frame(snapshot(7, LENGTH), 0, &[5; 1_000]);
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    bytes
}

#[tokio::test]
async fn what_is_not_the_next_part_of_the_snapshot_is_never_written_and_ends_typed_after_three_connections() {
    let right = snapshot(7, LENGTH);
    let other_id = ServedSnapshot { id: SnapshotId(8), ..right };
    let other_length = ServedSnapshot { length_bytes: LENGTH as u64 + 1, ..right };
    let oversized = [&Chunk::encode_header(right.id, right.length_bytes, 0, Outcome::Data)[..], &vec![1; PART + 1]];
    let gone_of_another = Chunk::encode_header(other_id.id, other_id.length_bytes, 0, Outcome::Gone);
    let mut damaged = chunk_frame(right, 0, &[5; 1_000]);
    damaged[700] ^= 1;
    let mut scripts = vec![
        ("another snapshot", chunk_frame(other_id, 0, &[5; 1_000])),
        ("another length", chunk_frame(other_length, 0, &[5; 1_000])),
        ("a part from further on", chunk_frame(right, 1_000, &[5; 1_000])),
        ("a part of more than was asked for", frame(FrameKind::Chunk, &oversized.concat())),
        ("a part without bytes", chunk_frame(right, 0, &[])),
        ("no chunk", frame(FrameKind::Chunk, &[0; CHUNK_HEADER_BYTES - 1])),
        ("the end of another snapshot", frame(FrameKind::Chunk, &gone_of_another)),
        ("a bit that has changed", damaged),
        ("a fetch", fetch_frame(right, 0, 1_000)),
        ("a length of 4 GiB", tampered(0, u32::MAX)),
        ("a message length of 1 GiB", tampered(8, 1 << 30)),
        ("random bytes", (0..200).map(|_| rand::rng().random_range(1..=255)).collect()),
    ];
    scripts.push(("another lane", {
        let mut bytes = chunk_frame(right, 0, &[5; 1_000]);
        bytes[12] = 0;
        bytes
    }));
    for (what, bytes) in scripts {
        let (end, written, damaged) = end_with_a_source_that_sends(bytes).await;
        assert!(matches!(end.result, Err(PullError::Damaged(_))), "{what}: {:?}", end.result);
        assert_eq!((end.written, written.len(), damaged), (0, 0, 3), "{what}");
    }
}

#[tokio::test]
async fn a_part_that_comes_twice_ends_its_connection_and_the_next_one_goes_on_behind_it() {
    let bytes = state(LENGTH);
    let served = snapshot(7, LENGTH);
    let (script, two) = puller_of_a_script().await;
    let written = Written::default();
    let pull = Pull::start(&two, order(1, served), &written);
    let copy = Arc::clone(&bytes);
    let serving = tokio::spawn(async move {
        let mut first = accept_puller(&script, 1).await;
        assert_eq!(first.fetch().await.expect("a fetch").written, 0);
        let part = chunk_frame(served, 0, &copy[..PART]);
        first.send(&part).await;
        first.send(&part).await;
        first.closed().await;
        let mut second = accept_puller(&script, 1).await;
        serve_well(&mut second, served, &copy).await;
    });
    let end = pull.end().await;
    assert_eq!(end.result, Ok(()));
    assert!(written.take() == *bytes);
    let figures = two.communicator.handle().transfers();
    assert_eq!((figures.damaged, figures.connections_pulled), (1, 2));
    within("the source to see an orderly end", serving).await.expect("no part is asked for twice");
}

#[tokio::test]
async fn a_source_that_is_silent_or_trickles_is_given_up_in_time() {
    for trickles in [false, true] {
        let (script, two) = puller_of_a_script().await;
        let pull = Pull::start(&two, order(1, snapshot(7, LENGTH)), &Written::default());
        let scripted = tokio::spawn(async move {
            loop {
                let mut end = accept_puller(&script, 1).await;
                tokio::spawn(async move {
                    end.fetch().await;
                    let part = chunk_frame(snapshot(7, LENGTH), 0, &[5; 1_000]);
                    for byte in part.iter().take(if trickles { usize::MAX } else { 0 }) {
                        end.send(&[*byte]).await;
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    end.closed().await;
                });
            }
        });
        let began = Instant::now();
        let end = pull.end().await;
        scripted.abort();
        assert!(matches!(end.result, Err(PullError::Stalled { .. })), "{:?}", end.result);
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        let dials = two.communicator.handle().transfers().dials;
        assert!(
            (2..=4).contains(&dials),
            "a silent connection is not the only one tried, and there is no storm: {dials}"
        );
    }
}

/// Replica 1, whose limits are small, and how to reach it.
async fn strict_source() -> (Arc<MemorySource>, Replica, Replica, String) {
    let source = Arc::new(MemorySource::new(7, &state(32 << 20)));
    let (one, two, address) = pair(&source, None, |configuration| {
        configuration.options.snapshot_stall_timeout = Duration::from_millis(400);
        // So that it is not the system that cuts a connection.
        configuration.options.silence_timeout = Duration::from_secs(600);
    })
    .await;
    (source, one, two, address)
}

async fn shaken(address: &str) -> RawEnd {
    raw_puller(address, 2).await.unwrap_or_else(|error| panic!("shaken: {error}"))
}

#[tokio::test]
async fn a_puller_that_asks_for_nonsense_loses_its_connection_and_nobody_else_does() {
    let (source, one, two, address) = strict_source().await;
    let right = source.snapshot;
    let other = ServedSnapshot { id: SnapshotId(8), ..right };
    let first = fetch_frame(right, 0, 100);
    let scripts: Vec<(&str, Vec<u8>)> = vec![
        ("more than a window", fetch_frame(right, 0, WINDOW_BYTES + 1)),
        ("nothing", fetch_frame(right, 5, 5)),
        ("beyond the end", fetch_frame(right, right.length_bytes - 1, right.length_bytes + 1)),
        ("a snapshot of 2^63 bytes", fetch_frame(ServedSnapshot { length_bytes: 1 << 63, ..right }, 0, 100)),
        ("another snapshot on the same connection", [&first[..], &fetch_frame(other, 0, 100)].concat()),
        ("what was sent already", [&first[..], &fetch_frame(right, 0, 50)].concat()),
        ("what was never sent to be written", [&first[..], &fetch_frame(right, 200, 300)].concat()),
        ("a part", chunk_frame(right, 0, &[1; 100])),
        ("no fetch", frame(FrameKind::Fetch, &[1; 39])),
        ("random bytes", (0..200).map(|_| rand::rng().random_range(1..=255)).collect()),
    ];
    for (what, bytes) in scripts {
        let mut hostile = shaken(&address).await;
        hostile.send(&bytes).await;
        within(what, hostile.closed()).await;
    }
    let written = Written::default();
    let end = Pull::start(&two, order(1, right), &written).end().await;
    assert_eq!(end.result, Ok(()));
    assert!(written.take() == *source.bytes);
    let handle = one.communicator.handle();
    common::until("all to be gone", || handle.transfers().serving == 0).await;
}

#[tokio::test]
async fn a_puller_that_takes_nothing_or_says_nothing_holds_one_part_and_its_place_for_a_bounded_time() {
    let (source, one, _two, address) = strict_source().await;
    let handle = one.communicator.handle();
    let mut silent = shaken(&address).await;
    common::until("it to be served", || handle.transfers().serving == 1).await;
    within("the silent one to be cut", silent.closed()).await;
    common::until("its place to be free", || handle.transfers().serving == 0).await;
    // One that asks for everything at once, part by part, and reads nothing.
    let mut deaf = shaken(&address).await;
    common::until("it to be served", || handle.transfers().serving == 1).await;
    let mut written = 0;
    let asking = async {
        while written < source.snapshot.length_bytes {
            let until = source.snapshot.length_bytes.min(written + PART as u64);
            deaf.send(&fetch_frame(source.snapshot, written, until)).await;
            written = until;
        }
    };
    within("all to be asked for", asking).await;
    common::until("it to be cut", || handle.transfers().serving == 0).await;
    let read = source.read_bytes.load(Ordering::SeqCst);
    assert!(read < source.snapshot.length_bytes, "no more was read than the sockets take: {read}");
}

#[tokio::test]
async fn a_newer_connection_of_the_same_peer_takes_the_place_of_the_older_one() {
    let (source, one, _two, address) = strict_source().await;
    let mut older = shaken(&address).await;
    let mut newer = shaken(&address).await;
    older.closed().await;
    newer.send(&fetch_frame(source.snapshot, 0, 100)).await;
    let chunk = newer.chunk().await.expect("served");
    assert!(chunk.bytes == source.bytes[..100]);
    assert_eq!(one.communicator.handle().transfers().serving, 1);
}

#[tokio::test]
async fn a_puller_that_asks_again_and_again_is_no_sign_of_progress() {
    let (source, _one, _two, address) = strict_source().await;
    let mut end = shaken(&address).await;
    end.send(&fetch_frame(source.snapshot, 0, 100)).await;
    assert!(end.chunk().await.is_some());
    for until in 101..200 {
        end.send(&fetch_frame(source.snapshot, 0, until)).await;
        assert!(end.chunk().await.is_some_and(|chunk| chunk.offset == until - 1));
    }
    // Longer than the interval at which progress is told.
    tokio::time::sleep(Duration::from_millis(limits::HEARTBEAT_INTERVAL_MS + 10)).await;
    end.send(&fetch_frame(source.snapshot, 0, 300)).await;
    assert!(end.chunk().await.is_some());
    assert_eq!(source.pulled.lock().len(), 1, "only its beginning");
}

#[tokio::test]
async fn a_source_that_has_become_another_incarnation_is_refused_by_name() {
    let (script, two) = puller_of_a_script().await;
    let asked = PullOrder { written: 100, ..order(1, snapshot(7, LENGTH)) };
    let written = Written::default();
    let pull = Pull::start(&two, asked, &written);
    let scripted = tokio::spawn(async move { while accept_puller(&script, 11).await.fetch().await.is_some() {} });
    let end = pull.end().await;
    scripted.abort();
    assert!(matches!(end.result, Err(PullError::Refused(_))), "{:?}", end.result);
    assert_eq!((end.written, written.len()), (100, 0));
}
