//! Reading and replacing `metadata.dat`.

use crate::error::{RecoveryError, StorageError};
use crate::format::DIRECTORY;
use crate::identity::BootId;
use crate::metadata::{METADATA_BYTES, METADATA_FILE, METADATA_TEMPORARY, Metadata};
use quorate_framework::vfs::Vfs;
use std::io;
use std::path::Path;

/// Reads the metadata; none if there is no such file. Blocks.
///
/// # Errors
/// [`RecoveryError::MetadataDamaged`], [`RecoveryError::Version`], or what the operating system says.
pub fn load(vfs: &dyn Vfs) -> Result<Option<Metadata>, RecoveryError> {
    let path = Path::new(METADATA_FILE);
    let file = match vfs.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StorageError::io("opening", path)(error).into()),
    };
    let length = file.length().map_err(StorageError::io("reading", path))?;
    if length > METADATA_BYTES as u64 {
        return Err(RecoveryError::MetadataDamaged { reason: format!("{length} bytes are more than it may have") });
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0).map_err(StorageError::io("reading", path))?;
    Metadata::decode(&bytes).map(Some)
}

/// Replaces the metadata; when this returns, the new one is durable. Blocks for two syncs.
///
/// # Errors
/// What the operating system says. After one, nobody knows which metadata is there.
pub(crate) fn replace(vfs: &dyn Vfs, metadata: &Metadata) -> Result<(), StorageError> {
    let (path, temporary) = (Path::new(METADATA_FILE), Path::new(METADATA_TEMPORARY));
    let mut file = vfs.create(temporary).map_err(StorageError::io("creating", temporary))?;
    file.write_all_at(&metadata.encode(), 0).map_err(StorageError::io("writing", temporary))?;
    file.sync_data().map_err(StorageError::io("syncing", temporary))?;
    drop(file);
    vfs.rename(temporary, path).map_err(StorageError::io("renaming to metadata.dat", temporary))?;
    vfs.sync_directory().map_err(StorageError::io("syncing the directory", Path::new(DIRECTORY)))
}

/// Gives the incarnation up for the next start, whichever boot that is in, as far as the disk still lets it. For a log that is not
/// synced while it runs: what is acknowledged lives in the page cache, and a sync that failed may have taken it away from there. That the
/// metadata are seen within this boot is enough, since another boot gives the incarnation up in any case; so failing syncs are passed over.
pub(crate) fn give_incarnation_up(vfs: &dyn Vfs, metadata: &Metadata) {
    let metadata =
        Metadata { boot: BootId::default(), log_is_synced: false, stopped_cleanly: false, ..metadata.clone() };
    let (path, temporary) = (Path::new(METADATA_FILE), Path::new(METADATA_TEMPORARY));
    let attempt = || {
        // One may be left of a replacement that has failed.
        let _ = vfs.remove(temporary);
        let mut file = vfs.create(temporary)?;
        file.write_all_at(&metadata.encode(), 0)?;
        let _ = file.sync_data();
        drop(file);
        vfs.rename(temporary, path)?;
        vfs.sync_directory()
    };
    // The failure that led here is what is told; a disk that takes this neither has no more to say.
    let _: io::Result<()> = attempt();
}
