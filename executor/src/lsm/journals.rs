//! The tree's journals. They are never read.
//!
//! The crate writes each batch into a journal first, and would read it again when it opens. But a power cut may spoil what is not synced
//! there, rot anything (the numbers of batches stand outside the crate's checksums), and with several journals what cannot be read in one
//! is taken for its end, and the next one is read on top: the state would have a hole and say that it is whole. The write-ahead log has
//! everything that a journal has, under better checks. So the state at a start is that of the tables.

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// What the crate's journals end with; what is before it is a number.
const ENDING: &str = "jnl";
/// The crate's own lock, in the tree's directory.
const LOCK_FILE: &str = "lock";

/// Empties the journals of a tree that nobody has open. The files stay: the crate takes the next number of a batch from the tables only
/// where it finds a journal (`db.rs`, `recover`). Nothing is synced: what comes back after a power cut is emptied again.
///
/// # Errors
/// [`fjall::Error::Locked`] if somebody has it open; the operating system's.
pub(super) fn empty(tree: &Path) -> Result<(), fjall::Error> {
    // Whoever has the tree open writes into them.
    let lock = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(tree.join(LOCK_FILE))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => fjall::Error::Locked,
        TryLockError::Error(error) => fjall::Error::Io(error),
    })?;
    for journal in journals(tree)? {
        OpenOptions::new().write(true).open(journal)?.set_len(0)?;
    }
    Ok(())
}

fn journals(tree: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(tree)? {
        let path = entry?.path();
        let is_numbered = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok()).is_some();
        if is_numbered && path.extension().is_some_and(|ending| ending == ENDING) {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn tree(journals: &[(&str, &[u8])]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        for (name, bytes) in journals {
            fs::write(tree.path().join(name), bytes).unwrap();
        }
        tree
    }

    #[test]
    fn journals_are_emptied_and_kept_and_nothing_else_is_touched() {
        let tree = tree(&[("9.jnl", b"abc"), ("10.jnl", b"x"), ("version", b"v"), ("x.jnl", b"x")]);
        empty(tree.path()).unwrap();
        let bytes = |name| fs::read(tree.path().join(name)).unwrap();
        assert_eq!((bytes("9.jnl"), bytes("10.jnl")), (vec![], vec![]));
        assert_eq!(bytes("version"), b"v");
        assert_eq!(bytes("x.jnl"), b"x", "that is not one of the crate's");
    }

    #[test]
    fn the_journals_of_a_tree_that_is_open_are_left_alone() {
        let tree = tree(&[("1.jnl", b"a"), (LOCK_FILE, b"")]);
        let lock = File::open(tree.path().join(LOCK_FILE)).unwrap();
        lock.lock().unwrap();
        assert!(matches!(empty(tree.path()), Err(fjall::Error::Locked)));
        assert_eq!(fs::read(tree.path().join("1.jnl")).unwrap(), b"a");
    }
}
