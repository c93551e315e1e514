//! Why a durable replica cannot start from its directory, and whose fault that is.

use crate::replicated_settings::OtherLimits;
use quorate_config::StoreKind;
use quorate_executor::lsm::LsmOpenError;
use quorate_executor::snapshot::SnapshotError;
use quorate_framework::{LOST_DATA, Position, ReplicaId, next_step};
use quorate_recovery::RecoveryError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a durable replica cannot start from its directory, or why none can be made there.
#[derive(Debug, Error)]
#[error("data directory {}: {reason}", .directory.display())]
pub struct DurableError {
    /// The directory.
    pub directory: PathBuf,
    /// What is wrong.
    pub reason: Box<DurableReason>,
}

/// What is wrong with a data directory.
#[derive(Debug, Error)]
pub enum DurableReason {
    /// Metadata or log.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The snapshot that the metadata name.
    #[error("the snapshot at {position} that metadata.dat names cannot be {}", snapshot_refusal(.error))]
    Snapshot {
        /// Its position.
        position: Position,
        /// What is wrong.
        error: SnapshotError,
    },
    /// The store on disk. The log begins after the checkpoint that the metadata name, so it cannot make the state again.
    #[error("{0}; metadata.dat names a checkpoint, which the log alone cannot replace; {LOST_DATA}")]
    StoreLost(LsmOpenError),
    /// The store on disk, which may be fine another time.
    #[error(transparent)]
    Store(LsmOpenError),
    /// A state that does not belong to the metadata.
    #[error("the state at {position} does not belong to metadata.dat: {error}; {LOST_DATA}")]
    OtherLimits {
        /// Its position.
        position: Position,
        /// What differs.
        error: OtherLimits,
    },
    /// The state that the metadata name is kept by another kind of store than the cluster file says.
    #[error("this directory's state was kept by `\"store\": \"{kept_by}\"`; put that back into the cluster file")]
    OtherStore {
        /// The kind of store whose files are there.
        kept_by: StoreKind,
    },
    /// No store's files hold the state that the metadata name.
    #[error(
        "metadata.dat names the state at position {position}, and neither {} nor {} is there; {LOST_DATA}",
        .snapshot.display(), .generation.display()
    )]
    StateMissing {
        /// The position.
        position: Position,
        /// The file in which a store in memory would have kept it.
        snapshot: PathBuf,
        /// The directory in which a store on disk would have kept it.
        generation: PathBuf,
    },
    /// What is there belongs to somebody else.
    #[error("{} is there, and it is no data directory of a replica: name an empty or a new one", .0.display())]
    NotEmpty(PathBuf),
    /// The cluster file lists other replicas than the cluster was formed with.
    #[error(
        "the cluster was formed with replicas {}, and the cluster file lists {}. Nothing was changed; put the replicas back into the \
         cluster file (their addresses may change; changing which replicas are members is not part of this version)",
        list(.formed), list(.listed)
    )]
    OtherMembers {
        /// The members, rising.
        formed: Vec<ReplicaId>,
        /// Those of the cluster file, rising.
        listed: Vec<ReplicaId>,
    },
    /// The operating system refused something.
    #[error("{what}: {source}; {}", next_step(.source))]
    Directory {
        /// What was tried.
        what: &'static str,
        /// What the operating system says.
        source: io::Error,
    },
}

/// Why a snapshot cannot be read or used, and what to do. Only what is known to be gone or wrong is called lost.
fn snapshot_refusal(error: &SnapshotError) -> String {
    match (error.unread(), error) {
        (Some(source), _) => format!("read: {error}; {}", next_step(source)),
        // It says itself what to do, and nothing is lost.
        (None, SnapshotError::UnknownVersion { .. }) => format!("used: {error}"),
        (None, _) => format!("used: {error}; {LOST_DATA}"),
    }
}

fn list(replicas: &[ReplicaId]) -> String {
    replicas.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl DurableReason {
    /// Whether what was asked for is to blame, and not the data, the disk or the machine; see [`RecoveryError::is_bad_input`].
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            DurableReason::Recovery(error) => error.is_bad_input(),
            DurableReason::Snapshot { error, .. } => matches!(error, SnapshotError::UnknownVersion { .. }),
            DurableReason::Store(error) => {
                use LsmOpenError::{Foreign, KeysTooLong, OtherVersion};
                matches!(error, KeysTooLong { .. } | Foreign { .. } | OtherVersion { .. })
            }
            DurableReason::OtherStore { .. } | DurableReason::OtherMembers { .. } | DurableReason::NotEmpty(_) => true,
            DurableReason::StoreLost(_) | DurableReason::StateMissing { .. } => false,
            DurableReason::OtherLimits { .. } | DurableReason::Directory { .. } => false,
        }
    }
}
