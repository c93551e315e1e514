//! Why a snapshot cannot be written, read or taken for what it should be.

use crate::store::StoreError;
use quorate_framework::{Position, WireError};
use std::io;
use thiserror::Error;

/// A snapshot failed. Nothing of it may be used.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The state is at another position than the snapshot should be of.
    #[error("a snapshot of position {wanted} cannot be taken, the state is at {executed}")]
    NotAt {
        /// The position asked for.
        wanted: Position,
        /// Where the state is.
        executed: Position,
    },
    /// The file cannot be read or written.
    #[error("{what}: {source}")]
    File {
        /// What was being done.
        what: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An item that no section holds.
    #[error("an item of {bytes} bytes does not fit a section of a snapshot")]
    ItemTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// An earlier failure of this file; it is not tried again.
    #[error("the snapshot file failed before")]
    FailedBefore,
    /// The file is not what the format says.
    #[error("the snapshot is damaged at byte {offset}: {reason}")]
    Damaged {
        /// Where in the file it was noticed.
        offset: u64,
        /// What is wrong.
        reason: WireError,
    },
    /// The file is of a version of the format that this program does not know.
    #[error(
        "the snapshot is of format version {found}, this program reads version {known}; use the version of this program that wrote it"
    )]
    UnknownVersion {
        /// The file's.
        found: u32,
        /// This program's.
        known: u32,
    },
    /// The file is a sound snapshot, but not the one that was asked for.
    #[error("the snapshot is of another {what} than was asked for")]
    Foreign {
        /// What differs: the cluster, the position, what the protocol knows of it, or the membership.
        what: &'static str,
    },
}

impl SnapshotError {
    /// The operating system's error, if that is what kept the file from being read: it says nothing of what the file holds. That the file
    /// is missing or ends too soon is no such error.
    #[must_use]
    pub fn unread(&self) -> Option<&io::Error> {
        match self {
            SnapshotError::File { source, .. } => {
                let is_loss = matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof);
                (!is_loss).then_some(source)
            }
            _ => None,
        }
    }

    /// Whether the bytes are to blame: fetching the snapshot again, or another one, may help.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, SnapshotError::Damaged { .. } | SnapshotError::Foreign { .. })
    }
}
