//! What the node does for those who pull from it.

use quorate_framework::{Incarnation, ReplicaId, ServedSnapshot, SnapshotId};
use thiserror::Error;

/// Why no part of a snapshot can be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SourceError {
    /// It is not served to this peer any longer.
    #[error("it is not served any longer")]
    Gone,
    /// It cannot be read; final for this snapshot.
    #[error("it cannot be read: {0}")]
    Failed(String),
}

/// The snapshots a replica has ready, as its transfer service asks for them. Called on the transfer thread, except
/// [`SnapshotSource::admits`].
pub trait SnapshotSource: Send + Sync {
    /// Whether this incarnation of a peer may pull at all: it is the bound one. The text goes to both sides' logs. Called on the
    /// communicator's runtime and must not block.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn admits(&self, peer: ReplicaId, incarnation: Incarnation) -> Result<(), String>;

    /// The snapshot of this name, if it is served to this peer now. Asked before every part: answer none, and a transfer under way
    /// ends as gone. Must not block for long.
    fn served(&self, peer: ReplicaId, id: SnapshotId) -> Option<ServedSnapshot>;

    /// Reads the part of a snapshot that begins at `offset` into `part`, or the front of it, and gives how many bytes: at least one,
    /// since only what lies within the announced length is asked for. May block on a file.
    ///
    /// # Errors
    /// [`SourceError`].
    fn read(&self, id: SnapshotId, offset: u64, part: &mut [u8]) -> Result<usize, SourceError>;

    /// A peer goes on pulling: it has written the first `written` bytes. Told when a transfer begins or is taken up again, and then
    /// when more was written than ever before on the connection, at most about once per heartbeat interval. Must not block.
    fn pulled(&self, peer: ReplicaId, id: SnapshotId, written: u64);
}
