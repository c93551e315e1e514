//! What can be said of a generation's files without opening them: whether those are there that it cannot do without.
//!
//! The crate itself says little of a missing one. It begins a fresh tree where `version` is gone, removes a keyspace without `current`, and
//! calls an empty list of tables an invalid argument. So this is looked at before the crate sees the files. Names and the first bytes of
//! `current` are those of fjall 3.1.13 (`file.rs`) and lsm-tree 3.1.10 (`file.rs`, `version/persist.rs`).

use super::damage::REBUILD_FILE;
use super::generation::generation_path;
use super::open::LsmOpenError;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Where the tree's files lie in a generation's directory.
pub(super) const TREE_DIRECTORY: &str = "lsm";
/// Where the crate has its keyspaces, below that.
pub(super) const KEYSPACES_DIRECTORY: &str = "keyspaces";
/// Says which version of its format the crate writes.
const VERSION_FILE: &str = "version";
/// Says which list of tables a keyspace has: its number comes first.
const CURRENT_FILE: &str = "current";
/// The keyspace in which the crate keeps the names of all, and the one that holds the state.
const KEYSPACES: [&str; 2] = ["0", "1"];

/// Looks whether a generation has what an opening needs. What the files hold only an opening finds out. Changes nothing; reads a few bytes.
///
/// # Errors
/// [`LsmOpenError::Damaged`] if something is missing or empty, or the generation is known to be damaged; [`LsmOpenError::Io`].
pub fn look(data_directory: &Path, generation: u64) -> Result<(), LsmOpenError> {
    let directory = generation_path(data_directory, generation);
    if let Some(reason) = present(fs::read(directory.join(REBUILD_FILE)))? {
        return Err(LsmOpenError::damaged(String::from_utf8_lossy(&reason)));
    }
    let tree = directory.join(TREE_DIRECTORY);
    if !tree.try_exists()? {
        return Err(LsmOpenError::damaged("its files are missing"));
    }
    not_empty(&tree, VERSION_FILE)?;
    for keyspace in KEYSPACES {
        let folder = format!("{KEYSPACES_DIRECTORY}/{keyspace}");
        let current = format!("{folder}/{CURRENT_FILE}");
        not_empty(&tree, &current)?;
        let mut number = [0; 8];
        match File::open(tree.join(&current))?.read_exact(&mut number) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(LsmOpenError::damaged(format!("{TREE_DIRECTORY}/{current} is cut short")));
            }
            read => read?,
        }
        not_empty(&tree, &format!("{folder}/v{}", u64::from_le_bytes(number)))?;
    }
    Ok(())
}

fn not_empty(tree: &Path, name: &str) -> Result<(), LsmOpenError> {
    match present(fs::metadata(tree.join(name)))? {
        None => Err(LsmOpenError::damaged(format!("{TREE_DIRECTORY}/{name} is missing"))),
        // As the crate would meet it.
        Some(metadata) if metadata.is_dir() => Err(LsmOpenError::Io(ErrorKind::IsADirectory.into())),
        Some(metadata) if metadata.len() == 0 => {
            Err(LsmOpenError::damaged(format!("{TREE_DIRECTORY}/{name} is empty")))
        }
        Some(_) => Ok(()),
    }
}

fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}
