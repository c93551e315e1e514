//! Failures of the tree: which mean that its files must not be opened again.

use crate::store::StoreError;
use quorate_framework::next_step;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Stands in a generation's directory if that must be rebuilt.
pub(super) const REBUILD_FILE: &str = "rebuild";
/// Written, and removed again, to learn why the crate could not write.
const PROBE_FILE: &str = "probe";
/// Its length: that of a table.
const PROBE_BYTES: usize = 16 << 20;
/// What becomes of a replica whose store is damaged.
const AFTER_DAMAGE: &str = "the next start does not open these files again: it makes the store anew from the log if there was no \
    checkpoint yet, and is refused otherwise";

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
        Error::Poisoned => "an earlier write failed",
        Error::Locked => "another process has the store open",
        _ => "the storage library failed",
    };
    format!("{what} ({error:?})")
}

/// The store's error for a failure of the tree that lies in this generation's directory, with what to do; if the files are damaged, the
/// directory says so from now on.
pub(super) fn failed(directory: &Path, error: &fjall::Error) -> StoreError {
    use fjall::{Error, LsmError};
    let what = in_words(error);
    if is_damage(error) {
        condemn(directory, &what);
        return StoreError::Medium(format!("{what}; {AFTER_DAMAGE}"));
    }
    StoreError::Medium(match error {
        Error::Storage(LsmError::Io(source)) | Error::Io(source) => format!("{what}; {}", next_step(source)),
        Error::Poisoned => format!("{what}; {}", cause_of_failed_write(try_to_write(directory))),
        _ => what,
    })
}

/// The crate does not say why a write in its own thread failed, so one is tried: a full disk, or one that takes nothing, says so again.
fn cause_of_failed_write(tried: io::Result<()>) -> String {
    match tried {
        Err(error) => format!("writing there fails now, too: {error}; {}", next_step(&error)),
        Ok(()) => format!(
            "{PROBE_BYTES} bytes can be written there now; if the file system was full, free space; then start the replica again"
        ),
    }
}

/// Writes and syncs as much as a table has, and removes it again.
fn try_to_write(directory: &Path) -> io::Result<()> {
    let path = directory.join(PROBE_FILE);
    let written = File::create(&path).and_then(|mut file| {
        let zeros = vec![0; PROBE_BYTES];
        file.write_all(&zeros)?;
        file.sync_all()
    });
    // One that stays is written over the next time, and goes with the generation.
    let _ = std::fs::remove_file(&path);
    written
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
        assert_eq!(said(Error::Poisoned), "an earlier write failed (Poisoned)");
    }

    #[test]
    fn the_cause_of_a_write_that_failed_in_the_crates_own_thread_is_learnt_by_another_write() {
        let full = cause_of_failed_write(Err(io::Error::from_raw_os_error(28)));
        let said = "writing there fails now, too: No space left on device (os error 28); free space and start the replica again";
        assert_eq!(full, said);
        let directory = tempfile::tempdir().unwrap();
        let fits = "an earlier write failed (Poisoned); 16777216 bytes can be written there now; if the file system was full, free space; \
            then start the replica again";
        assert_eq!(failed(directory.path(), &Error::Poisoned), StoreError::Medium(fits.to_owned()));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
        let gone = directory.path().join("gone");
        let StoreError::Medium(said) = failed(&gone, &Error::Poisoned) else { panic!("the medium failed") };
        assert!(said.contains("writing there fails now, too: No such file or directory (os error 2); "), "{said}");
    }

    #[test]
    fn a_full_disk_is_told_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let full = || io::Error::from_raw_os_error(28);
        for error in [Error::Io(full()), Error::Storage(LsmError::Io(full()))] {
            let said = "files cannot be read or written: No space left on device (os error 28); free space and start the replica again";
            assert_eq!(failed(directory.path(), &error), StoreError::Medium(said.to_owned()));
        }
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
        let said = "a table is damaged (Storage(InvalidTrailer)); the next start does not open these files again: it makes the store anew \
            from the log if there was no checkpoint yet, and is refused otherwise";
        assert_eq!(error, StoreError::Medium(said.to_owned()));
        let reason = std::fs::read_to_string(directory.path().join(REBUILD_FILE)).unwrap();
        assert_eq!(reason, "a table is damaged (Storage(InvalidTrailer))");
    }
}
