//! Writing a cluster's file: whole or not at all.

use crate::cluster::ClusterConfig;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a cluster's file was not written. An existing file is as it was.
#[derive(Debug, Error)]
pub enum WriteError {
    /// There is something at the path.
    #[error("{}: there is already a file; it was not touched (say so to overwrite it)", path.display())]
    Exists {
        /// The path as given.
        path: PathBuf,
    },
    /// The path cannot be a file.
    #[error("{}: this is a folder; the name of a file is needed", path.display())]
    Directory {
        /// The path as given.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: cannot be written: {source}", path.display())]
    Io {
        /// The path as given.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

/// Writes `cluster` to `path` through a temporary file beside it that is synced and renamed, so that a reader sees the whole
/// file or none. An existing file is kept unless `overwrite` is set. Blocks for the sync.
pub fn write_cluster(path: &Path, cluster: &ClusterConfig, overwrite: bool) -> Result<(), WriteError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Err(WriteError::Directory { path: path.to_owned() }),
        Ok(_) if !overwrite => return Err(WriteError::Exists { path: path.to_owned() }),
        _ => {}
    }
    let failed = |source| WriteError::Io { path: path.to_owned(), source };
    let temporary = temporary_beside(path).map_err(failed)?;
    let written = write_synced(&temporary, cluster.to_json_pretty().as_bytes())
        .and_then(|()| put_in_place(&temporary, path, overwrite));
    if let Err(error) = written {
        // The fault that matters is the first one; a temporary file that cannot be removed either changes nothing about it.
        let _ = fs::remove_file(&temporary);
        return Err(match error.kind() {
            io::ErrorKind::AlreadyExists if !overwrite => WriteError::Exists { path: path.to_owned() },
            _ => failed(error),
        });
    }
    sync_folder(path).map_err(failed)
}

fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

fn write_synced(temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn put_in_place(temporary: &Path, path: &Path, overwrite: bool) -> io::Result<()> {
    if overwrite {
        return fs::rename(temporary, path);
    }
    // A link, unlike a rename, fails if somebody made the file since it was looked for.
    match fs::hard_link(temporary, path) {
        Ok(()) => fs::remove_file(temporary),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // A file system without links.
        Err(_) if !path.exists() => fs::rename(temporary, path),
        Err(error) => Err(error),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    fs::File::open(folder)?.sync_all()
}
