//! What the snapshots of a replica are put together from.

use super::coordinator::CheckpointKind;
use super::puller::Puller;
use crate::shell::storage::{NamedSnapshot, Wake};
use quorate_framework::SnapshotBase;
use quorate_framework::vfs::{Vfs, VfsFile};
use std::fmt;
use std::io;
use std::sync::Arc;

/// Opens the folder of the snapshots, on any thread.
pub type OpenDirectory = Arc<dyn Fn() -> io::Result<Box<dyn Vfs>> + Send + Sync>;

/// Opens a file, as often as it is wanted.
pub type OpenFile<'a> = &'a dyn Fn() -> io::Result<Box<dyn VfsFile>>;

/// A state machine made of a snapshot file, the base that the file names, and a line for the log.
pub type LoadedState<E> = (E, SnapshotBase, String);

/// Makes a state machine of a snapshot file, as a generation of the store. Blocks. After an error its caller removes the generation.
pub type LoadState<E> = Arc<dyn Fn(OpenFile<'_>, u64) -> Result<LoadedState<E>, String> + Send + Sync>;

/// Removes a generation of a store. Blocks.
pub type RemoveGeneration = Arc<dyn Fn(u64) + Send + Sync>;

/// Where snapshots are kept.
#[derive(Clone)]
pub struct Directory {
    /// Opens the folder.
    pub open: OpenDirectory,
    /// Whether a snapshot that was taken here keeps its file: a start needs it. If not, it lives while it is served.
    pub keeps_files: bool,
}

impl fmt::Debug for Directory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Directory").field("keeps_files", &self.keeps_files).finish_non_exhaustive()
    }
}

/// What the snapshots of a replica are put together from.
pub struct SnapshotParts<E> {
    /// Where they are kept.
    pub directory: Directory,
    /// What moves them.
    pub puller: Box<dyn Puller>,
    /// What makes a state machine of one.
    pub load: LoadState<E>,
    /// Wakes the shell.
    pub wake: Wake,
    /// What the metadata name at the start, if anything.
    pub named: Option<NamedSnapshot>,
    /// Whether there are metadata; if not, nothing is named.
    pub durable: bool,
    /// Removes a generation of the store that is no longer live and not open any more. Blocks.
    pub remove_generation: RemoveGeneration,
}

impl<E> SnapshotParts<E> {
    pub(super) fn kind(&self) -> CheckpointKind {
        match (self.durable, self.directory.keeps_files) {
            (false, _) => CheckpointKind::Passing,
            (true, true) => CheckpointKind::File,
            (true, false) => CheckpointKind::Store,
        }
    }
}

impl<E> fmt::Debug for SnapshotParts<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SnapshotParts").field("named", &self.named).finish_non_exhaustive()
    }
}
