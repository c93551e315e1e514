//! A directory in memory that remembers what was done to it, in which order.

use quorate_framework::vfs::{Vfs, VfsFile};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
pub struct Directory(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    files: BTreeMap<PathBuf, Arc<Mutex<Vec<u8>>>>,
    /// What was done, in words.
    calls: Vec<String>,
    /// The call that fails, and every one of its kind after it.
    failing: Option<&'static str>,
}

pub struct File {
    directory: Directory,
    bytes: Arc<Mutex<Vec<u8>>>,
}

/// A file of these bytes.
pub fn file(bytes: &[u8]) -> Box<dyn VfsFile> {
    Box::new(File { directory: Directory::default(), bytes: Arc::new(Mutex::new(bytes.to_vec())) })
}

impl Directory {
    pub fn fail(&self, call: Option<&'static str>) {
        self.0.lock().unwrap().failing = call;
    }

    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().calls)
    }

    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        self.0.lock().unwrap().files[path].lock().unwrap().clone()
    }

    fn call(&self, what: &'static str, of: &str) -> io::Result<()> {
        let mut inside = self.0.lock().unwrap();
        let call = format!("{what} {of}").trim_end().to_owned();
        // Consecutive writes count once.
        if inside.calls.last() != Some(&call) {
            inside.calls.push(call);
        }
        if inside.failing == Some(what) { Err(io::Error::other("made to fail")) } else { Ok(()) }
    }
}

impl VfsFile for File {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let file = self.bytes.lock().unwrap();
        let range = offset as usize..offset as usize + bytes.len();
        bytes.copy_from_slice(file.get(range).ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.directory.call("write", "")?;
        let mut file = self.bytes.lock().unwrap();
        let end = offset as usize + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.directory.call("sync", "")
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().resize(length as usize, 0);
        Ok(())
    }
}

impl Vfs for Directory {
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        self.call("create", &path.display().to_string())?;
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let mut inside = self.0.lock().unwrap();
        if inside.files.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        inside.files.insert(path.to_owned(), Arc::clone(&bytes));
        Ok(Box::new(File { directory: self.clone(), bytes }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        let inside = self.0.lock().unwrap();
        let bytes = inside.files.get(path).ok_or(ErrorKind::NotFound)?;
        Ok(Box::new(File { directory: self.clone(), bytes: Arc::clone(bytes) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename", &format!("{} {}", from.display(), to.display()))?;
        let mut inside = self.0.lock().unwrap();
        let bytes = inside.files.remove(from).ok_or(ErrorKind::NotFound)?;
        inside.files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.0.lock().unwrap().files.remove(path);
        removed.map(drop).ok_or(ErrorKind::NotFound.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.call("sync directory", "")
    }

    fn list(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.0.lock().unwrap().files.keys().cloned().collect())
    }
}
