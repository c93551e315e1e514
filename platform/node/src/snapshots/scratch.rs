//! A directory for a replica that keeps nothing: its files have no names on disk, so the operating system frees them with the process,
//! however that ends.

use parking_lot::Mutex;
use quorate_framework::vfs::{Vfs, VfsFile};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder of unnamed files. Clones are the same folder. Syncing does nothing: nothing of it survives.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    files: Arc<Mutex<BTreeMap<PathBuf, Arc<File>>>>,
}

#[derive(Debug)]
struct ScratchFile(Arc<File>);

impl VfsFile for ScratchFile {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}

/// Opens a file in the system's folder for temporary files and takes its name away.
fn unnamed() -> io::Result<File> {
    let folder = std::env::temp_dir();
    loop {
        let path = folder.join(format!("quorate-{:016x}", rand::random::<u64>()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

impl Vfs for Scratch {
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        let mut files = self.files.lock();
        if files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(unnamed()?);
        files.insert(path.to_owned(), Arc::clone(&file));
        Ok(Box::new(ScratchFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        let files = self.files.lock();
        let file = files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(ScratchFile(Arc::clone(file))))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.lock().remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.files.lock().keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_names_and_a_removed_one_is_still_readable_by_who_has_it_open() {
        let scratch = Scratch::default();
        let (one, two) = (Path::new("one"), Path::new("two"));
        scratch.create(one).unwrap().write_all_at(b"abcdef", 0).unwrap();
        assert_eq!(scratch.create(one).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        scratch.clone().rename(one, two).unwrap();
        assert_eq!(scratch.list().unwrap(), [two]);
        let file = scratch.open(two).unwrap();
        scratch.remove(two).unwrap();
        assert_eq!(scratch.open(two).err().unwrap().kind(), io::ErrorKind::NotFound);
        let mut bytes = [0; 3];
        file.read_exact_at(&mut bytes, 2).unwrap();
        assert_eq!((&bytes, file.length().unwrap()), (b"cde", 6));
    }
}
