//! The check of a data directory before anything is bound or written.
//!
//! With recovery off nothing is ever stored, so nothing is made; but a directory that was named must be one in which a durable
//! replica could live, and one that holds a durable replica's data is not to be ignored in silence.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The file by which a durable replica's directory is known.
pub const METADATA_FILE: &str = "metadata.dat";

/// Why a path cannot be a data directory.
#[derive(Debug, Error)]
pub enum DataDirectoryError {
    /// A tilde that no shell has expanded.
    #[error("data directory {}: the leading '~' was not expanded by a shell; write the whole path", .0.display())]
    Tilde(PathBuf),
    /// Something else is at the path, or above it.
    #[error("data directory {}: {} is not a directory", .path.display(), .obstacle.display())]
    NotADirectory {
        /// The path as it will be used.
        path: PathBuf,
        /// What is not a directory.
        obstacle: PathBuf,
    },
    /// Nothing can be written there.
    #[error("data directory {}: cannot write in {}: {source}", .path.display(), .place.display())]
    NotWritable {
        /// The path as it will be used.
        path: PathBuf,
        /// Where it was tried.
        place: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The path cannot be looked at.
    #[error("data directory {}: {source}", .path.display())]
    Unreadable {
        /// The path as it will be used.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The data of a durable replica, which this start would ignore.
    #[error(
        "data directory {}: it holds the data of a durable replica ({METADATA_FILE}), and recovery_enabled is false; \
         name another directory",
        .0.display()
    )]
    HoldsData(PathBuf),
}

/// Checks a directory for a replica with recovery off and gives its full path. One that is not there is not made; then the nearest
/// directory above it must be writable. A probe file is written and removed again. Blocks for that.
///
/// # Errors
/// [`DataDirectoryError`]; everything is as it was.
pub fn check_in_memory(path: &Path) -> Result<PathBuf, DataDirectoryError> {
    let (full, place) = possible(path)?;
    probe(&place).map_err(|source| DataDirectoryError::NotWritable {
        path: full.clone(),
        place: place.clone(),
        source,
    })?;
    if full.join(METADATA_FILE).exists() {
        return Err(DataDirectoryError::HoldsData(full));
    }
    Ok(full)
}

/// Checks a directory for a durable replica and gives its full path. What is in it is judged by its recovery. Blocks.
///
/// # Errors
/// [`DataDirectoryError`]; everything is as it was.
pub fn check_durable(path: &Path) -> Result<PathBuf, DataDirectoryError> {
    let (full, _) = possible(path)?;
    Ok(full)
}

/// The full path, and the nearest place that is there, in which something can be written.
fn possible(path: &Path) -> Result<(PathBuf, PathBuf), DataDirectoryError> {
    if path.starts_with("~") || path.to_string_lossy().starts_with('~') {
        return Err(DataDirectoryError::Tilde(path.to_owned()));
    }
    let unreadable = |source| DataDirectoryError::Unreadable { path: path.to_owned(), source };
    let full = std::path::absolute(path).map_err(unreadable)?;
    let place = nearest_existing(&full)?;
    if !place.is_dir() {
        return Err(DataDirectoryError::NotADirectory { path: full, obstacle: place });
    }
    Ok((full, place))
}

/// The path itself, or the first above it at which there is something.
fn nearest_existing(full: &Path) -> Result<PathBuf, DataDirectoryError> {
    for place in full.ancestors() {
        match fs::symlink_metadata(place) {
            Ok(_) => return Ok(place.to_owned()),
            // A file in the middle of the path is found as such further up.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(source) => return Err(DataDirectoryError::Unreadable { path: full.to_owned(), source }),
        }
    }
    Ok(PathBuf::from("/"))
}

/// Writes and removes a file of a name that nobody else uses.
fn probe(directory: &Path) -> io::Result<()> {
    let file = directory.join(format!(".quorate-write-probe-{}", std::process::id()));
    let written = fs::OpenOptions::new().write(true).create_new(true).open(&file).map(drop);
    match written {
        Ok(()) => fs::remove_file(&file),
        // Left by a process with the same number that was killed in between.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::remove_file(&file),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn listing(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_directory_or_one_that_could_be_made_passes_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(check_in_memory(folder.path()).unwrap(), folder.path());
        let deep = folder.path().join("not there/a data dir");
        assert_eq!(check_in_memory(&deep).unwrap(), deep);
        assert_eq!(listing(folder.path()), 0);
    }

    #[test]
    fn a_file_in_its_place_or_above_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "mine").unwrap();
        for path in [file.clone(), file.join("data")] {
            let error = check_in_memory(&path).unwrap_err().to_string();
            assert!(error.ends_with(&format!("{} is not a directory", file.display())), "{error}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    }

    #[test]
    fn a_broken_link_is_not_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(matches!(check_in_memory(&link), Err(DataDirectoryError::NotADirectory { .. })));
    }

    #[test]
    fn a_directory_without_write_permission_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let locked = folder.path().join("locked");
        fs::create_dir(&locked).unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();
        let may_write_anyway = fs::write(locked.join("as root"), "").is_ok();
        let checked = check_in_memory(&locked.join("data"));
        assert_eq!(checked.is_ok(), may_write_anyway, "{checked:?}");
        if let Err(error) = checked {
            assert!(matches!(error, DataDirectoryError::NotWritable { .. }), "{error}");
        }
    }

    #[test]
    fn the_data_of_a_durable_replica_and_an_unexpanded_tilde_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(METADATA_FILE), "").unwrap();
        assert!(matches!(check_in_memory(folder.path()), Err(DataDirectoryError::HoldsData(_))));
        assert!(matches!(check_in_memory(Path::new("~/data")), Err(DataDirectoryError::Tilde(_))));
    }
}
