//! What a process, or the world, did with the disk.

use std::fmt;
use std::path::{Path, PathBuf};

/// The kinds of operations that faults and stalls may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // each is the method of its name
pub enum OperationKind {
    Create,
    Open,
    Read,
    Write,
    SyncData,
    Allocate,
    Rename,
    Remove,
    SyncDirectory,
    List,
}

/// One operation. A file is called by the name it was opened under, as a system call tracer would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A file was created.
    Create(PathBuf),
    /// A file was opened.
    Open(PathBuf),
    /// Bytes were read.
    Read {
        /// The file.
        path: PathBuf,
        /// Where, in bytes.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Bytes were written.
    Write {
        /// The file.
        path: PathBuf,
        /// Where, in bytes.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// A file was synced.
    SyncData(PathBuf),
    /// A file's length was set.
    Allocate {
        /// The file.
        path: PathBuf,
        /// The new length in bytes.
        length: u64,
    },
    /// A file got another name.
    Rename {
        /// The old name.
        from: PathBuf,
        /// The new name.
        to: PathBuf,
    },
    /// A name was removed.
    Remove(PathBuf),
    /// The directory was synced.
    SyncDirectory,
    /// The names were listed.
    List,
    /// Something outside the disk that its order is compared with: an answer that left, a promise that was given.
    Mark(String),
    /// The process ended; the page cache stayed.
    Kill,
    /// The power was cut.
    PowerCut,
    /// A hand from outside changed the medium: rot, a broken sector, a file put there by a test.
    Tamper(String),
}

impl Operation {
    /// Its kind; none for what no process asked for.
    #[must_use]
    pub fn kind(&self) -> Option<OperationKind> {
        Some(match self {
            Operation::Create(_) => OperationKind::Create,
            Operation::Open(_) => OperationKind::Open,
            Operation::Read { .. } => OperationKind::Read,
            Operation::Write { .. } => OperationKind::Write,
            Operation::SyncData(_) => OperationKind::SyncData,
            Operation::Allocate { .. } => OperationKind::Allocate,
            Operation::Rename { .. } => OperationKind::Rename,
            Operation::Remove(_) => OperationKind::Remove,
            Operation::SyncDirectory => OperationKind::SyncDirectory,
            Operation::List => OperationKind::List,
            Operation::Mark(_) | Operation::Kill | Operation::PowerCut | Operation::Tamper(_) => return None,
        })
    }

    /// Whether it concerns this name.
    #[must_use]
    pub fn concerns(&self, name: &Path) -> bool {
        match self {
            Operation::Create(path)
            | Operation::Open(path)
            | Operation::SyncData(path)
            | Operation::Remove(path)
            | Operation::Read { path, .. }
            | Operation::Write { path, .. }
            | Operation::Allocate { path, .. } => path == name,
            Operation::Rename { from, to } => from == name || to == name,
            Operation::SyncDirectory
            | Operation::List
            | Operation::Mark(_)
            | Operation::Kill
            | Operation::PowerCut
            | Operation::Tamper(_) => false,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Create(path) => write!(formatter, "create {}", path.display()),
            Operation::Open(path) => write!(formatter, "open {}", path.display()),
            Operation::Read { path, offset, length } => write!(formatter, "read {} {offset}+{length}", path.display()),
            Operation::Write { path, offset, length } => {
                write!(formatter, "write {} {offset}+{length}", path.display())
            }
            Operation::SyncData(path) => write!(formatter, "sync {}", path.display()),
            Operation::Allocate { path, length } => write!(formatter, "allocate {} {length}", path.display()),
            Operation::Rename { from, to } => write!(formatter, "rename {} {}", from.display(), to.display()),
            Operation::Remove(path) => write!(formatter, "remove {}", path.display()),
            Operation::SyncDirectory => formatter.write_str("sync directory"),
            Operation::List => formatter.write_str("list"),
            Operation::Mark(text) => formatter.write_str(text),
            Operation::Kill => formatter.write_str("kill"),
            Operation::PowerCut => formatter.write_str("power cut"),
            Operation::Tamper(text) => write!(formatter, "tamper: {text}"),
        }
    }
}
