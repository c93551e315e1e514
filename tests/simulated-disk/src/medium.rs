//! The whole disk as a value: files and names, changed only by [`Effect`]s, so that a recording can be played again.

use crate::choice::Chooser;
use crate::directory::{Directory, FileId, NameOperation, Names};
use crate::file::{AfterFailedSync, FileOutcome, FileState, Torn};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A change of the medium or of the page cache before it.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Name(NameOperation),
    Write {
        file: FileId,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    SetLength {
        file: FileId,
        length: u64,
    },
    SyncFile {
        file: FileId,
        up_to: u64,
    },
    FailedSyncFile {
        file: FileId,
        up_to: u64,
        after: AfterFailedSync,
    },
    SyncDirectory {
        up_to: u64,
    },
    FailedSyncDirectory {
        up_to: u64,
        after: AfterFailedSync,
    },
    FlipBit {
        file: FileId,
        offset: u64,
        bit: u8,
    },
    BreakSectors {
        file: FileId,
        first: u64,
        end: u64,
    },
    /// A power cut, or a hand from outside: the medium is this one from now on.
    Replace(Box<Medium>),
}

/// What survives of everything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Outcome {
    pub(crate) names: Names,
    pub(crate) files: BTreeMap<FileId, FileOutcome>,
}

/// Files and names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Medium {
    pub(crate) files: BTreeMap<FileId, FileState>,
    pub(crate) directory: Directory,
    pub(crate) next_file: FileId,
    /// Number of the last change; changes are dated by it.
    pub(crate) sequence: u64,
}

impl Medium {
    pub(crate) fn file_named(&self, name: &Path) -> Option<(FileId, &FileState)> {
        let file = *self.directory.cached().get(name)?;
        Some((file, self.files.get(&file)?))
    }

    pub(crate) fn apply(&mut self, effect: &Effect) {
        if let Effect::Replace(medium) = effect {
            *self = Medium::clone(medium);
            return;
        }
        self.sequence += 1;
        let sequence = self.sequence;
        match effect {
            Effect::Name(operation) => {
                if let NameOperation::Create { file, .. } = operation {
                    self.files.insert(*file, FileState::default());
                    self.next_file = self.next_file.max(file + 1);
                }
                self.directory.change(operation.clone(), sequence);
            }
            Effect::SyncDirectory { up_to } => self.directory.sync(*up_to),
            Effect::FailedSyncDirectory { up_to, after } => match after {
                AfterFailedSync::StillDirty => {}
                AfterFailedSync::MarkedClean => self.directory.forget(*up_to),
                AfterFailedSync::Dropped => self.directory.drop_changes(*up_to),
            },
            Effect::Write { file, .. }
            | Effect::SetLength { file, .. }
            | Effect::SyncFile { file, .. }
            | Effect::FailedSyncFile { file, .. }
            | Effect::FlipBit { file, .. }
            | Effect::BreakSectors { file, .. } => {
                if let Some(state) = self.files.get_mut(file) {
                    apply_to_file(state, effect, sequence);
                }
            }
            Effect::Replace(_) => {}
        }
    }

    /// Forgets files that no name refers to and nobody holds open.
    pub(crate) fn collect(&mut self, open: &BTreeMap<FileId, usize>) {
        let named: BTreeSet<FileId> = self.directory.files().collect();
        self.files.retain(|file, _| named.contains(file) || open.contains_key(file));
    }

    pub(crate) fn choose_outcome(&self, torn: Torn, chooser: &mut dyn Chooser) -> Outcome {
        let names = self.directory.choose_outcome(chooser);
        let mut files = BTreeMap::new();
        for file in names.values() {
            chooser.next_part();
            if let Some(state) = self.files.get(file)
                && !state.is_synced()
            {
                files.insert(*file, state.choose_outcome(torn, chooser));
            }
        }
        Outcome { names, files }
    }

    /// The medium after a power cut with this outcome.
    pub(crate) fn after(&self, outcome: &Outcome) -> Medium {
        let nothing = FileOutcome::default();
        let survivors = outcome.names.values().filter_map(|file| {
            let state = self.files.get(file)?;
            Some((*file, state.after(outcome.files.get(file).unwrap_or(&nothing))))
        });
        Medium {
            files: survivors.collect(),
            directory: Directory::of(outcome.names.clone()),
            next_file: self.next_file,
            sequence: self.sequence,
        }
    }

    /// The medium after a power cut that took everything unsynced.
    pub(crate) fn synced_only(&self) -> Medium {
        self.after(&Outcome { names: self.directory.durable().clone(), files: BTreeMap::new() })
    }

    /// The medium after a power cut that came when the page cache had just been written back.
    pub(crate) fn written_back(&self) -> Medium {
        let mut medium = self.clone();
        medium.directory.sync(u64::MAX);
        for file in medium.files.values_mut() {
            file.sync(u64::MAX);
        }
        medium.synced_only()
    }

    /// The names of files a power cut could change or take, and whether it could change the names themselves.
    pub(crate) fn undurable(&self) -> (Vec<PathBuf>, bool) {
        let changed = |file| self.files.get(file).is_some_and(|state| !state.is_durable());
        let names = self.directory.cached().iter().filter(|(_, file)| changed(file)).map(|(name, _)| name.clone());
        (names.collect(), !self.directory.is_synced())
    }
}

fn apply_to_file(state: &mut FileState, effect: &Effect, sequence: u64) {
    match effect {
        Effect::Write { offset, bytes, .. } => state.write(bytes, *offset, sequence),
        Effect::SetLength { length, .. } => state.set_length(*length, sequence),
        Effect::SyncFile { up_to, .. } => state.sync(*up_to),
        Effect::FailedSyncFile { up_to, after, .. } => match after {
            AfterFailedSync::StillDirty => {}
            AfterFailedSync::MarkedClean => state.forget(*up_to, false),
            AfterFailedSync::Dropped => state.forget(*up_to, true),
        },
        Effect::FlipBit { offset, bit, .. } => state.flip_bit(*offset, *bit),
        Effect::BreakSectors { first, end, .. } => state.break_sectors(*first, *end),
        Effect::Name(_) | Effect::SyncDirectory { .. } | Effect::FailedSyncDirectory { .. } | Effect::Replace(_) => {}
    }
}
