//! What a data directory keeps of the state that its metadata name: a snapshot file (a store in memory), or a generation of the store
//! (one on disk). Nothing is changed here.

use super::{DurableReason, failed};
use crate::snapshots::Directory;
use quorate_config::StoreKind;
use quorate_executor::lsm::{generation_path, generations, look_at_generation};
use quorate_executor::snapshot::{SnapshotError, SnapshotName, SnapshotReader, SnapshotSummary};
use quorate_framework::Position;
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_recovery::{DirectoryVfs, Metadata};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The state that the metadata name, as far as it can be checked without a store. At least one of both is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptState {
    /// The snapshot file, which was read whole and is sound.
    pub snapshot: Option<SnapshotSummary>,
    /// The generation of the store, if its directory is there. Without a snapshot beside it, the files that it cannot do without are there,
    /// too; what they hold was not looked at.
    pub generation: Option<u64>,
}

/// Whether a directory is there. What cannot be looked at, or is something else, is not lost.
fn is_directory(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(true),
        Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The name of the file that holds the snapshot of a position.
#[must_use]
pub fn snapshot_name(position: Position) -> PathBuf {
    SnapshotName::Complete(position).path()
}

/// The name of the directory that holds a generation of the store.
#[must_use]
pub fn generation_name(generation: u64) -> PathBuf {
    generation_path(Path::new(""), generation)
}

/// Looks at the state that the metadata name; none if they name none, since the log then holds all of it. Blocks while a snapshot file
/// is read.
///
/// # Errors
/// [`DurableReason`]: it is damaged or missing.
pub fn look(directory: &Path, metadata: &Metadata) -> Result<Option<KeptState>, DurableReason> {
    let Some(base) = &metadata.snapshot else { return Ok(None) };
    let (position, generation) = (base.position, metadata.store_generation);
    let vfs = DirectoryVfs::open_unlocked(directory)?;
    let read = |file: Box<dyn VfsFile>| -> Result<SnapshotSummary, SnapshotError> {
        let mut reader = SnapshotReader::open(file)?;
        reader.expect(metadata.cluster, base)?;
        reader.sessions()?;
        while reader.next_entry()?.is_some() {}
        Ok(*reader.end().expect("the entries end only when the end was checked"))
    };
    let snapshot = match vfs.open(&snapshot_name(position)) {
        Ok(file) => Some(read(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => Some(Err(SnapshotError::File { what: "opening the snapshot", source })),
    };
    let snapshot = snapshot.transpose().map_err(|error| DurableReason::Snapshot { position, error })?;
    let is_there = is_directory(&directory.join(generation_name(generation))).map_err(failed("the store"))?;
    if is_there && snapshot.is_none() {
        look_at_generation(directory, generation).map_err(|error| match error.must_rebuild() {
            true => DurableReason::StoreLost(error),
            false => DurableReason::Store(error),
        })?;
    }
    match (snapshot, is_there.then_some(generation)) {
        (None, None) => Err(missing(position, generation)),
        (snapshot, generation) => Ok(Some(KeptState { snapshot, generation })),
    }
}

fn missing(position: Position, generation: u64) -> DurableReason {
    let (snapshot, generation) = (snapshot_name(position), generation_name(generation));
    DurableReason::StateMissing { position, snapshot, generation }
}

/// What to say when a store cannot have the state that the metadata name: it was kept by the other kind of store, or by none; otherwise
/// what it found itself.
pub(super) fn unusable(
    directory: &Directory,
    position: Position,
    generation: u64,
    configured: StoreKind,
    found: DurableReason,
) -> DurableReason {
    let names = match (directory.open)().and_then(|vfs| vfs.list()) {
        Ok(names) => names,
        Err(error) => return failed("it cannot be read")(error),
    };
    let has_snapshot = names.contains(&snapshot_name(position));
    let has_generation = names.contains(&generation_name(generation));
    match configured {
        StoreKind::Memory if !has_snapshot && has_generation => DurableReason::OtherStore { kept_by: StoreKind::Lsm },
        StoreKind::Lsm if has_snapshot => DurableReason::OtherStore { kept_by: StoreKind::Memory },
        _ if !has_snapshot && !has_generation => missing(position, generation),
        _ => found,
    }
}

/// The name of something in a directory by which it is known that a replica kept its state there. Blocks.
///
/// # Errors
/// The operating system's.
pub fn first_kept(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.push(PathBuf::from(entry?.file_name()));
    }
    names.retain(|name| SnapshotName::of(name).is_some());
    names.extend(generations(directory)?.into_iter().map(generation_name));
    Ok(names.into_iter().min())
}
