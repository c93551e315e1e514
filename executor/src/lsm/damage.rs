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

/// What a failure of the tree is, in words; what the crate says of it is in parentheses.
pub(super) fn in_words(error: &fjall::Error) -> String {
    use fjall::{Error, LsmError};
    let what = match error {
        Error::Storage(LsmError::Io(error)) | Error::Io(error) => {
            return format!("files cannot be read or written: {error}");
        }
        Error::JournalRecovery(_) => "a journal is damaged",
        Error::InvalidVersion(_) | Error::Storage(LsmError::InvalidVersion(_)) => {
            "files are of another version of the storage library"
        }
        Error::Storage(LsmError::Unrecoverable) => "files are missing",
        Error::Storage(_) => "a table is damaged",
        Error::Decompress(_) | Error::InvalidTrailer | Error::InvalidTag(_) | Error::Unrecoverable => {
            "files are damaged"
        }
        Error::Poisoned => "an earlier write failed, and nothing more is written until the store is opened again",
        Error::Locked => "another process has the store open",
        _ => "the storage library failed",
    };
    format!("{what} ({error:?})")
}

/// The store's error for a failure of the tree that lies in this generation's directory; if the files are damaged, the directory says
/// so from now on.
pub(super) fn failed(directory: &Path, error: &fjall::Error) -> StoreError {
    if is_damage(error) {
        condemn(directory, &in_words(error));
    }
    StoreError::Medium(in_words(error))
}

/// Writes down that a generation must be rebuilt. If that fails too, the next start meets the damage again.
pub(super) fn condemn(directory: &Path, reason: &str) {
    let written = File::create(directory.join(REBUILD_FILE)).and_then(|mut file| {
        file.write_all(reason.as_bytes())?;
        file.sync_all()
    });
    drop(written);
}

#[cfg(test)]
mod tests {
    use super::*;
    use fjall::{Error, JournalRecoveryError, LsmError};
    use std::io;

    #[test]
    fn a_failure_is_told_in_words_with_what_the_crate_says_of_it_behind() {
        let said = |error: Error| in_words(&error);
        let denied = "files cannot be read or written: permission denied";
        assert_eq!(said(Error::Io(ErrorKind::PermissionDenied.into())), denied);
        assert_eq!(said(Error::Storage(LsmError::Io(ErrorKind::PermissionDenied.into()))), denied);
        assert_eq!(
            said(Error::JournalRecovery(JournalRecoveryError::ChecksumMismatch)),
            "a journal is damaged (JournalRecovery(ChecksumMismatch))"
        );
        assert_eq!(said(Error::Storage(LsmError::InvalidTrailer)), "a table is damaged (Storage(InvalidTrailer))");
        assert_eq!(said(Error::Storage(LsmError::Unrecoverable)), "files are missing (Storage(Unrecoverable))");
        assert_eq!(
            said(Error::InvalidVersion(None)),
            "files are of another version of the storage library (InvalidVersion(None))"
        );
        assert_eq!(
            said(Error::Poisoned),
            "an earlier write failed, and nothing more is written until the store is opened again (Poisoned)"
        );
    }

    #[test]
    fn only_what_lies_in_the_files_condemns_a_generation() {
        let directory = tempfile::tempdir().unwrap();
        for fine_another_time in
            [Error::Poisoned, Error::Locked, Error::Io(io::Error::other("no space")), Error::KeyspaceDeleted]
        {
            failed(directory.path(), &fine_another_time);
            assert!(!directory.path().join(REBUILD_FILE).exists(), "{fine_another_time}");
        }
        let error = failed(directory.path(), &Error::Storage(LsmError::InvalidTrailer));
        assert_eq!(error, StoreError::Medium("a table is damaged (Storage(InvalidTrailer))".to_owned()));
        let reason = std::fs::read_to_string(directory.path().join(REBUILD_FILE)).unwrap();
        assert_eq!(reason, "a table is damaged (Storage(InvalidTrailer))");
    }
}
