//! What the coordinator wants done, and what it is told of it.

use crate::shell::storage::NamedSnapshot;
use quorate_executor::snapshot::SnapshotName;
use quorate_framework::{Incarnation, Position, ReplicaId, ServedSnapshot, SnapshotBase, SnapshotId, Ticket, Time};

/// A complete snapshot and what it is read from. Its file may have lost its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadySnapshot<F> {
    /// Its name, position and length.
    pub snapshot: ServedSnapshot,
    /// The open file.
    pub file: F,
}

/// A state machine made of a fetched snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedSnapshot<M, F> {
    /// The state machine.
    pub machine: M,
    /// What the file says of its position.
    pub base: SnapshotBase,
    /// The file again, to be served: durable under the name of a complete one.
    pub ready: ReadySnapshot<F>,
    /// Which generation of the store it is: the one that was ordered.
    pub store_generation: u64,
    /// What was loaded, for the log.
    pub summary: String,
}

/// What has come of something that was wanted, or what a peer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotReport<M, F> {
    /// The file of a snapshot that was taken here is complete and durable, or cannot be had.
    Written {
        /// Of which state.
        base: SnapshotBase,
        /// The file, or why there is none.
        outcome: Result<ReadySnapshot<F>, String>,
    },
    /// A pull has ended, also one that was to stop; nothing is written for it any more.
    Pulled {
        /// Which snapshot was pulled.
        id: SnapshotId,
        /// Complete, or why not.
        outcome: Result<(), String>,
    },
    /// What was pulled is checked, durable under its name, and loaded; or is of no use, and its generation of the store is gone. Told also
    /// when nobody waits for it any more.
    Loaded {
        /// Which snapshot it is.
        id: SnapshotId,
        /// What was made of it, or why that failed.
        outcome: Result<LoadedSnapshot<M, F>, String>,
    },
    /// A peer has pulled another part.
    Progress(ReplicaId),
}

/// Something that is to be done. Effects are carried out in their order, each before the coordinator is told anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotEffect<M, F> {
    /// Begin a file for a snapshot of the state that the state machine holds a view of. Answered by [`SnapshotReport::Written`].
    Write(SnapshotBase),
    /// What is being written is of no use any more: nothing of it stays. Whether that is answered does not matter.
    StopWriting,
    /// Let a peer pull a snapshot, and no other.
    Serve {
        /// The peer.
        to: ReplicaId,
        /// What it may pull.
        ready: ReadySnapshot<F>,
    },
    /// Let a peer pull nothing any more.
    Withdraw(ReplicaId),
    /// Pull a snapshot into the file [`SnapshotName::Fetched`]. Answered by [`SnapshotReport::Pulled`].
    Pull {
        /// From whom.
        from: ReplicaId,
        /// Which incarnation that must be.
        incarnation: Incarnation,
        /// Which snapshot.
        snapshot: ServedSnapshot,
    },
    /// End the pull under way. It is answered all the same.
    StopPulling,
    /// Check what was pulled, make a state machine of it, and make its file durable as [`SnapshotName::Complete`]. Answered by
    /// [`SnapshotReport::Loaded`].
    Load {
        /// Which snapshot.
        snapshot: ServedSnapshot,
        /// As which generation of the store.
        store_generation: u64,
    },
    /// What is being loaded is of no use any more: the sooner that ends the better, and nothing of it stays. It is answered all the same.
    StopLoading,
    /// Remove all snapshot files but these, before anything else is begun that may make files of the same names.
    RemoveFilesBut(Vec<SnapshotName>),
    /// Close a state machine and remove its generation of the store.
    Discard {
        /// The state machine.
        machine: M,
        /// Its generation.
        store_generation: u64,
    },
    /// Something for the log of the replica.
    Note(SnapshotNote),
}

/// Something worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotNote {
    /// One is complete, and will be named.
    Taken(ServedSnapshot),
    /// One could not be taken.
    NotTaken {
        /// Of which position.
        position: Position,
        /// Why not.
        reason: String,
    },
    /// One is being fetched.
    Fetching {
        /// From whom.
        from: ReplicaId,
        /// Which.
        snapshot: ServedSnapshot,
    },
    /// One could not be fetched.
    NotFetched {
        /// Which.
        id: SnapshotId,
        /// Why not.
        reason: String,
    },
    /// One has become the state; what was loaded, in words.
    Installed(String),
}

/// A change of the metadata, with its place in the order of what becomes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamingOrder {
    /// Its ticket.
    pub ticket: Ticket,
    /// What the metadata are to name.
    pub snapshot: NamedSnapshot,
}

/// What holds when a turn begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnStart {
    /// The time.
    pub now: Time,
    /// Everything up to this ticket is durable.
    pub durable: Ticket,
    /// Bytes of records that the log has taken since the process began.
    pub log_bytes: u64,
    /// Whether the protocol has started.
    pub is_started: bool,
}

/// What the state machine is to do for a checkpoint that was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeSteps {
    /// Hold a view of its state, which is then given piece by piece; told by [`Coordinator::begun`](super::Coordinator::begun).
    pub view: bool,
    /// Sync its store; told by [`Coordinator::persisted`](super::Coordinator::persisted).
    pub persist: bool,
}
