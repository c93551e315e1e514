//! The file system as the log sees it: the seam where a simulated disk, and faults, come in.
//!
//! All calls block. Paths are relative to the directory the implementation was opened on.

use std::io;
use std::path::{Path, PathBuf};

/// One open file. Not shared between threads at the same time.
pub trait VfsFile: Send {
    /// Reads exactly `bytes.len()` bytes from an offset.
    ///
    /// # Errors
    /// The operating system's; `UnexpectedEof` past the end.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes at an offset; they are not durable before a later [`VfsFile::sync_data`] returns.
    ///
    /// # Errors
    /// The operating system's; after one, the file must not be trusted any more.
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes what was written before this call durable.
    ///
    /// # Errors
    /// The operating system's; final: a later success says nothing about what was written before.
    fn sync_data(&mut self) -> io::Result<()>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// The operating system's.
    fn length(&self) -> io::Result<u64>;

    /// Sets the file's length in bytes, with real blocks behind it where the file system has them.
    ///
    /// # Errors
    /// The operating system's; `StorageFull` when there is no room.
    fn allocate(&mut self, length: u64) -> io::Result<()>;
}

/// A directory of files.
#[cfg_attr(any(test, feature = "testing"), mockall::automock)]
pub trait Vfs: Send {
    /// Creates a file that must not exist. Its name is durable only after [`Vfs::sync_directory`].
    ///
    /// # Errors
    /// The operating system's; `AlreadyExists`.
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>>;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// The operating system's; `NotFound`.
    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>>;

    /// Renames a file over another; durable only after [`Vfs::sync_directory`].
    ///
    /// # Errors
    /// The operating system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file; durable only after [`Vfs::sync_directory`].
    ///
    /// # Errors
    /// The operating system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals before this call durable.
    ///
    /// # Errors
    /// The operating system's; final, as with [`VfsFile::sync_data`].
    fn sync_directory(&self) -> io::Result<()>;

    /// The names in the directory, sorted.
    ///
    /// # Errors
    /// The operating system's.
    fn list(&self) -> io::Result<Vec<PathBuf>>;
}
