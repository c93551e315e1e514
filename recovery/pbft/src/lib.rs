//! Recovery of a PBFT replica: [`RecoveryBase`] with PBFT's records.
//!
//! What must be durable before what is sent:
//!
//! | before sending | durable | record |
//! | --- | --- | --- |
//! | PRE-PREPARE, PREPARE (v, n, d) | (v, n, d) and the body | [`PbftRecord::PrePrepare`] |
//! | COMMIT (v, n, d) | the prepared proof | [`PbftRecord::Prepared`] |
//! | CHECKPOINT (n, D) | a state from which n can be rebuilt | the metadata's snapshot, and the log above it |
//! | VIEW-CHANGE (v) | mode, v and the message | [`PbftRecord::ViewChangeSent`] |
//! | NEW-VIEW (v), first PREPARE in v | the message | [`PbftRecord::NewView`] |
//!
//! [`PbftRecord::Committed`] may be lazy: what was committed can be learned again. Views, view changes and the stable checkpoint have no
//! position; the latest of each is carried forward from segment to segment. All records go to the log: nothing of PBFT's is in the
//! metadata file but the snapshot.

mod record;
mod state;

pub use record::{PbftRecord, Signature, Signatures, ViewMode};
pub use state::{PbftState, Prepared, Slot, StableCheckpoint};

use quorate_framework::{ClusterId, Digest, Position, ReplicaId, SnapshotBase};
use quorate_recovery::{Identity, MetadataChange, RecoveryBase, ReplicatedSettings};

/// The start of a PBFT replica from its data directory.
pub type PbftRecovery = RecoveryBase<PbftRecord>;

/// The name of the protocol in a data directory, which is the one that selects it.
pub const PROTOCOL: &str = "pbft";

/// Whose data a PBFT replica's directory holds. No setting decides how its entries are applied.
#[must_use]
pub fn pbft_identity(cluster: ClusterId, replica: ReplicaId) -> Identity {
    Identity { cluster, replica, protocol: PROTOCOL.to_owned(), replicated_settings: ReplicatedSettings::new() }
}

/// The change of metadata that makes a durable snapshot of the state at `position` count, with the state's digest there. Records at or
/// below `released` may go; at most the snapshot's position, and never above the stable checkpoint.
#[must_use]
pub fn snapshot_change(
    position: Position,
    digest: Digest,
    store_generation: u64,
    released: Position,
) -> MetadataChange {
    let base = SnapshotBase { position, protocol: digest.0.to_vec(), membership: Vec::new() };
    MetadataChange::Snapshot { base, store_generation, released }
}
