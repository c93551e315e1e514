//! The names: which are durable, which a process sees, and the operations in between.

use crate::choice::Chooser;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file, whatever its name.
pub(crate) type FileId = u64;

/// A set of names.
pub(crate) type Names = BTreeMap<PathBuf, FileId>;

#[derive(Clone, Debug)]
pub(crate) enum NameOperation {
    Create { name: PathBuf, file: FileId },
    Rename { from: PathBuf, to: PathBuf },
    Remove { name: PathBuf },
}

impl NameOperation {
    fn touches(&self, name: &Path) -> bool {
        match self {
            NameOperation::Create { name: own, .. } | NameOperation::Remove { name: own } => own == name,
            NameOperation::Rename { from, to } => from == name || to == name,
        }
    }

    /// Whether this operation cannot be on the medium without an earlier one: they share a name.
    fn depends_on(&self, earlier: &NameOperation) -> bool {
        match self {
            NameOperation::Create { name, .. } | NameOperation::Remove { name } => earlier.touches(name),
            NameOperation::Rename { from, to } => earlier.touches(from) || earlier.touches(to),
        }
    }

    fn apply(&self, names: &mut Names) {
        match self {
            NameOperation::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            NameOperation::Rename { from, to } => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            NameOperation::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Pending {
    sequence: u64,
    operation: NameOperation,
    /// A failed sync forgot it: it never becomes durable, nor does what depends on it.
    forgotten: bool,
}

/// The directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    durable: Names,
    cached: Names,
    pending: Vec<Pending>,
}

impl Directory {
    /// A directory with just these names, all durable.
    pub(crate) fn of(names: Names) -> Directory {
        Directory { cached: names.clone(), durable: names, pending: Vec::new() }
    }

    pub(crate) fn cached(&self) -> &Names {
        &self.cached
    }

    pub(crate) fn durable(&self) -> &Names {
        &self.durable
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.pending.is_empty()
    }

    /// Every file that a name refers to, or may refer to after a power cut.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileId> {
        let created = self.pending.iter().filter_map(|pending| match pending.operation {
            NameOperation::Create { file, .. } => Some(file),
            NameOperation::Rename { .. } | NameOperation::Remove { .. } => None,
        });
        self.durable.values().chain(self.cached.values()).copied().chain(created)
    }

    pub(crate) fn change(&mut self, operation: NameOperation, sequence: u64) {
        operation.apply(&mut self.cached);
        self.pending.push(Pending { sequence, operation, forgotten: false });
    }

    /// Makes durable what changed up to a sequence.
    pub(crate) fn sync(&mut self, up_to: u64) {
        let mut left: Vec<Pending> = Vec::new();
        for mut pending in std::mem::take(&mut self.pending) {
            let missing = left.iter().any(|earlier| pending.operation.depends_on(&earlier.operation));
            if pending.sequence <= up_to && !pending.forgotten && !missing {
                pending.operation.apply(&mut self.durable);
            } else {
                pending.forgotten |= pending.sequence <= up_to;
                left.push(pending);
            }
        }
        self.pending = left;
    }

    /// Forgets, after a failed sync, what changed up to a sequence.
    pub(crate) fn forget(&mut self, up_to: u64) {
        for pending in self.pending.iter_mut().filter(|pending| pending.sequence <= up_to) {
            pending.forgotten = true;
        }
    }

    /// Shows processes the durable names again, after a failed sync that threw the changes away.
    pub(crate) fn drop_changes(&mut self, up_to: u64) {
        self.pending.retain(|pending| pending.sequence > up_to);
        self.cached = self.durable.clone();
        for pending in &self.pending {
            pending.operation.apply(&mut self.cached);
        }
    }

    /// One legal set of names after a power cut, as a chooser decides: any operations, each only with those it depends on.
    pub(crate) fn choose_outcome(&self, chooser: &mut dyn Chooser) -> Names {
        let mut names = self.durable.clone();
        let mut lost: Vec<&NameOperation> = Vec::new();
        for pending in &self.pending {
            let impossible = pending.forgotten || lost.iter().any(|earlier| pending.operation.depends_on(earlier));
            if !impossible && chooser.choose(2) == 1 {
                pending.operation.apply(&mut names);
            } else {
                lost.push(&pending.operation);
            }
        }
        names
    }
}
