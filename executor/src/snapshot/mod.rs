//! Snapshot files: the state at one position as bytes, written while execution goes on, and read back in bounded memory.
//!
//! The format is `docs/SNAPSHOT-FORMAT.md`. [`SnapshotWriter`] gives the bytes piece by piece; [`SnapshotFile`] puts them on disk in
//! the right order; [`SnapshotReader`] checks a file; [`Restore`] makes an executor of it.

mod error;
mod files;
mod format;
mod reader;
mod restore;
mod writer;

pub use error::SnapshotError;
#[cfg(feature = "lsm")]
pub(crate) use files::failed as failed_file;
pub use files::{SYNC_EVERY_BYTES, SnapshotFile, SnapshotName};
pub use format::{HEADER_BYTES_MAX, SECTION_BYTES, SECTION_BYTES_MAX, SnapshotHeader, SnapshotSummary};
pub use reader::{SnapshotEntry, SnapshotReader, verify};
pub use restore::{LoadedState, MemoryLoader, RestorableStore, Restore, RestoreReport, StateLoader};
pub use writer::SnapshotWriter;
