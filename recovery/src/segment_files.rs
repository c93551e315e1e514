//! Writing segment files: making, freeing and preparing them.

use crate::error::StorageError;
use crate::format::{BLOCK_BYTES, DIRECTORY};
use crate::identity::Identity;
use crate::segment_header::{SegmentHeader, SegmentUse};
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{ClusterId, ReplicaId};
use std::path::Path;

/// Whose segments they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) cluster: ClusterId,
    pub(crate) replica: ReplicaId,
}

impl From<&Identity> for Owner {
    fn from(identity: &Identity) -> Owner {
        Owner { cluster: identity.cluster, replica: identity.replica }
    }
}

impl Owner {
    fn header(self, usage: SegmentUse, capacity: u64) -> SegmentHeader {
        SegmentHeader { usage, replica: self.replica, cluster: self.cluster, salt: 0, first_group: 0, capacity }
    }

    /// The header of a segment that may be used.
    pub(crate) fn free(self, capacity: u64) -> SegmentHeader {
        self.header(SegmentUse::Free, capacity)
    }

    /// The header of a segment that is about to be part of the log.
    pub(crate) fn live(self, capacity: u64, salt: u64, first_group: u64) -> SegmentHeader {
        SegmentHeader { salt, first_group, ..self.header(SegmentUse::Live, capacity) }
    }
}

/// Writes a header and syncs it.
pub(crate) fn write_header(file: &mut dyn VfsFile, path: &Path, header: &SegmentHeader) -> Result<(), StorageError> {
    file.write_all_at(&header.encode(), 0).map_err(StorageError::io("writing the header", path))?;
    file.sync_data().map_err(StorageError::io("syncing the header", path))
}

/// Makes a segment file with all its blocks. Neither it nor its name is durable yet.
pub(crate) fn create(vfs: &dyn Vfs, path: &Path, capacity: u64) -> Result<Box<dyn VfsFile>, StorageError> {
    let mut file = vfs.create(path).map_err(StorageError::io("creating", path))?;
    file.allocate(capacity).map_err(StorageError::io("allocating", path))?;
    Ok(file)
}

/// Opens a segment file.
pub(crate) fn open(vfs: &dyn Vfs, path: &Path) -> Result<Box<dyn VfsFile>, StorageError> {
    vfs.open(path).map_err(StorageError::io("opening", path))
}

/// Syncs the directory.
pub(crate) fn sync_directory(vfs: &dyn Vfs) -> Result<(), StorageError> {
    vfs.sync_directory().map_err(StorageError::io("syncing the directory", Path::new(DIRECTORY)))
}

/// Overwrites the first block of each group at these offsets with zeros, in the order given, and syncs.
pub(crate) fn erase(vfs: &dyn Vfs, path: &Path, offsets: &[u64]) -> Result<(), StorageError> {
    if offsets.is_empty() {
        return Ok(());
    }
    let mut file = open(vfs, path)?;
    for offset in offsets {
        file.write_all_at(&[0; BLOCK_BYTES], *offset).map_err(StorageError::io("cutting", path))?;
    }
    file.sync_data().map_err(StorageError::io("syncing the cut", path))
}

/// Makes a segment free, or removes it if it is not whole. Gives whether it can be used again.
pub(crate) fn retire(vfs: &dyn Vfs, owner: Owner, path: &Path, capacity: u64) -> Result<bool, StorageError> {
    let mut file = open(vfs, path)?;
    if file.length().map_err(StorageError::io("reading", path))? < capacity {
        remove(vfs, path)?;
        return Ok(false);
    }
    write_header(&mut *file, path, &owner.free(capacity))?;
    Ok(true)
}

/// Removes a segment file. That this is durable is never relied upon.
pub(crate) fn remove(vfs: &dyn Vfs, path: &Path) -> Result<(), StorageError> {
    vfs.remove(path).map_err(StorageError::io("removing", path))
}
