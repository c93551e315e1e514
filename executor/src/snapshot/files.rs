//! Snapshot files in a data directory: their names, and writing one so that its name never stands for half of it.

use super::error::SnapshotError;
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{Position, SnapshotId};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The name of a file that belongs to snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SnapshotName {
    /// A complete snapshot of a position.
    Complete(Position),
    /// One of a position that is being written.
    Temporary(Position),
    /// One that is being fetched.
    Fetched(SnapshotId),
}

impl SnapshotName {
    /// The file's name in the data directory.
    #[must_use]
    pub fn path(self) -> PathBuf {
        let (number, ending) = match self {
            SnapshotName::Complete(position) => (position.0, "dat"),
            SnapshotName::Temporary(position) => (position.0, "tmp"),
            SnapshotName::Fetched(id) => (id.0, "part"),
        };
        PathBuf::from(format!("snapshot-{number:016x}.{ending}"))
    }

    /// What a file of this name is; none if it has nothing to do with snapshots.
    #[must_use]
    pub fn of(path: &Path) -> Option<SnapshotName> {
        let (digits, ending) = path.to_str()?.strip_prefix("snapshot-")?.split_once('.')?;
        let number = u64::from_str_radix(digits, 16).ok()?;
        let name = match ending {
            "dat" => SnapshotName::Complete(Position(number)),
            "tmp" => SnapshotName::Temporary(Position(number)),
            "part" => SnapshotName::Fetched(SnapshotId(number)),
            _ => return None,
        };
        (name.path() == path).then_some(name)
    }

    /// Removes every snapshot file but those to keep; gives what was removed. Durable after a later sync of the directory; until then
    /// the next start removes them again.
    ///
    /// # Errors
    /// [`SnapshotError::File`].
    pub fn remove_others(directory: &dyn Vfs, keep: &[SnapshotName]) -> Result<Vec<SnapshotName>, SnapshotError> {
        let names = directory.list().map_err(failed("listing snapshots"))?;
        let strays: Vec<SnapshotName> =
            names.iter().filter_map(|path| SnapshotName::of(path)).filter(|name| !keep.contains(name)).collect();
        for stray in &strays {
            directory.remove(&stray.path()).map_err(failed("removing a snapshot"))?;
        }
        Ok(strays)
    }
}

/// A snapshot's file is synced each time so many bytes were written. All of it at its end would keep the device busy for as long as
/// that takes, and a sync of the log, which clients wait for, would stand behind it.
pub const SYNC_EVERY_BYTES: u64 = 4 << 20;

/// A snapshot file being written, from its first byte to its last. Its final name appears when all of it is on disk.
///
/// The first failure is final: every later call fails too, and the file is never finished.
pub struct SnapshotFile {
    file: Box<dyn VfsFile>,
    unfinished: SnapshotName,
    length: u64,
    synced: u64,
    failed: bool,
}

impl std::fmt::Debug for SnapshotFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SnapshotFile { unfinished, length, failed, .. } = self;
        write!(formatter, "SnapshotFile {{ {unfinished:?}, length: {length}, failed: {failed} }}")
    }
}

impl SnapshotFile {
    /// Begins a file under a name that says it is unfinished; what an earlier attempt left under it is removed. Blocks.
    ///
    /// # Errors
    /// [`SnapshotError::File`].
    pub fn create(directory: &dyn Vfs, unfinished: SnapshotName) -> Result<SnapshotFile, SnapshotError> {
        let path = unfinished.path();
        match directory.remove(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failed("removing an unfinished snapshot")(error));
            }
            _ => {}
        }
        let file = directory.create(&path).map_err(failed("creating a snapshot"))?;
        Ok(SnapshotFile { file, unfinished, length: 0, synced: 0, failed: false })
    }

    /// Bytes written.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends bytes, and syncs what was appended every few calls, see [`SYNC_EVERY_BYTES`]. Blocks.
    ///
    /// # Errors
    /// [`SnapshotError`]; final.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let length = self.length;
        self.attempt("writing a snapshot", |file| file.write_all_at(bytes, length))?;
        self.length += bytes.len() as u64;
        if self.length - self.synced >= SYNC_EVERY_BYTES {
            self.attempt("syncing a snapshot", |file| file.sync_data())?;
            self.synced = self.length;
        }
        Ok(())
    }

    /// The file, to be read before it gets its name: a fetched one is checked first.
    #[must_use]
    pub fn file(&self) -> &dyn VfsFile {
        &*self.file
    }

    /// Syncs the file, gives it its final name and syncs the directory, in this order. Blocks; when it returns, the snapshot of
    /// `position` is durable, and metadata may name it.
    ///
    /// # Errors
    /// [`SnapshotError`]; final.
    pub fn finish(mut self, directory: &dyn Vfs, position: Position) -> Result<SnapshotName, SnapshotError> {
        let (from, complete) = (self.unfinished.path(), SnapshotName::Complete(position));
        self.attempt("syncing a snapshot", |file| file.sync_data())?;
        self.attempt("naming a snapshot", |_| directory.rename(&from, &complete.path()))?;
        self.attempt("syncing the directory of a snapshot", |_| directory.sync_directory())?;
        Ok(complete)
    }

    fn attempt(
        &mut self,
        what: &'static str,
        act: impl FnOnce(&mut dyn VfsFile) -> io::Result<()>,
    ) -> Result<(), SnapshotError> {
        if self.failed {
            return Err(SnapshotError::FailedBefore);
        }
        // Set before the attempt, so that a panic in it counts as a failure too.
        self.failed = true;
        act(&mut *self.file).map_err(failed(what))?;
        self.failed = false;
        Ok(())
    }
}

pub(crate) fn failed(what: &'static str) -> impl FnOnce(io::Error) -> SnapshotError {
    move |source| SnapshotError::File { what, source }
}
