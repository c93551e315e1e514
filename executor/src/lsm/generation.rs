//! Generations: which directories there are, and which go. Which one is live is said by the metadata, not here.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const PREFIX: &str = "store-";

/// The directory of a generation in a data directory.
#[must_use]
pub fn generation_path(data_directory: &Path, generation: u64) -> PathBuf {
    data_directory.join(format!("{PREFIX}{generation}"))
}

/// The generations that lie in a data directory, rising.
///
/// # Errors
/// The operating system's.
pub fn generations(data_directory: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(data_directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u64>().ok());
        if let Some(number) = number
            && generation_path(data_directory, number) == entry.path()
            && entry.file_type()?.is_dir()
        {
            found.push(number);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Removes every generation but the live one; gives which were removed. None of them may be open.
///
/// # Errors
/// The operating system's.
pub fn remove_other_generations(data_directory: &Path, live: Option<u64>) -> io::Result<Vec<u64>> {
    let mut removed = generations(data_directory)?;
    removed.retain(|generation| Some(*generation) != live);
    for generation in &removed {
        fs::remove_dir_all(generation_path(data_directory, *generation))?;
    }
    if !removed.is_empty() {
        sync_directory(data_directory)?;
    }
    Ok(removed)
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
