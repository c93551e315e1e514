//! Where a turn's records become durable: the shell's view of the write-ahead log.
//!
//! Nothing here waits for a disk. What is submitted is written and synced by somebody else, who wakes the shell when
//! [`Storage::durable`] has risen or [`Storage::failure`] has come.

mod none;
mod sync_times;
mod wal;

pub use none::NoStorage;
pub use sync_times::SyncTimes;
pub use wal::{Wake, WalStorage};

use quorate_framework::{Consensus, MemberVector, Position, SnapshotBase, Ticket};
use serde::Serialize;

/// A change of the metadata that names a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSnapshot {
    /// The snapshot. Never older than the one named before.
    pub base: SnapshotBase,
    /// Which generation of the store belongs to it.
    pub store_generation: u64,
    /// The log up to here may go.
    pub released: Position,
}

/// Figures of a storage, for operators.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StorageFigures {
    /// Syncs of the log that covered at least one record.
    pub fsyncs: u64,
    /// Records made durable.
    pub records: u64,
    /// Groups made durable, each by one sync.
    pub groups: u64,
    /// Records of a group, on average.
    pub group_records_mean: f64,
    /// Replacements of the metadata file, two syncs each.
    pub metadata_writes: u64,
    /// Bytes submitted and not yet durable.
    pub pending_bytes: u64,
    /// Median of the last syncs, in microseconds; null before there are any.
    pub fsync_p50_us: Option<u64>,
    /// 99th percentile of the last syncs, in microseconds.
    pub fsync_p99_us: Option<u64>,
    /// Longest of the last syncs, in microseconds.
    pub fsync_max_us: Option<u64>,
}

/// Makes records durable, in the order of their tickets. No call blocks.
pub trait Storage<C: Consensus>: Send {
    /// Takes over what a turn wants durable: both lists rise by their tickets, and no ticket is below one of an earlier call. Leaves
    /// them empty, with their memory. After a failure it only empties them.
    fn submit(&mut self, records: &mut Vec<(Ticket, C::Record)>, identity: &mut Vec<(Ticket, MemberVector)>);

    /// Names a snapshot in the metadata, in the same order.
    fn name_snapshot(&mut self, ticket: Ticket, snapshot: NamedSnapshot);

    /// Everything up to this ticket is durable. Never falls.
    fn durable(&self) -> Ticket;

    /// Why nothing more becomes durable, if so. Final.
    fn failure(&self) -> Option<String>;

    /// Bytes submitted and not yet durable.
    fn pending_bytes(&self) -> u64;

    /// Bytes of records submitted since the process began.
    fn submitted_bytes(&self) -> u64;

    /// Begins the clean end: all that was submitted becomes durable, and the end is noted as a clean one. Nothing is submitted after it.
    fn begin_stop(&mut self);

    /// Whether the end that was begun has come, well or not ([`Storage::failure`] says which).
    fn is_stopped(&self) -> bool;

    /// Figures for operators; none without a disk.
    fn figures(&self) -> Option<StorageFigures>;
}
