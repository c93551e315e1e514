//! The writer's thread.
#![allow(clippy::unwrap_used)]

mod support;

use quorate_framework::{Ticket, TicketSequence};
use quorate_recovery::{
    DirectoryVfs, FlushLinger, RecoveryBase, StorageError, Submission, SubmitError, WalEvent, WalSettings,
    WalWriterLoop,
};
use quorate_simulated_disk::{CrashPolicy, Fault, OperationKind, SimulatedDisk, Trigger};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use support::*;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = Box::pin(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

struct Running {
    wal: WalWriterLoop<Record>,
    events: Receiver<WalEvent>,
    tickets: TicketSequence,
}

impl Running {
    fn on(disk: &SimulatedDisk, settings: WalSettings, linger: FlushLinger) -> Running {
        let mut recovered = RecoveryBase::<Record>::open(Box::new(disk.mount()), options(3, settings)).unwrap();
        // Or an idle writer might do it at any moment, and take a fault that a test means for something else.
        while recovered.pump.has_maintenance() {
            recovered.pump.maintain().unwrap();
        }
        let (sender, events) = channel();
        let wal = WalWriterLoop::start(recovered.pump, linger, move |event| drop(sender.send(event))).unwrap();
        Running { wal, events, tickets: TicketSequence::default() }
    }

    fn submit(&mut self, records: impl IntoIterator<Item = Record>) -> Result<Ticket, SubmitError> {
        let mut list: Vec<_> =
            records.into_iter().map(|record| Submission::record(self.tickets.next_ticket(), record)).collect();
        self.wal.submit(&mut list)?;
        assert!(list.is_empty());
        Ok(self.tickets.last())
    }

    fn next_persisted(&self) -> (Ticket, u32) {
        match self.events.recv_timeout(Duration::from_secs(20)).unwrap() {
            WalEvent::Persisted { ticket, records, .. } => (ticket, records),
            WalEvent::Failed(error) => panic!("{error}"),
        }
    }
}

#[test]
fn what_is_submitted_becomes_durable_and_a_stop_is_clean() {
    let disk = fresh(1);
    let mut running = Running::on(&disk, settings(), FlushLinger::default());
    let first = running.submit((1..=10).map(|position| put(position, 10))).unwrap();
    assert_eq!(block_on(running.wal.wait_for(first)).unwrap(), first);
    assert_eq!(running.next_persisted(), (first, 10));
    assert_eq!((running.wal.pending_bytes(), running.wal.durable()), (0, first));
    let figures = running.wal.figures();
    assert_eq!((figures.records, figures.submitted_groups, figures.log.syncs), (10, 1, 1));
    running.submit([put(11, 10)]).unwrap();
    assert!(running.wal.stop().unwrap().stopped_cleanly);
    disk.crash(CrashPolicy::SyncedOnly);
    let recovered = open(&disk, 4);
    assert_eq!(positions(&recovered.state), (1..=11).collect::<Vec<u64>>());
    assert!(recovered.report.stopped_cleanly);
}

#[test]
fn a_waiter_is_released_only_by_a_sync_that_began_after_its_bytes_were_written() {
    let disk = fresh(1);
    let mut running = Running::on(&disk, settings(), FlushLinger::default());
    disk.stall(&[OperationKind::SyncData]);
    let first = running.submit([put(1, 10)]).unwrap();
    assert!(disk.await_hanging(1, Duration::from_secs(20)), "the first sync runs");
    let second = running.submit([put(2, 10), put(3, 10)]).unwrap();
    assert!(running.wal.pending_bytes() > 0);
    assert_eq!((running.wal.durable(), running.events.try_recv().is_err()), (Ticket::RECOVERED, true));
    disk.start_recording();
    disk.resume();
    assert_eq!(running.next_persisted(), (first, 1), "the sync that ran covers the first only");
    assert_eq!(running.next_persisted(), (second, 2), "what came meanwhile is one group");
    let lines = disk.stop_recording().unwrap().lines();
    let write = lines.iter().position(|line| line.starts_with("write segment")).unwrap();
    let sync = lines.iter().rposition(|line| line.starts_with("sync segment-0000000000000000")).unwrap();
    assert!(write < sync, "{lines:?}");
}

#[test]
fn a_failed_sync_fails_every_waiter_and_everything_after_it() {
    let disk = fresh(1);
    let mut running = Running::on(&disk, settings(), FlushLinger::default());
    let first = running.submit([put(1, 10)]).unwrap();
    block_on(running.wal.wait_for(first)).unwrap();
    running.next_persisted();
    disk.inject(Trigger::next(OperationKind::SyncData), Fault::Error);
    let second = running.submit([put(2, 10)]).unwrap();
    assert!(matches!(block_on(running.wal.wait_for(second)), Err(StorageError::Io { .. })));
    assert!(matches!(running.events.recv_timeout(Duration::from_secs(20)).unwrap(), WalEvent::Failed(_)));
    assert!(matches!(running.submit([put(3, 10)]), Err(SubmitError::Ended(StorageError::Io { .. }))));
    assert_eq!(block_on(running.wal.wait_for(first)).unwrap(), first, "what was durable stays so");
    assert!(matches!(running.wal.stop(), Err(StorageError::Io { .. })));
    assert!(running.events.recv().is_err(), "told once");
}

#[test]
fn dropping_it_is_a_crash() {
    let disk = fresh(1);
    let mut running = Running::on(&disk, settings(), FlushLinger::default());
    let first = running.submit([put(1, 10)]).unwrap();
    block_on(running.wal.wait_for(first)).unwrap();
    let later = running.wal.wait_for(Ticket::RECOVERED.max(running.tickets.next_ticket()));
    drop(running.wal);
    assert!(matches!(block_on(later), Err(StorageError::Ended)));
    disk.crash(CrashPolicy::SyncedOnly);
    let recovered = open(&disk, 4);
    assert_eq!((recovered.report.stopped_cleanly, positions(&recovered.state)), (false, vec![1]));
}

#[test]
fn a_listener_that_panics_leaves_no_waiter_behind() {
    let disk = fresh(1);
    let recovered = RecoveryBase::<Record>::open(Box::new(disk.mount()), options(3, settings())).unwrap();
    let wal = WalWriterLoop::start(recovered.pump, FlushLinger::default(), |_| panic!("on purpose")).unwrap();
    let mut tickets = TicketSequence::default();
    let (first, second) = (tickets.next_ticket(), tickets.next_ticket());
    wal.submit(&mut vec![Submission::record(first, put(1, 10))]).unwrap();
    assert!(matches!(block_on(wal.wait_for(second)), Err(StorageError::Ended)));
    let refused = wal.submit(&mut vec![Submission::record(second, put(2, 10))]);
    assert!(matches!(refused, Err(SubmitError::Ended(_))));
    assert!(wal.stop().is_err());
}

#[test]
fn a_linger_gathers_until_the_batch_is_full() {
    let disk = fresh(1);
    let linger = FlushLinger { wait: Duration::from_secs(3600), batch: 3 };
    let mut running = Running::on(&disk, settings(), linger);
    running.submit([put(1, 10)]).unwrap();
    running.submit([put(2, 10)]).unwrap();
    let last = running.submit([put(3, 10)]).unwrap();
    assert_eq!(running.next_persisted(), (last, 3));
    let last = running.submit((4..=9).map(|position| put(position, 10))).unwrap();
    assert_eq!(running.next_persisted(), (last, 6), "more than a batch does not wait");
    running.submit([put(10, 10)]).unwrap();
    running.wal.stop().unwrap();
    disk.crash(CrashPolicy::SyncedOnly);
    assert_eq!(open(&disk, 4).state.values.len(), 10, "a stop ends the wait");
}

#[test]
fn a_linger_ends_when_its_time_is_over() {
    let disk = fresh(1);
    let mut running = Running::on(&disk, settings(), FlushLinger { wait: Duration::from_millis(5), batch: 0 });
    let last = running.submit([put(1, 10)]).unwrap();
    assert_eq!(running.next_persisted(), (last, 1));
}

#[test]
fn an_idle_writer_prepares_the_next_segment_and_frees_retired_ones() {
    let disk = fresh(1);
    let running = Running::on(&disk, settings(), FlushLinger::default());
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while segments(&disk, b"QUORFREE").is_empty() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
    assert_eq!(running.wal.figures().records, 0);
}

#[test]
fn a_real_directory_holds_what_was_submitted_over_many_segments_and_starts() {
    let folder = tempfile::tempdir().unwrap();
    RecoveryBase::<Record>::init(&DirectoryVfs::open(folder.path()).unwrap(), &identity(), &mut *random(1)).unwrap();
    for start in 0..3u64 {
        let vfs = DirectoryVfs::open(folder.path()).unwrap();
        let recovered = RecoveryBase::<Record>::open(Box::new(vfs), options(start + 2, settings())).unwrap();
        assert_eq!(positions(&recovered.state), (1..=start * 500).collect::<Vec<u64>>());
        let wal = WalWriterLoop::start(recovered.pump, FlushLinger::default(), |_| {}).unwrap();
        let mut tickets = TicketSequence::default();
        for position in start * 500 + 1..=(start + 1) * 500 {
            wal.submit(&mut vec![Submission::record(tickets.next_ticket(), put(position, 700))]).unwrap();
        }
        block_on(wal.wait_for(tickets.last())).unwrap();
        match start {
            1 => drop(wal),
            _ => drop(wal.stop().unwrap()),
        }
    }
}
