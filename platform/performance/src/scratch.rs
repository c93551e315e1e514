//! A folder of an experiment's own, which goes with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A fresh folder in another one; removed with everything in it when this is dropped.
#[derive(Debug)]
pub(crate) struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Makes `<folder>/<name>-<process>`, which must not exist.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn new(folder: &Path, name: &str) -> io::Result<ScratchFolder> {
        let path = folder.join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(ScratchFolder(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // What is left is visible by its name.
        let _ = fs::remove_dir_all(&self.0);
    }
}
