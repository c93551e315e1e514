//! What can go wrong with a data directory: while it is read at a start, and while it is written.

use crate::identity::Identity;
use crate::replicated_settings::{SettingDifference, describe_differences};
use quorate_framework::{LOST_DATA, Position, ReplayError, Ticket, WireError, next_step};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// What to do about bytes that are not damaged and yet make no sense.
const WRITTEN_SO: &str =
    "its checksum is right, so a program wrote it like this: keep a copy of the directory for a report";

/// A failure of the storage under a running replica. It is final: the writer gives the same error ever after.
#[derive(Clone, Debug, Error)]
pub enum StorageError {
    /// The operating system refused something.
    #[error("{}: {operation} failed: {source}; {}", .file.display(), next_step(.source))]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The file, relative to the data directory; `.` is the directory itself.
        file: PathBuf,
        /// What the operating system says.
        source: Arc<io::Error>,
    },
    /// A ticket that is not above the one before it: the caller's mistake, and nothing after it can be trusted.
    #[error("ticket {ticket} was submitted after {last}")]
    TicketOrder {
        /// The ticket.
        ticket: Ticket,
        /// The ticket before it.
        last: Ticket,
    },
    /// A record that is longer than any record may be.
    #[error("a record of {bytes} bytes; {limit} is the limit")]
    RecordTooLarge {
        /// Its bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A snapshot that is older than the one the metadata names: the caller's mistake.
    #[error("a snapshot at {new} after one at {present}")]
    SnapshotOrder {
        /// Position of the snapshot.
        new: Position,
        /// Position of the one the metadata names.
        present: Position,
    },
    /// A stop while a group is on its way: its end must be reported first.
    #[error("the log was to be stopped cleanly while a group was still on its way to the disk")]
    GroupInFlight,
    /// The writer was stopped, or ended without a word.
    #[error("the log's writer has ended")]
    Ended,
}

impl StorageError {
    /// For `map_err`: an error of the operating system, with what was tried and on which file.
    pub(crate) fn io(operation: &'static str, file: &Path) -> impl FnOnce(io::Error) -> StorageError {
        let file = file.to_owned();
        move |source| StorageError::Io { operation, file, source: Arc::new(source) }
    }

    /// Whether the cause is a full disk.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, StorageError::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

/// Why a replica cannot start from its data directory. Nothing in the directory was changed, except where [`RecoveryError::Storage`]
/// says that a write failed.
#[derive(Clone, Debug, Error)]
pub enum RecoveryError {
    /// Reading or writing failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Another process has the directory.
    #[error("{}: another process uses this data directory; stop that one first, or name another directory", .0.display())]
    Locked(PathBuf),
    /// `init` on a directory that is in use.
    #[error("{} is there already: this directory belongs to a replica, and init makes new ones only", .0.display())]
    NotEmpty(PathBuf),
    /// An empty directory.
    #[error(
        "the data directory holds no replica: `quorate init --bootstrap` makes one of a new cluster; of an existing one, {LOST_DATA}"
    )]
    NotInitialised,
    /// Segments without metadata.
    #[error("metadata.dat is missing beside {}: term, vote and identity are lost; {LOST_DATA}", .0.display())]
    MetadataMissing(PathBuf),
    /// Metadata that cannot be read.
    #[error("metadata.dat is damaged ({reason}): term, vote and identity are lost; {LOST_DATA}")]
    MetadataDamaged {
        /// What is wrong.
        reason: String,
    },
    /// Metadata that says there is a log, and no segment with its first group.
    #[error(
        "the log is missing: metadata.dat says it begins with group {first_group}, and no segment does; {LOST_DATA}"
    )]
    LogMissing {
        /// Sequence of the first live group.
        first_group: u64,
    },
    /// Segments with groups beside metadata that says there is no log.
    #[error(
        "{} holds a log, and metadata.dat says that there is none: the two do not belong together; put back the metadata.dat that belongs \
         to this log; without it, {LOST_DATA}",
        .0.display()
    )]
    LogUnexpected(PathBuf),
    /// Data of another replica, cluster or protocol.
    #[error("{} belongs to {found}, and this is {expected}; put each file back where it belongs, or name another directory", .file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// Whose it is.
        found: Box<Identity>,
        /// Who asks.
        expected: Box<Identity>,
    },
    /// Entries would be applied in another way than they were.
    #[error(
        "entries would be applied by other settings than so far: {}. Nothing was changed; put the old values back into the cluster file \
         (what no cluster file says is fixed in the program: use the version that made this replica). Changing them for a living cluster is not part of this version",
        describe_differences(.differences)
    )]
    OtherSettings {
        /// Each setting that differs, in the order of the names.
        differences: Vec<SettingDifference>,
    },
    /// A file of another version of the format.
    #[error("{} has format version {found}, this program reads version {expected}; use the version of this program that wrote it", .file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// The version this program reads.
        expected: u32,
    },
    /// Something that was synced is not there any more, or is not what was written.
    #[error("{} at byte {offset}: {reason}. Nothing was changed; {LOST_DATA}", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// A record that cannot be read, although the CRC over it is right.
    #[error("{} at byte {offset}: {error}; {WRITTEN_SO}; {LOST_DATA}", .file.display())]
    Record {
        /// The file.
        file: PathBuf,
        /// Where its group begins.
        offset: u64,
        /// What is wrong.
        error: WireError,
    },
    /// A record that cannot follow those before it.
    #[error("{} at byte {offset}: {error}; {WRITTEN_SO}; {LOST_DATA}", .file.display())]
    Replay {
        /// The file.
        file: PathBuf,
        /// Where its group begins; 0 for metadata.
        offset: u64,
        /// What is wrong.
        error: ReplayError,
    },
    /// Settings that the format cannot hold.
    #[error("write-ahead log settings: {0}")]
    Settings(String),
}

impl RecoveryError {
    /// Whether what was asked for is to blame: directory, identity, settings or program must be others before the same can work. If not,
    /// they are right, and the data, the disk or the machine are not.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            RecoveryError::NotEmpty(_)
            | RecoveryError::NotInitialised
            | RecoveryError::Foreign { .. }
            | RecoveryError::OtherSettings { .. }
            | RecoveryError::Version { .. }
            | RecoveryError::Settings(_) => true,
            RecoveryError::Storage(_)
            | RecoveryError::Locked(_)
            | RecoveryError::MetadataMissing(_)
            | RecoveryError::MetadataDamaged { .. }
            | RecoveryError::LogMissing { .. }
            | RecoveryError::LogUnexpected(_)
            | RecoveryError::Damaged { .. }
            | RecoveryError::Record { .. }
            | RecoveryError::Replay { .. } => false,
        }
    }
}
