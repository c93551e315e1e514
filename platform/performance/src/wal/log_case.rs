//! The write-ahead log as it is shipped, with one future an operation.

use super::figures::{Group, Measured, Way};
use super::timed_vfs::{Operation, Operations, Timed, TimedVfs};
use super::{Failed, WalError};
use bytes::Bytes;
use parking_lot::Mutex;
use quorate_framework::entry::{EntryKind, GroupBuilder, share_entries};
use quorate_framework::{ClusterId, Encoder, Position, RecoverySpec, ReplicaId, Ticket, TicketSequence};
use quorate_raft::RaftRecord;
use quorate_recovery::{
    DirectoryVfs, FlushLinger, GROUP_BYTES, Pump, Recovered, SEGMENT_BYTES, StartOptions, StorageError, Submission,
    WalEvent, WalSettings, WalWriterLoop, check, current_boot,
};
use quorate_recovery_raft::{RaftRecovery, raft_identity};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes before a record on disk.
const RECORD_FRAME_BYTES: usize = 12;

/// A log's record with one entry of one operation.
fn record(index: u64, payload: &Bytes) -> RaftRecord {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&1_u64.to_le_bytes());
    head[8..].copy_from_slice(&index.to_le_bytes());
    let mut builder = GroupBuilder::with_capacity(payload.len() + head.len() + 10, 1);
    builder.push(EntryKind::Request, &head, payload);
    let mut chunks = Vec::with_capacity(1);
    share_entries(&builder.finish(), |chunk| chunks.push(chunk));
    RaftRecord::Entries { count: 1, last: Position(index), chunks }
}

/// Bytes of an operation's record on disk.
pub(super) fn record_bytes(payload: &Bytes) -> usize {
    let mut encoder = Encoder::new();
    record(1, payload).encode(&mut encoder);
    encoder.finish().length() + RECORD_FRAME_BYTES
}

/// Bounds of a group and the wait for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grouping {
    pub(super) wait: Option<Duration>,
    pub(super) batch: usize,
}

/// A durable group, as the writer's thread has told it.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// Everything up to it is durable.
    ticket: Ticket,
    operations: u64,
    at: Instant,
}

/// A fresh log in an empty folder, and what is done to its files from now on.
fn open(folder: &Path, batch: usize, payload: &Bytes) -> Result<(Pump<RaftRecord>, Operations), WalError> {
    let identity = raft_identity(ClusterId([1; 16]), ReplicaId(1));
    let operations = Operations::default();
    let vfs = DirectoryVfs::open(folder).failed("opening the log's folder")?;
    RaftRecovery::init(&vfs, &identity, &mut rand::random::<u64>).failed("making the log")?;
    let settings = WalSettings {
        group_records: batch,
        group_bytes: GROUP_BYTES.max(batch.saturating_mul(2 * record_bytes(payload))),
        segment_bytes: SEGMENT_BYTES,
        ..WalSettings::default()
    };
    let options = StartOptions { identity, boot: current_boot(), settings, random: Box::new(rand::random::<u64>) };
    let vfs = Box::new(TimedVfs::new(vfs, operations.clone()));
    let Recovered { mut pump, .. } = RaftRecovery::open(vfs, options).failed("starting the log")?;
    // What a running replica has behind it before load comes.
    while pump.has_maintenance() {
        pump.maintain().failed("preparing segments")?;
    }
    operations.take();
    Ok((pump, operations))
}

/// Runs one case in a folder of its own, which must be empty: all operations are submitted, then all are awaited.
pub(super) fn all_at_once(
    folder: &Path,
    grouping: Grouping,
    operations: u64,
    payload: &Bytes,
) -> Result<Measured, WalError> {
    let (pump, done) = open(folder, grouping.batch, payload)?;
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let linger = grouping.wait.map_or_else(FlushLinger::default, |wait| FlushLinger { wait, batch: grouping.batch });
    let wal = WalWriterLoop::start(pump, linger, move |event| tell(&telling, &event))
        .failed("starting the writer's thread")?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().failed("waiting")?;

    let mut submitted = Vec::with_capacity(operations as usize);
    let mut awaited = Vec::with_capacity(operations as usize);
    let mut tickets = TicketSequence::default();
    let mut submission = Vec::with_capacity(1);
    let began = Instant::now();
    for index in 1..=operations {
        let ticket = tickets.next_ticket();
        submitted.push((ticket, Instant::now()));
        submission.push(Submission::record(ticket, record(index, payload)));
        wal.submit(&mut submission).failed("submitting")?;
        awaited.push(wal.wait_for(ticket));
    }
    runtime
        .block_on(async {
            for durable in awaited {
                durable.await?;
            }
            Ok::<(), StorageError>(())
        })
        .failed("writing")?;
    let elapsed = began.elapsed();
    wal.stop().failed("stopping the log")?;
    verify(folder, operations)?;
    let told = std::mem::take(&mut *told.lock());
    let ways = ways(&submitted, &told);
    Ok(Measured { elapsed, ways, groups: groups(began, &told, &done.take()) })
}

