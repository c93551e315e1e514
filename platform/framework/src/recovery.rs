//! What a protocol makes durable: its records, and the state they rebuild.

use crate::ids::Position;
use crate::wire::{Decoder, Encoder, WireError};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::hash::Hash;
use thiserror::Error;

/// Where a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordPlace {
    /// The log: many of them, grouped under one sync.
    Log,
    /// The metadata file: latest wins; a barrier in the ticket order.
    Metadata,
}

/// A record that cannot follow what was replayed before it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("replay: {0}")]
pub struct ReplayError(pub String);

/// The snapshot that the metadata file names: replay starts from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SnapshotBase {
    /// The last position whose effects the snapshot holds.
    pub position: Position,
    /// What the protocol must know of that position, in its own coding (Raft: the term).
    pub protocol: Vec<u8>,
    /// The member list as of that position, in the protocol's own coding; empty for a protocol that keeps none.
    pub membership: Vec<u8>,
}

/// What a protocol wants done once all its records are replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion<R> {
    /// Records that are missing and must be durable before the first promise.
    pub records: Vec<R>,
    /// What is odd but not wrong, for the operator: one sentence each.
    pub anomalies: Vec<String>,
}

impl<R> Default for Completion<R> {
    fn default() -> Completion<R> {
        Completion { records: Vec::new(), anomalies: Vec::new() }
    }
}

/// A protocol's records. The log knows nothing else of the protocol.
///
/// The order of calls at a start: [`RecoverySpec::start_from`], [`RecoverySpec::replay`] for every record of the log in the order in
/// which they were written, then for the latest metadata record, then [`RecoverySpec::complete`].
pub trait RecoverySpec: Sized + Debug {
    /// What replaying all records rebuilds. The default is a first start.
    type State: Clone + Debug + Default + PartialEq + Eq + Hash;

    /// Where the record goes.
    fn place(&self) -> RecordPlace;

    /// The highest position the record covers, if it has one; a log may be cut below a position.
    fn position(&self) -> Option<Position>;

    /// For a log record that must outlive the segment it was written to although it has no position that says so: of all records
    /// with one key the latest is written again at the head of each new segment, in the order in which they were last written.
    fn carry_key(&self) -> Option<u64> {
        None
    }

    /// Bytes of the encoded record, at least roughly: what it counts for in the bounds of queues.
    fn weight(&self) -> usize;

    /// Writes the record. Takes it, so that shared chunks move and are not counted once more.
    fn encode(self, encoder: &mut Encoder);

    /// Reads a record back.
    ///
    /// # Errors
    /// [`WireError`] on anything that `encode` would not have written.
    fn decode(decoder: Decoder<'_>) -> Result<Self, WireError>;

    /// The state that replay begins with.
    ///
    /// # Errors
    /// [`ReplayError`] if the snapshot is not one of this protocol. By default every snapshot is refused.
    fn start_from(snapshot: Option<&SnapshotBase>) -> Result<Self::State, ReplayError> {
        match snapshot {
            None => Ok(Self::State::default()),
            Some(snapshot) => {
                Err(ReplayError(format!("a snapshot at {}, of which this protocol knows nothing", snapshot.position)))
            }
        }
    }

    /// Replays the record.
    ///
    /// # Errors
    /// [`ReplayError`] if it cannot follow what was replayed before.
    fn replay(self, state: &mut Self::State) -> Result<(), ReplayError>;

    /// The end of replay: checks the whole and says what is missing. The state is then what the protocol starts from, with the
    /// returned records already in it.
    ///
    /// # Errors
    /// [`ReplayError`] if log, metadata and snapshot cannot belong together.
    fn complete(_state: &mut Self::State) -> Result<Completion<Self>, ReplayError> {
        Ok(Completion::default())
    }
}
