//! Which segment files a directory holds, by what their headers say.

use crate::error::{RecoveryError, StorageError};
use crate::format::{BLOCK, BLOCK_BYTES, DIRECTORY, SEGMENT_VERSION, segment_number};
use crate::identity::Identity;
use crate::segment_header::{HeaderBlock, SegmentHeader, SegmentUse};
use quorate_framework::vfs::Vfs;
use std::path::{Path, PathBuf};

/// A segment file with a sound header.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFile {
    pub(crate) path: PathBuf,
    pub(crate) header: SegmentHeader,
    /// Length of the file, which may differ from what the header says.
    pub(crate) length: u64,
}

/// The segment files of a directory.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    pub(crate) live: Vec<SegmentFile>,
    pub(crate) free: Vec<SegmentFile>,
    /// Files without a header: never finished.
    pub(crate) blank: Vec<PathBuf>,
    /// A number that no segment file has in its name.
    pub(crate) next_number: u64,
}

impl Inventory {
    /// Reads all headers. Blocks.
    ///
    /// # Errors
    /// [`RecoveryError::Foreign`], [`RecoveryError::Version`], or a failure to read.
    pub(crate) fn take(vfs: &dyn Vfs, identity: &Identity) -> Result<Inventory, RecoveryError> {
        let mut inventory = Inventory::default();
        for path in vfs.list().map_err(StorageError::io("listing", Path::new(DIRECTORY)))? {
            let Some(number) = segment_number(&path) else { continue };
            inventory.next_number = inventory.next_number.max(number.saturating_add(1));
            let file = vfs.open(&path).map_err(StorageError::io("opening", &path))?;
            let length = file.length().map_err(StorageError::io("reading", &path))?;
            if length < BLOCK {
                inventory.blank.push(path);
                continue;
            }
            let mut block = [0; BLOCK_BYTES];
            file.read_exact_at(&mut block, 0).map_err(StorageError::io("reading", &path))?;
            match SegmentHeader::decode(&block) {
                HeaderBlock::Blank => inventory.blank.push(path),
                HeaderBlock::OtherVersion(found) => {
                    return Err(RecoveryError::Version { file: path, found, expected: SEGMENT_VERSION });
                }
                HeaderBlock::Header(header) => {
                    check_owner(&path, &header, identity)?;
                    let list = match header.usage {
                        SegmentUse::Live => &mut inventory.live,
                        SegmentUse::Free => &mut inventory.free,
                    };
                    list.push(SegmentFile { path, header, length });
                }
            }
        }
        Ok(inventory)
    }
}

fn check_owner(path: &Path, header: &SegmentHeader, identity: &Identity) -> Result<(), RecoveryError> {
    if header.cluster == identity.cluster && header.replica == identity.replica {
        return Ok(());
    }
    let expected = Box::new(identity.clone());
    let found = Box::new(Identity { cluster: header.cluster, replica: header.replica, ..identity.clone() });
    Err(RecoveryError::Foreign { file: path.to_owned(), found, expected })
}