/// Runs on the writer's thread, once a group, right after the group's futures have become ready.
fn tell(told: &Mutex<Vec<Told>>, event: &WalEvent) {
    // A failure reaches the futures too.
    if let WalEvent::Persisted { ticket, records, .. } = event {
        told.lock().push(Told { ticket: *ticket, operations: u64::from(*records), at: Instant::now() });
    }
}

/// Each operation's way: it ends when its group is told.
fn ways(submitted: &[(Ticket, Instant)], told: &[Told]) -> Vec<Way> {
    let mut groups = told.iter().peekable();
    let mut ways = Vec::with_capacity(submitted.len());
    for (ticket, from) in submitted {
        while groups.next_if(|group| group.ticket < *ticket).is_some() {}
        ways.extend(groups.peek().map(|group| (*from, group.at)));
    }
    ways
}

/// Puts together which writes and syncs belong to which group: those that ended between two tellings.
fn groups(began: Instant, told: &[Told], done: &[Timed]) -> Vec<Group> {
    let mut done = done.iter().peekable();
    let mut gathered_from = began;
    let mut groups = Vec::new();
    for group_told in told {
        let mut group = Group {
            operations: group_told.operations,
            gathered_from,
            write_began: group_told.at,
            write: Duration::ZERO,
            bytes: 0,
            sync: None,
            ended: gathered_from,
        };
        while let Some(timed) = done.next_if(|timed| timed.ended <= group_told.at) {
            group.write_began = group.write_began.min(timed.began);
            group.ended = group.ended.max(timed.ended);
            let time = timed.ended - timed.began;
            match timed.operation {
                Operation::Write(bytes) => {
                    group.write += time;
                    group.bytes += bytes as u64;
                }
                Operation::Sync => group.sync = Some(group.sync.unwrap_or_default() + time),
            }
        }
        group.ended = group.ended.max(group.write_began);
        gathered_from = group_told.at;
        groups.push(group);
    }
    groups
}

/// What was told as durable must be in the log.
fn verify(folder: &Path, operations: u64) -> Result<(), WalError> {
    let vfs = DirectoryVfs::open_unlocked(folder).failed("opening the log's folder")?;
    let report = check::<RaftRecord>(&vfs, None).failed("reading the log back")?;
    if report.records == operations && report.last_position == Position(operations) {
        return Ok(());
    }
    Err(WalError::Lost { operations, records: report.records })
}

/// One operation at a time, with the default settings: each is submitted when the one before is durable. Gives each one's latency.
pub(super) fn one_at_a_time(folder: &Path, operations: u64, payload: &Bytes) -> Result<Vec<Duration>, WalError> {
    let (pump, _) = open(folder, quorate_recovery::GROUP_RECORDS, payload)?;
    let wal = WalWriterLoop::start(pump, FlushLinger::default(), |_| {}).failed("starting the writer's thread")?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().failed("waiting")?;
    let mut tickets = TicketSequence::default();
    let mut submission = Vec::with_capacity(1);
    let mut latencies = Vec::with_capacity(operations as usize);
    for index in 1..=operations {
        let began = Instant::now();
        let ticket = tickets.next_ticket();
        submission.push(Submission::record(ticket, record(index, payload)));
        wal.submit(&mut submission).failed("submitting")?;
        runtime.block_on(wal.wait_for(ticket)).failed("writing")?;
        latencies.push(began.elapsed());
    }
    wal.stop().failed("stopping the log")?;
    verify(folder, operations)?;
    Ok(latencies)
}
