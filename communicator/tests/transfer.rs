//! Snapshots pulled by one replica from another over real sockets.

mod common;
mod transfer_support;

use common::{Replica, bind, claim, configuration, until, within};
use quorate_communicator::{PullError, RefusalCode, SnapshotSource, SourceError};
use quorate_framework::{Incarnation, Position, ReplicaId, ServedSnapshot, SnapshotId, limits};
use rand::RngExt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use transfer_support::{MemorySource, Pull, Written, order, pair, raw_puller, snapshot, state};

const MIB: usize = 1 << 20;

#[tokio::test]
async fn sixty_four_mib_arrive_byte_for_byte_whoever_has_the_higher_id() {
    let bytes = state(64 * MIB + 12_345);
    let source = Arc::new(MemorySource::new(7, &bytes));
    let (one, two, _) = pair(&source, None, |_| {}).await;
    for (server, puller, from) in [(&one, &two, 1), (&two, &one, 2)] {
        server.communicator.handle().serve_snapshots(Arc::clone(&source) as Arc<dyn SnapshotSource>);
        let written = Written::default();
        let end = Pull::start(puller, order(from, source.snapshot), &written).end().await;
        assert_eq!((end.result, end.written), (Ok(()), bytes.len() as u64));
        assert!(written.take() == *bytes, "byte for byte");
        let figures = puller.communicator.handle().transfers();
        assert_eq!((figures.connections_pulled, figures.written_bytes, figures.damaged), (1, bytes.len() as u64, 0));
        let handle = server.communicator.handle();
        until("the source to see the end", || handle.transfers().serving == 0).await;
        assert_eq!(handle.transfers().sent_bytes, bytes.len() as u64);
    }
}

