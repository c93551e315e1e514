//! Failures of the tree: which mean that its files must not be opened again.

use crate::store::StoreError;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Stands in a generation's directory if that must be rebuilt.
pub(super) const REBUILD_FILE: &str = "rebuild";

/// Whether the files themselves are to blame. A failed write, a full disk or an unreadable directory is not damage: the files may be
/// sound, and are opened again.
pub(super) fn is_damage(error: &fjall::Error) -> bool {
    use fjall::{Error, LsmError};
    match error {
        Error::Storage(LsmError::Io(error)) | Error::Io(error) => {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData)
        }
        Error::Storage(_)
        | Error::JournalRecovery(_)
        | Error::InvalidVersion(_)
        | Error::Decompress(_)
        | Error::InvalidTrailer
        | Error::InvalidTag(_)
        | Error::Unrecoverable => true,
        _ => false,
    }
}

/// The store's error for a failure of the tree that lies in this generation's directory; if the files are damaged, the directory says
/// so from now on.
pub(super) fn failed(directory: &Path, error: &fjall::Error) -> StoreError {
    if is_damage(error) {
        condemn(directory, &error.to_string());
    }
    StoreError::Medium(error.to_string())
}

/// Writes down that a generation must be rebuilt. If that fails too, the next start meets the damage again.
pub(super) fn condemn(directory: &Path, reason: &str) {
    let written = File::create(directory.join(REBUILD_FILE)).and_then(|mut file| {
        file.write_all(reason.as_bytes())?;
        file.sync_all()
    });
    drop(written);
}
