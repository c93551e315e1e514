//! The tree's journals: what a power cut may have spoiled, and how they are dropped.
//!
//! A checkpoint stands in tables ([`write_out`](super::write_out)), so the journals only hold what came after it, and the
//! write-ahead log has all of that too. They save its replay after the death of a process, and nothing depends on them.

use fjall::{Database, JournalRecoveryError};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// What the crate's journals end with; what is before it is a number, the newest the highest.
const ENDING: &str = "jnl";
/// The crate's own lock, in the tree's directory.
const LOCK_FILE: &str = "lock";

/// Makes the lock's file again if it is missing: it is empty, so nothing is lost with it, and the crate does not open a tree without it.
pub(super) fn make_missing_lock(tree: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(false).open(tree.join(LOCK_FILE)).map(drop)
}

/// Opens a tree. Its journals are dropped where they cannot be taken for what was committed: the state is then that of the
/// tables. Gives how many bytes were dropped.
///
/// # Errors
/// The crate's.
pub(super) fn open_or_drop(
    tree: &Path,
    open: impl Fn() -> Result<Database, fjall::Error>,
) -> Result<(Database, u64), fjall::Error> {
    // The crate takes a place that it cannot read in one of several journals for the end of that one, and goes on with the next:
    // a state with a hole, which says of itself that it is whole. Power cuts make none of those, since each journal is synced
    // before the next is made (`journal/writer.rs`, `rotate`); rot does.
    let before = if are_several(tree)? { drop_all(tree)? } else { 0 };
    match open() {
        Err(error) if is_refused(&error) => {
            let dropped = drop_all(tree)?;
            Ok((open()?, before + dropped))
        }
        opened => Ok((opened?, before)),
    }
}

/// Whether the crate refuses what a journal holds, as it does after a power cut that lost a sector inside a value.
fn is_refused(error: &fjall::Error) -> bool {
    use JournalRecoveryError::{ChecksumMismatch, InsufficientLength, TooManyItems};
    matches!(error, fjall::Error::JournalRecovery(ChecksumMismatch | InsufficientLength | TooManyItems))
}

/// The journals with their lengths in bytes, the newest first.
fn newest_first(tree: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(tree)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) = number.filter(|_| path.extension().is_some_and(|ending| ending == ENDING)) {
            let length = fs::metadata(&path)?.len();
            found.push((number, path, length));
        }
    }
    found.sort_unstable_by_key(|(number, ..)| std::cmp::Reverse(*number));
    Ok(found.into_iter().map(|(_, path, length)| (path, length)).collect())
}

fn are_several(tree: &Path) -> io::Result<bool> {
    Ok(newest_first(tree)?.iter().filter(|(_, length)| *length > 0).count() > 1)
}

/// Empties all journals; gives how many bytes they held, the zeros at the end of each left out. The files stay: the crate takes
/// the next number of a batch from the tables only where it finds a journal (`db.rs`, `recover`).
///
/// The newest goes first, and each is durably empty before the next: cut off anywhere, what is left is the older ones, whole.
fn drop_all(tree: &Path) -> Result<u64, fjall::Error> {
    // Whoever has the tree open writes into them.
    let lock = OpenOptions::new().read(true).write(true).open(tree.join(LOCK_FILE))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => fjall::Error::Locked,
        TryLockError::Error(error) => fjall::Error::Io(error),
    })?;
    let mut dropped = 0;
    for (path, length) in newest_first(tree)? {
        if length > 0 {
            // What cannot be counted is dropped all the same.
            dropped += written_bytes(&path).unwrap_or(length);
            let journal = OpenOptions::new().write(true).open(&path)?;
            journal.set_len(0)?;
            journal.sync_all()?;
        }
    }
    Ok(dropped)
}