/// Passes connections on to `target` and cuts each after another number of bytes towards the dialler, up to `cuts` times.
async fn cutting_proxy(target: &str, cuts: usize, most_bytes: usize) -> (String, Arc<AtomicUsize>) {
    let (listener, address) = bind().await;
    let (target, cut) = (target.to_owned(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&cut);
    tokio::spawn(async move {
        while let Ok((dialler, _)) = listener.accept().await {
            let Ok(source) = TcpStream::connect(&target).await else { return };
            let left = (cut.load(Ordering::SeqCst) < cuts).then(|| rand::rng().random_range(1..most_bytes));
            tokio::spawn(pass(dialler, source, left, Arc::clone(&cut)));
        }
    });
    (address, counted)
}

async fn pass(dialler: TcpStream, source: TcpStream, left: Option<usize>, cut: Arc<AtomicUsize>) {
    let ((mut dialler_read, mut dialler_write), (source_read, mut source_write)) =
        (dialler.into_split(), source.into_split());
    let up = tokio::spawn(async move { tokio::io::copy(&mut dialler_read, &mut source_write).await });
    let mut limited = source_read.take(left.map_or(u64::MAX, |left| left as u64));
    let _ = tokio::io::copy(&mut limited, &mut dialler_write).await;
    if limited.limit() == 0 {
        cut.fetch_add(1, Ordering::SeqCst);
    }
    up.abort();
}

#[tokio::test]
async fn a_transfer_that_is_cut_at_random_bytes_goes_on_from_what_is_written() {
    let bytes = state(32 * MIB);
    let source = Arc::new(MemorySource::new(7, &bytes));
    let (first_listener, first) = bind().await;
    let (second_listener, second) = bind().await;
    // The puller's link to its peer passes the proxy as well, and is cut as well.
    let (proxy, cuts) = cutting_proxy(&first, 12, 6 * MIB).await;
    let one = Replica::start(configuration(1, &[(2, &second)]), first_listener);
    one.communicator.handle().serve_snapshots(Arc::clone(&source) as Arc<dyn SnapshotSource>);
    let two = Replica::start(configuration(2, &[(1, &proxy)]), second_listener);
    let written = Written::default();
    let end = Pull::start(&two, order(1, source.snapshot), &written).end().await;
    assert_eq!(end.result, Ok(()));
    assert!(written.take() == *bytes, "byte for byte");
    assert!(cuts.load(Ordering::SeqCst) >= 4, "it was cut: {cuts:?}");
    let figures = two.communicator.handle().transfers();
    assert!(figures.connections_pulled >= 4, "{figures:?}");
    let again = source.read_bytes.load(Ordering::SeqCst) - bytes.len() as u64;
    let window = 2 * limits::SNAPSHOT_CHUNK_BYTES as u64;
    let in_sockets = 8 * MIB as u64;
    assert!(again <= figures.connections_pulled * (window + in_sockets), "{again} bytes were read again");
}

#[tokio::test]
async fn an_earlier_pull_is_taken_up_where_it_ended_and_a_complete_one_dials_nobody() {
    let bytes = state(3 * MIB);
    let source = Arc::new(MemorySource::new(7, &bytes));
    let (_one, two, _) = pair(&source, None, |_| {}).await;
    let written = Written::default();
    let failing = written.watched_sink(Box::new(|offset, _| {
        if offset >= MIB as u64 { Err(io::Error::other("no space left")) } else { Ok(()) }
    }));
    let end = Pull::with_sink(&two, order(1, source.snapshot), &written, failing).end().await;
    assert_eq!(end.result, Err(PullError::Sink("no space left".into())));
    assert_eq!(end.written, MIB as u64);
    let rest = quorate_communicator::PullOrder { written: end.written, ..order(1, source.snapshot) };
    let end = Pull::start(&two, rest, &written).end().await;
    assert_eq!((end.result, end.written), (Ok(()), bytes.len() as u64));
    assert!(written.take() == *bytes);
    let before = two.communicator.handle().transfers().dials;
    let complete = quorate_communicator::PullOrder { written: end.written, ..rest };
    let end = Pull::start(&two, complete, &Written::default()).end().await;
    assert_eq!((end.result, two.communicator.handle().transfers().dials), (Ok(()), before));
}

#[tokio::test]
async fn an_order_that_makes_no_sense_dials_nobody() {
    let source = Arc::new(MemorySource::new(7, &state(1_000)));
    let (_one, two, _) = pair(&source, None, |_| {}).await;
    let invalid = async |order| {
        let end = Pull::start(&two, order, &Written::default()).end().await;
        assert!(matches!(end.result, Err(PullError::Invalid(_))), "{:?}", end.result);
    };
    invalid(order(9, source.snapshot)).await;
    invalid(order(2, source.snapshot)).await;
    invalid(order(1, ServedSnapshot { length_bytes: limits::SNAPSHOT_BYTES + 1, ..source.snapshot })).await;
    invalid(quorate_communicator::PullOrder { written: 1_001, ..order(1, source.snapshot) }).await;
    assert_eq!(two.communicator.handle().transfers().dials, 0);
}

#[tokio::test]
async fn another_incarnation_than_the_one_that_announced_is_refused_by_the_puller() {
    let source = Arc::new(MemorySource::new(7, &state(MIB)));
    let (one, two, _) = pair(&source, None, |_| {}).await;
    let stale = quorate_communicator::PullOrder { incarnation: Incarnation(77), ..order(1, source.snapshot) };
    let end = Pull::start(&two, stale, &Written::default()).end().await;
    let Err(PullError::Refused(refusal)) = end.result else { panic!("refused, not {:?}", end.result) };
    assert_eq!(refusal.code, RefusalCode::NotAdmitted);
    assert!(refusal.reason.contains("announced by incarnation"), "{refusal}");
    assert_eq!((end.written, one.communicator.handle().transfers().connections_served), (0, 0));
}

#[tokio::test]
async fn a_stranger_and_an_unbound_incarnation_are_refused_by_the_source() {
    let mut source = MemorySource::new(7, &state(MIB));
    source.bound = Some(vec![(ReplicaId(2), Incarnation(2))]);
    let source = Arc::new(source);
    let (one, two, address) = pair(&source, None, |_| {}).await;
    let bound = Pull::start(&two, order(1, source.snapshot), &Written::default()).end().await;
    assert_eq!(bound.result, Ok(()), "the bound incarnation pulls");
    two.communicator.handle().set_claim(quorate_framework::MemberClaim { start_counter: 1, ..claim(22) });
    let end = Pull::start(&two, order(1, source.snapshot), &Written::default()).end().await;
    let Err(PullError::Refused(refusal)) = end.result else { panic!("refused, not {:?}", end.result) };
    assert_eq!(refusal.code, RefusalCode::NotAdmitted);
    assert!(refusal.reason.contains("is not bound"), "{refusal}");
    let Err(error) = raw_puller(&address, 3).await else { panic!("replica 3 is not a member at replica 1") };
    let quorate_communicator::HandshakeError::RefusedByOther(refusal) = error else { panic!("{error}") };
    assert_eq!(refusal.code, RefusalCode::UnknownReplica);
    assert_eq!(one.communicator.handle().transfers().connections_served, 1);
}

#[tokio::test]
async fn a_replica_without_a_source_refuses() {
    let ((first_listener, first), (second_listener, second)) = (bind().await, bind().await);
    let _one = Replica::start(configuration(1, &[(2, &second)]), first_listener);
    let two = Replica::start(configuration(2, &[(1, &first)]), second_listener);
    let end = Pull::start(&two, order(1, snapshot(7, 100)), &Written::default()).end().await;
    assert!(matches!(end.result, Err(PullError::Refused(_))), "{:?}", end.result);
}

#[tokio::test]
async fn a_snapshot_that_is_withdrawn_half_way_ends_as_gone_and_says_how_far_it_came() {
    let bytes = state(8 * MIB);
    let source = Arc::new(MemorySource::new(7, &bytes));
    let (_one, two, _) = pair(&source, None, |_| {}).await;
    let written = Written::default();
    let withdrawing = Arc::clone(&source);
    let sink = written.watched_sink(Box::new(move |offset, _| {
        if offset >= 2 * MIB as u64 {
            withdrawing.withdrawn.store(true, Ordering::SeqCst);
        }
        Ok(())
    }));
    let end = Pull::with_sink(&two, order(1, source.snapshot), &written, sink).end().await;
    assert_eq!(end.result, Err(PullError::Gone));
    assert!((2 * MIB as u64..4 * MIB as u64).contains(&end.written), "{}", end.written);
    assert!(written.take() == bytes[..end.written as usize], "what came is right all the same");
}

#[tokio::test]
async fn a_snapshot_of_another_name_position_or_length_is_not_mixed_with_the_announced_one() {
    let source = Arc::new(MemorySource::new(7, &state(MIB)));
    let (_one, two, _) = pair(&source, None, |_| {}).await;
    let pull = |snapshot| Pull::start(&two, order(1, snapshot), &Written::default()).end();
    let other = ServedSnapshot { id: SnapshotId(8), ..source.snapshot };
    assert_eq!(pull(other).await.result, Err(PullError::Gone));
    let other = ServedSnapshot { position: Position(101), ..source.snapshot };
    assert_eq!(pull(other).await.result, Err(PullError::Different));
    let other = ServedSnapshot { length_bytes: MIB as u64 + 1, ..source.snapshot };
    assert_eq!(pull(other).await.result, Err(PullError::Different));
    let other = ServedSnapshot { length_bytes: 1_000, ..source.snapshot };
    assert_eq!(pull(other).await.result, Err(PullError::Different));
}

#[tokio::test]
async fn a_source_that_cannot_read_says_so_and_short_reads_are_no_error() {
    for (broken, wanted) in [
        (None, Ok(())),
        (Some(SourceError::Failed("input/output error".into())), Err(PullError::SourceFailed)),
        (Some(SourceError::Gone), Err(PullError::Gone)),
    ] {
        let bytes = state(MIB);
        let mut source = MemorySource::new(7, &bytes);
        let copy = Arc::clone(&bytes);
        source.on_read = Some(Box::new(move |offset, part| {
            if let (Some(error), true) = (&broken, offset > 500_000) {
                return Some(Err(error.clone()));
            }
            // Seldom a whole part, and never the same length twice.
            let length = part.len().min(1 + offset as usize % 100_000);
            part[..length].copy_from_slice(&copy[offset as usize..offset as usize + length]);
            Some(Ok(length))
        }));
        let source = Arc::new(source);
        let (_one, two, _) = pair(&source, None, |_| {}).await;
        let written = Written::default();
        let end = Pull::start(&two, order(1, source.snapshot), &written).end().await;
        assert_eq!(end.result, wanted);
        assert!(written.take() == bytes[..end.written as usize]);
        assert_eq!(two.communicator.handle().transfers().dials, 1, "a short read ends no connection");
    }
    let mut ending = MemorySource::new(7, &state(MIB));
    ending.on_read = Some(Box::new(|offset, part| Some(Ok(if offset < 300_000 { part.len() } else { 0 }))));
    let ending = Arc::new(ending);
    let (_one, two, _) = pair(&ending, None, |_| {}).await;
    let end = Pull::start(&two, order(1, ending.snapshot), &Written::default()).end().await;
    assert_eq!(end.result, Err(PullError::SourceFailed), "a file shorter than announced");
}

#[tokio::test]
async fn a_cancelled_pull_writes_nothing_more_and_its_end_is_told() {
    let source = Arc::new(MemorySource::new(7, &state(64 * MIB)));
    let slow = |configuration: &mut quorate_communicator::CommunicatorConfiguration| {
        configuration.options.snapshot_bytes_per_second = 4 * MIB as u64;
    };
    let (one, two, _) = pair(&source, None, slow).await;
    let written = Written::default();
    let mut pull = Pull::start(&two, order(1, source.snapshot), &written);
    until("the first part", || pull.handle.written() > 0).await;
    pull.handle.cancel();
    let end = pull.end().await;
    assert_eq!(end.result, Err(PullError::Cancelled));
    assert_eq!(end.written, written.len() as u64);
    let handle = one.communicator.handle();
    until("the source to notice", || handle.transfers().serving == 0).await;
    assert!(end.written < 8 * MIB as u64);
}

#[tokio::test]
async fn a_communicator_that_stops_ends_its_pulls() {
    let source = Arc::new(MemorySource::new(7, &state(64 * MIB)));
    let (_one, two, _) = pair(&source, None, |configuration| {
        configuration.options.snapshot_bytes_per_second = 4 * MIB as u64;
    })
    .await;
    let written = Written::default();
    let pull = Pull::start(&two, order(1, source.snapshot), &written);
    until("the first part", || pull.handle.written() > 0).await;
    let handle = two.communicator.handle();
    drop(two);
    assert_eq!(pull.end().await.result, Err(PullError::Stopping));
    let (sender, end) = tokio::sync::oneshot::channel();
    let on_end = Box::new(move |end| sender.send(end).expect("the test waits"));
    let _pull = handle.pull_snapshot(order(1, source.snapshot), written.sink(), on_end);
    assert_eq!(within("the end", end).await.expect("told").result, Err(PullError::Stopping), "none begins any more");
}

#[tokio::test]
async fn a_source_that_stops_leaves_its_puller_waiting_for_a_bounded_time_without_a_storm_of_dials() {
    let source = Arc::new(MemorySource::new(7, &state(64 * MIB)));
    let (one, two, _) = pair(&source, None, |configuration| {
        configuration.options.snapshot_bytes_per_second = 4 * MIB as u64;
        configuration.options.snapshot_stall_timeout = Duration::from_millis(1_500);
    })
    .await;
    let pull = Pull::start(&two, order(1, source.snapshot), &Written::default());
    until("the first part", || pull.handle.written() > 0).await;
    drop(one);
    let began = Instant::now();
    let end = pull.end().await;
    let Err(PullError::Stalled { reason, .. }) = end.result else { panic!("stalled, not {:?}", end.result) };
    assert!(reason.contains("refused"), "{reason}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    // Pauses from 10 ms on that double: about eight attempts in the time.
    let dials = two.communicator.handle().transfers().dials;
    assert!((4..=12).contains(&dials), "{dials}");
}

#[tokio::test]
async fn the_rate_holds_over_all_connections_together() {
    let source = Arc::new(MemorySource::new(7, &state(4 * MIB)));
    let (first_listener, first) = bind().await;
    let mut one = configuration(1, &[(2, "127.0.0.1:1"), (3, "127.0.0.1:1")]);
    one.options.snapshot_bytes_per_second = 8 * MIB as u64;
    let one = Replica::start(one, first_listener);
    one.communicator.handle().serve_snapshots(Arc::clone(&source) as Arc<dyn SnapshotSource>);
    let began = Instant::now();
    let mut pulls = Vec::new();
    for replica in [2, 3] {
        let puller = Replica::start(configuration(replica, &[(1, &first)]), bind().await.0);
        let pull = Pull::start(&puller, order(1, source.snapshot), &Written::default());
        pulls.push((puller, pull));
    }
    for (_puller, pull) in pulls {
        assert_eq!(pull.end().await.result, Ok(()));
    }
    let seconds = began.elapsed().as_secs_f64();
    assert!((0.9..4.0).contains(&seconds), "eight MiB at eight MiB a second took {seconds} s");
}

#[tokio::test]
async fn at_the_slowest_rate_parts_are_small_and_nothing_stalls() {
    let source = Arc::new(MemorySource::new(7, &state(96 << 10)));
    let (_one, two, _) = pair(&source, None, |configuration| {
        configuration.options.snapshot_bytes_per_second = 1;
        configuration.options.snapshot_stall_timeout = Duration::from_millis(1_800);
    })
    .await;
    let written = Written::default();
    let end = Pull::start(&two, order(1, source.snapshot), &written).end().await;
    assert_eq!(end.result, Ok(()));
    assert!(written.take() == *source.bytes);
    assert_eq!(two.communicator.handle().transfers().connections_pulled, 1, "in one go");
}

#[tokio::test]
async fn the_source_hears_how_far_its_peer_has_written() {
    let bytes = state(8 * MIB);
    let source = Arc::new(MemorySource::new(7, &bytes));
    let (_one, two, _) = pair(&source, None, |configuration| {
        configuration.options.snapshot_bytes_per_second = 16 * MIB as u64;
    })
    .await;
    let end = Pull::start(&two, order(1, source.snapshot), &Written::default()).end().await;
    assert_eq!(end.result, Ok(()));
    let told = source.pulled.lock().clone();
    assert_eq!(told[0], (ReplicaId(2), 0), "at the beginning");
    assert!(told.windows(2).all(|pair| pair[0].1 < pair[1].1), "rising: {told:?}");
    assert!((3..=30).contains(&told.len()), "half a second, at most once per heartbeat interval: {}", told.len());
}

#[tokio::test]
async fn one_puller_too_many_waits_for_its_turn() {
    let source = Arc::new(MemorySource::new(7, &state(2 * MIB)));
    let (first_listener, first) = bind().await;
    let mut one = configuration(1, &[(2, "127.0.0.1:1"), (3, "127.0.0.1:1")]);
    one.options.snapshot_connections = 1;
    one.options.snapshot_bytes_per_second = 4 * MIB as u64;
    let one = Replica::start(one, first_listener);
    one.communicator.handle().serve_snapshots(Arc::clone(&source) as Arc<dyn SnapshotSource>);
    let two = Replica::start(configuration(2, &[(1, &first)]), bind().await.0);
    let three = Replica::start(configuration(3, &[(1, &first)]), bind().await.0);
    let first_pull = Pull::start(&two, order(1, source.snapshot), &Written::default());
    until("the first part", || first_pull.handle.written() > 0).await;
    let second_pull = Pull::start(&three, order(1, source.snapshot), &Written::default());
    let handle = one.communicator.handle();
    until("one to be turned away", || handle.traffic().refused > 0).await;
    assert_eq!((handle.transfers().serving, second_pull.handle.written()), (1, 0));
    assert_eq!(first_pull.end().await.result, Ok(()));
    assert_eq!(second_pull.end().await.result, Ok(()));
}
