//! The steps on snapshot files whose order a crash may cut: finishing one, checking and loading one, removing them. They run on threads
//! of the node, and in the simulator one operation of the disk after the other.

use super::coordinator::{LoadedSnapshot, ReadySnapshot};
use super::parts::{LoadedState, OpenFile};
use parking_lot::Mutex;
use quorate_executor::snapshot::{SnapshotError, SnapshotFile, SnapshotName};
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{Position, ServedSnapshot, SnapshotId};
use std::io;
use std::sync::Arc;

/// An open snapshot file that several may read.
#[derive(Clone)]
pub struct SharedFile(Arc<Mutex<Box<dyn VfsFile>>>);

impl std::fmt::Debug for SharedFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SharedFile").finish_non_exhaustive()
    }
}

impl ReadySnapshot<SharedFile> {
    fn new(id: SnapshotId, position: Position, length_bytes: u64, file: Box<dyn VfsFile>) -> Self {
        let snapshot = ServedSnapshot { id, position, length_bytes };
        ReadySnapshot { snapshot, file: SharedFile(Arc::new(Mutex::new(file))) }
    }

    /// Reads the part that begins at `offset`, as much as there is and `part` takes, and gives how many bytes. Blocks.
    ///
    /// # Errors
    /// The operating system's.
    pub fn read(&self, offset: u64, part: &mut [u8]) -> io::Result<usize> {
        let left = self.snapshot.length_bytes.saturating_sub(offset);
        let count = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.file.0.lock().read_exact_at(&mut part[..count], offset)?;
        Ok(count)
    }
}

/// The complete snapshot of a position, if its file is there. It will be served as `id`. Blocks.
#[must_use]
pub fn open_complete(vfs: &dyn Vfs, position: Position, id: SnapshotId) -> Option<ReadySnapshot<SharedFile>> {
    let file = vfs.open(&SnapshotName::Complete(position).path()).ok()?;
    let length = file.length().ok()?;
    Some(ReadySnapshot::new(id, position, length, file))
}

/// Ends a file that was written here: when this returns it is durable. If it keeps no name, it lives as long as it is open. Blocks.
///
/// # Errors
/// [`SnapshotError`]; nothing must name it then.
pub fn finish_file(
    vfs: &dyn Vfs,
    file: SnapshotFile,
    position: Position,
    id: SnapshotId,
    keeps_name: bool,
) -> Result<ReadySnapshot<SharedFile>, SnapshotError> {
    let failed = |what| move |source| SnapshotError::File { what, source };
    let length = file.length();
    let path = file.finish(vfs, position)?.path();
    let file = vfs.open(&path).map_err(failed("opening a snapshot"))?;
    if !keeps_name {
        vfs.remove(&path).map_err(failed("removing the name of a snapshot"))?;
    }
    Ok(ReadySnapshot::new(id, position, length, file))
}

/// Checks and loads what was pulled, and gives its file the final name: what is told as loaded is durable. It will be served as
/// `own_id`. Blocks.
///
/// # Errors
/// In words; what was pulled is removed then. The caller removes the generation of the store, of which some may be there.
pub fn load_fetched<E>(
    vfs: &dyn Vfs,
    snapshot: ServedSnapshot,
    load: impl Fn(OpenFile<'_>, u64) -> Result<LoadedState<E>, String>,
    store_generation: u64,
    own_id: SnapshotId,
) -> Result<LoadedSnapshot<E, SharedFile>, String> {
    let path = SnapshotName::Fetched(snapshot.id).path();
    let work = || -> Result<LoadedSnapshot<E, SharedFile>, String> {
        let length = vfs.open(&path).and_then(|file| file.length()).map_err(|error| error.to_string())?;
        if length != snapshot.length_bytes {
            return Err(format!("{length} bytes were pulled of {}", snapshot.length_bytes));
        }
        let (machine, base, summary) = load(&|| vfs.open(&path), store_generation)?;
        if base.position != snapshot.position {
            return Err(format!("it is of position {}, and {} was announced", base.position, snapshot.position));
        }
        let file = keep_fetched(vfs, snapshot).map_err(|error| error.to_string())?;
        let ready = ReadySnapshot::new(own_id, base.position, length, file);
        Ok(LoadedSnapshot { machine, base, ready, store_generation, summary })
    };
    let done = work();
    if done.is_err() {
        // What stays all the same is removed by the next start.
        let _ = vfs.remove(&path);
    }
    done
}

/// Syncs a checked file, gives it its final name and syncs the directory, in this order.
fn keep_fetched(vfs: &dyn Vfs, snapshot: ServedSnapshot) -> io::Result<Box<dyn VfsFile>> {
    let (fetched, complete) = (SnapshotName::Fetched(snapshot.id), SnapshotName::Complete(snapshot.position));
    vfs.open(&fetched.path())?.sync_data()?;
    vfs.rename(&fetched.path(), &complete.path())?;
    vfs.sync_directory()?;
    vfs.open(&complete.path())
}

/// Takes the names of all snapshot files but those to keep, and gives the files, which are still open: the room they took is freed when
/// they are dropped, which may take its time. Blocks.
///
/// # Errors
/// The operating system's; what stays is removed by the next start.
pub fn remove_others(vfs: &dyn Vfs, keep: &[SnapshotName]) -> io::Result<Vec<Box<dyn VfsFile>>> {
    let mut open = Vec::new();
    for path in vfs.list()? {
        if SnapshotName::of(&path).is_some_and(|name| !keep.contains(&name)) {
            open.extend(vfs.open(&path).ok());
            match vfs.remove(&path) {
                // Whoever wrote it has just removed it.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(open)
}