/// The bytes of a journal up to its last one that is not zero: the crate makes it 64 MiB long at once.
fn written_bytes(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let (mut read, mut written, mut block) = (0, 0, vec![0; 1 << 16]);
    loop {
        let count = match file.read(&mut block) {
            Ok(0) => return Ok(written),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            count => count?,
        };
        if let Some(last) = block[..count].iter().rposition(|byte| *byte != 0) {
            written = read + last as u64 + 1;
        }
        read += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn tree(journals: &[(&str, &[u8])]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join(LOCK_FILE), "").unwrap();
        for (name, bytes) in journals {
            fs::write(tree.path().join(name), bytes).unwrap();
        }
        tree
    }

    #[test]
    fn journals_are_emptied_and_kept_the_newest_first_and_what_was_written_in_them_is_counted() {
        let tree =
            tree(&[("9.jnl", b"abc\0\0"), ("10.jnl", b"\0x\0"), ("11.jnl", b""), ("version", b"v"), ("x.jnl", b"x")]);
        let names = || -> Vec<_> {
            let found = newest_first(tree.path()).unwrap();
            found.into_iter().map(|(path, length)| (path.file_name().unwrap().to_owned(), length)).collect()
        };
        assert_eq!(names(), [("11.jnl".into(), 0), ("10.jnl".into(), 3), ("9.jnl".into(), 5)]);
        assert!(are_several(tree.path()).unwrap());
        assert_eq!(drop_all(tree.path()).unwrap(), 3 + 2);
        assert_eq!(names(), [("11.jnl".into(), 0), ("10.jnl".into(), 0), ("9.jnl".into(), 0)]);
        assert!(!are_several(tree.path()).unwrap());
        assert_eq!(fs::read(tree.path().join("version")).unwrap(), b"v");
        assert_eq!(fs::read(tree.path().join("x.jnl")).unwrap(), b"x", "that is not one of the crate's");
    }

    #[test]
    fn an_emptying_that_is_cut_off_leaves_the_older_journals_whole() {
        let tree = tree(&[("1.jnl", b"a"), ("2.jnl", b"b"), ("3.jnl", b"c")]);
        // What cannot be emptied ends it, as a crash would there.
        fs::remove_file(tree.path().join("2.jnl")).unwrap();
        fs::create_dir(tree.path().join("2.jnl")).unwrap();
        assert!(drop_all(tree.path()).is_err());
        assert_eq!(fs::read(tree.path().join("3.jnl")).unwrap(), b"");
        assert_eq!(fs::read(tree.path().join("1.jnl")).unwrap(), b"a");
    }

    #[test]
    fn the_journals_of_a_tree_that_is_open_are_left_alone() {
        let tree = tree(&[("1.jnl", b"a"), ("2.jnl", b"b")]);
        let lock = File::open(tree.path().join(LOCK_FILE)).unwrap();
        lock.lock().unwrap();
        let refused = open_or_drop(tree.path(), || panic!("it is not even opened")).map(drop).unwrap_err();
        assert!(matches!(refused, fjall::Error::Locked), "{refused}");
        assert_eq!(fs::read(tree.path().join("2.jnl")).unwrap(), b"b");
    }

    #[test]
    fn other_failures_than_of_what_a_journal_holds_drop_nothing_and_none_is_tried_twice() {
        let tree = tree(&[("1.jnl", b"a")]);
        let tried = Cell::new(0);
        for error in [
            || fjall::Error::JournalRecovery(JournalRecoveryError::InvalidFileName),
            || fjall::Error::Unrecoverable,
            || fjall::Error::Io(ErrorKind::UnexpectedEof.into()),
        ] {
            tried.set(0);
            let open = || {
                tried.set(tried.get() + 1);
                Err(error())
            };
            open_or_drop(tree.path(), open).map(drop).unwrap_err();
            assert_eq!((tried.get(), fs::read(tree.path().join("1.jnl")).unwrap()), (1, b"a".to_vec()));
        }
        tried.set(0);
        let open = || {
            tried.set(tried.get() + 1);
            Err(fjall::Error::JournalRecovery(JournalRecoveryError::TooManyItems))
        };
        open_or_drop(tree.path(), open).map(drop).unwrap_err();
        assert_eq!(
            (tried.get(), fs::read(tree.path().join("1.jnl")).unwrap()),
            (2, vec![]),
            "again without them, once"
        );
    }
}
