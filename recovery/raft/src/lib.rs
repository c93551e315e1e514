//! Recovery of a Raft replica: [`RecoveryBase`] with Raft's records.
//!
//! Raft's records and how they replay are in `quorate-raft` ([`RaftRecord`]): entries, truncations and resets go to the log, term and
//! vote to the metadata file, which is the only authority for them. What holds at a start:
//! - The log continues the snapshot that the metadata names, without a hole; entries that the snapshot holds stay as far as their
//!   segments do.
//! - A log that ends below that snapshot, or has another term at its index, is what an interrupted install left: it is reset, and the
//!   reset record that is missing is written before the first promise.
//! - Nothing at or below a reset is ever truncated after it.
//! - A log whose last term is above the metadata's is reported as an anomaly; the core takes the larger one.

use quorate_framework::{ClusterId, MemberVector, Position, ReplicaId};
use quorate_raft::{RaftRecord, Term, snapshot_base};
use quorate_recovery::{DumpedRecord, Identity, MetadataChange, RecordKind, RecoveryBase, ReplicatedSettings};

/// The start of a Raft replica from its data directory.
pub type RaftRecovery = RecoveryBase<RaftRecord>;

/// The name of the protocol in a data directory, which is the one that selects it.
pub const PROTOCOL: &str = "raft";

/// Whose data a Raft replica's directory holds. No setting decides how its entries are applied.
#[must_use]
pub fn raft_identity(cluster: ClusterId, replica: ReplicaId) -> Identity {
    Identity { cluster, replica, protocol: PROTOCOL.to_owned(), replicated_settings: ReplicatedSettings::new() }
}

/// The change of metadata that makes a durable snapshot count, be it a checkpoint of this replica or one that was installed.
///
/// The log may forget what is at or below `released`: the snapshot's position, or less while a follower still needs entries.
/// After an install [`RaftRecord::Reset`] follows with a higher ticket.
#[must_use]
pub fn snapshot_change(
    position: Position,
    term: Term,
    members: &MemberVector,
    store_generation: u64,
    released: Position,
) -> MetadataChange {
    MetadataChange::Snapshot { base: snapshot_base(position, term, members), store_generation, released }
}

/// One line about a record, for `quorate wal dump`.
#[must_use]
pub fn describe(record: &DumpedRecord<'_, RaftRecord>) -> String {
    let what = match (record.kind, record.record) {
        (RecordKind::Seal, _) | (_, None) => "seal".to_owned(),
        (kind, Some(known)) => format!("{}{}", if kind == RecordKind::Carried { "carried " } else { "" }, text(known)),
    };
    let (file, offset, group) = (record.file.display(), record.offset, record.group);
    format!("{file} {offset} group {group} (synced up to {}): {what}", record.synced_upto)
}

fn text(record: &RaftRecord) -> String {
    match record {
        RaftRecord::Entries { count, last, chunks } => {
            let bytes: usize = chunks.iter().map(bytes::Bytes::len).sum();
            let first = (last.0 + 1).saturating_sub(u64::from(*count));
            format!("entries {first} to {last}, {bytes} bytes")
        }
        RaftRecord::Truncate { from } => format!("truncate from {from}"),
        RaftRecord::HardState(state) => match state.voted_for {
            Some(replica) => format!("term {}, vote for {replica}", state.term),
            None => format!("term {}, no vote", state.term),
        },
        RaftRecord::Reset { position, term } => format!("reset to the snapshot at {position}, term {term}"),
    }
}
