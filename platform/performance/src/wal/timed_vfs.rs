//! The real file system, with the time that each write and sync took.

use parking_lot::Mutex;
use quorate_framework::vfs::{Vfs, VfsFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// What was done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Bytes were written.
    Write(usize),
    /// They were synced.
    Sync,
}

/// One operation, from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) operation: Operation,
    pub(super) began: Instant,
    pub(super) ended: Instant,
}

/// Operations in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Operations(Arc<Mutex<Vec<Timed>>>);

impl Operations {
    fn note(&self, operation: Operation, began: Instant) {
        self.0.lock().push(Timed { operation, began, ended: Instant::now() });
    }

    /// What was done since the last call.
    pub(super) fn take(&self) -> Vec<Timed> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// A file system that is timed.
pub(super) struct TimedVfs<V> {
    inner: V,
    operations: Operations,
}

impl<V: Vfs> TimedVfs<V> {
    pub(super) fn new(inner: V, operations: Operations) -> TimedVfs<V> {
        TimedVfs { inner, operations }
    }

    fn timed(&self, file: Box<dyn VfsFile>) -> Box<dyn VfsFile> {
        Box::new(TimedFile { inner: file, operations: self.operations.clone() })
    }
}

impl<V: Vfs> Vfs for TimedVfs<V> {
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        Ok(self.timed(self.inner.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        Ok(self.timed(self.inner.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.inner.sync_directory()
    }

    fn list(&self) -> io::Result<Vec<PathBuf>> {
        self.inner.list()
    }
}

struct TimedFile {
    inner: Box<dyn VfsFile>,
    operations: Operations,
}

impl VfsFile for TimedFile {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(bytes, offset)
    }

    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let began = Instant::now();
        self.inner.write_all_at(bytes, offset)?;
        self.operations.note(Operation::Write(bytes.len()), began);
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let began = Instant::now();
        self.inner.sync_data()?;
        self.operations.note(Operation::Sync, began);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        self.inner.allocate(length)
    }
}
