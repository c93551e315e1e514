//! The real file system.

use crate::error::{RecoveryError, StorageError};
use crate::identity::BootId;
use quorate_framework::vfs::{Vfs, VfsFile};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The file that is locked while a process uses the directory.
const LOCK_FILE: &str = "lock";
/// Zeros are written in pieces of at most this size. Static, so that they cost no memory that must be cleared each time.
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// A data directory of the real file system, locked against a second process for as long as this lives.
#[derive(Debug)]
pub struct DirectoryVfs {
    path: PathBuf,
    /// Open for `sync_directory`.
    directory: File,
    /// Holds the lock; none for whoever only looks.
    _lock: Option<File>,
}

impl DirectoryVfs {
    /// Opens an existing directory and locks it. Does not wait for the lock.
    ///
    /// # Errors
    /// [`RecoveryError::Locked`], or what the operating system says.
    pub fn open(path: &Path) -> Result<DirectoryVfs, RecoveryError> {
        let mut vfs = DirectoryVfs::open_unlocked(path)?;
        let lock = path.join(LOCK_FILE);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock)
            .map_err(StorageError::io("opening", &lock))?;
        match file.try_lock() {
            Ok(()) => vfs._lock = Some(file),
            Err(TryLockError::WouldBlock) => return Err(RecoveryError::Locked(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(StorageError::io("locking", &lock)(error).into()),
        }
        Ok(vfs)
    }

    /// Opens an existing directory only to look at it: makes no lock file and takes no lock. What a running replica is just writing may
    /// look torn.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn open_unlocked(path: &Path) -> Result<DirectoryVfs, RecoveryError> {
        let directory = File::open(path).map_err(StorageError::io("opening", path))?;
        let is_directory = directory.metadata().map_err(StorageError::io("reading", path))?.is_dir();
        if !is_directory {
            let error = io::Error::from(io::ErrorKind::NotADirectory);
            return Err(StorageError::io("opening", path)(error).into());
        }
        Ok(DirectoryVfs { path: path.to_owned(), directory, _lock: None })
    }
}

/// Whether a file that cannot be opened for writing may be readable all the same.
fn may_still_be_read(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

struct DirectoryFile(File);

impl VfsFile for DirectoryFile {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        let mut end = self.length()?;
        if end >= length {
            return self.0.set_len(length);
        }
        // Blocks that were only reserved would be converted at their first use, which costs a journal commit with each sync.
        while end < length {
            let piece = &ZEROS[..ZEROS.len().min((length - end) as usize)];
            self.0.write_all_at(piece, end)?;
            end += piece.len() as u64;
        }
        Ok(())
    }
}

impl Vfs for DirectoryVfs {
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.path.join(path))?;
        Ok(Box::new(DirectoryFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        let full = self.path.join(path);
        let file = match OpenOptions::new().read(true).write(true).open(&full) {
            // Whoever only looks may not be able to write; a write will then say so.
            Err(error) if self._lock.is_none() && may_still_be_read(&error) => File::open(&full)?,
            other => other?,
        };
        Ok(Box::new(DirectoryFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(self.path.join(path))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn list(&self) -> io::Result<Vec<PathBuf>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            names.push(PathBuf::from(entry?.file_name()));
        }
        names.sort();
        Ok(names)
    }
}

/// The boot of this machine; zero where the operating system does not say.
#[must_use]
pub fn current_boot() -> BootId {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    parse_boot(&text).unwrap_or_default()
}

fn parse_boot(text: &str) -> Option<BootId> {
    let digits: Vec<u8> = text.trim().bytes().filter(|byte| *byte != b'-').collect();
    let mut boot = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in boot.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(BootId(boot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_or_handle_is_refused_until_the_first_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let first = DirectoryVfs::open(folder.path()).unwrap();
        let second = DirectoryVfs::open(folder.path());
        assert!(matches!(second, Err(RecoveryError::Locked(path)) if path == folder.path()));
        assert!(DirectoryVfs::open_unlocked(folder.path()).is_ok(), "looking is allowed");
        drop(first);
        assert!(DirectoryVfs::open(folder.path()).is_ok());
    }

    #[test]
    fn allocated_blocks_are_zeros_that_take_up_space() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let vfs = DirectoryVfs::open(folder.path()).unwrap();
        let mut file = vfs.create(Path::new("file")).unwrap();
        file.write_all_at(b"kept", 0).unwrap();
        file.allocate(3 << 20).unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.length().unwrap(), 3 << 20);
        let mut bytes = vec![1; 8];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"kept\0\0\0\0");
        let blocks = std::fs::metadata(folder.path().join("file")).unwrap().blocks();
        assert!(blocks * 512 >= 3 << 20, "{blocks} blocks of 512 bytes");
        assert!(vfs.create(Path::new("file")).is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists));
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "").unwrap();
        assert!(DirectoryVfs::open(&path).is_err());
    }

    #[test]
    fn a_file_without_the_right_to_write_or_on_a_read_only_file_system_is_opened_to_be_read_and_no_other_is() {
        // A mount needs rights that a test does not have; EACCES, EPERM, EROFS as Linux numbers them.
        for number in [13, 1, 30] {
            assert!(may_still_be_read(&io::Error::from_raw_os_error(number)), "{number}");
        }
        // ENOENT, EIO, EISDIR, ENOSPC.
        for number in [2, 5, 21, 28] {
            assert!(!may_still_be_read(&io::Error::from_raw_os_error(number)), "{number}");
        }
    }

    #[test]
    fn the_boot_is_read_from_its_usual_form() {
        let boot = parse_boot("00010203-0405-0607-0809-0a0b0c0d0eff\n").unwrap();
        assert_eq!(boot, BootId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]));
        assert_eq!(parse_boot("not one"), None);
    }
}
