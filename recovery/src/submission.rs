//! What is submitted to the log.

use quorate_framework::{MemberVector, Position, RecordPlace, RecoverySpec, SnapshotBase, Ticket};

/// Weight of a change of metadata, in bytes: about what it adds to the file.
const CHANGE_BYTES: usize = 256;

/// A change of the metadata that the driver makes, beside the protocol's own metadata record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataChange {
    /// The cluster was formed on this vector.
    Members(MemberVector),
    /// The state begins with another snapshot: a checkpoint, or a snapshot from a peer. The snapshot and its store generation must be
    /// durable before this is submitted.
    Snapshot {
        /// The snapshot. Never older than the one before.
        base: SnapshotBase,
        /// Which generation of the store belongs to it.
        store_generation: u64,
        /// Segments whose records are all at or below this position may go; at most the snapshot's position.
        released: Position,
    },
}

/// What is to be made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalItem<S> {
    /// A record of the protocol.
    Record(S),
    /// A change of the metadata: a barrier in the order of tickets, like a record whose place is the metadata.
    Metadata(MetadataChange),
}

/// Something to be made durable, and its ticket. Tickets rise from one to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission<S> {
    /// Its place in the order of what this replica persists.
    pub ticket: Ticket,
    /// What.
    pub item: WalItem<S>,
}

impl<S: RecoverySpec> Submission<S> {
    /// A record.
    pub fn record(ticket: Ticket, record: S) -> Submission<S> {
        Submission { ticket, item: WalItem::Record(record) }
    }

    /// A change of the metadata.
    pub fn metadata(ticket: Ticket, change: MetadataChange) -> Submission<S> {
        Submission { ticket, item: WalItem::Metadata(change) }
    }

    /// Bytes it counts for in the bounds of queues.
    pub fn weight(&self) -> usize {
        match &self.item {
            WalItem::Record(record) => record.weight(),
            WalItem::Metadata(_) => CHANGE_BYTES,
        }
    }

    /// Whether it goes to the metadata file.
    pub(crate) fn is_barrier(&self) -> bool {
        match &self.item {
            WalItem::Record(record) => record.place() == RecordPlace::Metadata,
            WalItem::Metadata(_) => true,
        }
    }
}
