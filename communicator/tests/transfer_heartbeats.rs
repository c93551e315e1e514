//! While a snapshot is sent, what replicas say to each other otherwise is not delayed.

mod common;
mod transfer_support;

use bytes::Bytes;
use common::{Replica, peer_frame};
use quorate_communicator::CommunicatorConfiguration;
use quorate_framework::{Lane, limits};
use std::sync::Arc;
use std::time::{Duration, Instant};
use transfer_support::{MemorySource, Pull, Written, order, pair, state};

/// One round trip of a heartbeat and its answer. Both replicas live on this thread, as their cores would on theirs.
async fn round_trip(one: &mut Replica, two: &mut Replica, number: u64) -> Duration {
    let began = Instant::now();
    let head = Bytes::copy_from_slice(&number.to_le_bytes());
    one.communicator.send_now(&mut vec![peer_frame(&[2], Lane::Control, &head, vec![])]);
    assert_eq!(two.frame().await.3, head);
    two.communicator.send_now(&mut vec![peer_frame(&[1], Lane::Control, &head, vec![])]);
    assert_eq!(one.frame().await.3, head);
    began.elapsed()
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

#[tokio::test]
async fn heartbeats_keep_their_round_trip_while_a_snapshot_is_sent() {
    let bytes = state(192 << 20);
    let source = Arc::new(MemorySource::new(7, &bytes));
    let (mut one, mut two, _) = pair(&source, None, |_: &mut CommunicatorConfiguration| {}).await;
    one.connected(2).await;
    two.connected(1).await;
    let mut number = 0;
    let mut idle = Vec::new();
    for _ in 0..300 {
        number += 1;
        idle.push(round_trip(&mut one, &mut two, number).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let pull = Pull::start(&two, order(1, source.snapshot), &Written::default());
    let mut busy = Vec::new();
    while pull.handle.written() < source.snapshot.length_bytes {
        number += 1;
        busy.push(round_trip(&mut one, &mut two, number).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(pull.end().await.result, Ok(()));
    let (idle_median, busy_median) = (percentile(&mut idle, 50), percentile(&mut busy, 50));
    let (idle_tail, busy_tail) = (percentile(&mut idle, 99), percentile(&mut busy, 99));
    println!(
        "round trips, {} of them idle and {} during the transfer: median {idle_median:?} and {busy_median:?}, \
         99 % {idle_tail:?} and {busy_tail:?}",
        idle.len(),
        busy.len()
    );
    assert!(busy.len() >= 100, "measured while it was sent: {}", busy.len());
    // Wide bounds, since the machine may have other work: what a transfer on the core's own thread would cost is far beyond them.
    let interval = Duration::from_millis(limits::HEARTBEAT_INTERVAL_MS);
    assert!(busy_median < 4 * idle_median + interval / 10, "{idle_median:?} and {busy_median:?}");
    assert!(busy_tail < 4 * idle_tail + interval, "{idle_tail:?} and {busy_tail:?}");
}

#[tokio::test]
async fn a_file_that_hangs_at_either_end_holds_up_no_heartbeat() {
    for hangs_at_source in [true, false] {
        let bytes = state(4 << 20);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = parking_lot::Mutex::new(released);
        // Hangs for as long as the test holds the other end.
        let hang = move || {
            let _ = released.lock().recv();
        };
        let mut source = MemorySource::new(7, &bytes);
        let written = Written::default();
        let (began, has_begun) = std::sync::mpsc::channel();
        let sink = if hangs_at_source {
            let began = parking_lot::Mutex::new(began);
            source.on_read = Some(Box::new(move |_, _| {
                let _ = began.lock().send(());
                hang();
                None
            }));
            written.sink()
        } else {
            written.watched_sink(Box::new(move |_, _| {
                let _ = began.send(());
                hang();
                Ok(())
            }))
        };
        let source = Arc::new(source);
        let (mut one, mut two, _) = pair(&source, None, |_| {}).await;
        one.connected(2).await;
        two.connected(1).await;
        let pull = Pull::with_sink(&two, order(1, source.snapshot), &written, sink);
        common::until("the file to be reached", || has_begun.try_recv().is_ok()).await;
        for number in 0..200 {
            let time = round_trip(&mut one, &mut two, number).await;
            assert!(time < Duration::from_secs(1), "{time:?}");
        }
        assert_eq!(pull.handle.written(), 0, "it hangs all the time");
        drop(release);
        assert_eq!(pull.end().await.result, Ok(()));
        assert!(written.take() == *bytes);
    }
}
