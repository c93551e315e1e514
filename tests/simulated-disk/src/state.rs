//! What all handles of one disk share.

use crate::choice::RandomChooser;
use crate::directory::FileId;
use crate::fault::{CrashPolicy, Faults};
use crate::medium::{Effect, Medium};
use crate::operation::{Operation, OperationKind};
use crate::page::PAGE_BYTES;
use crate::recording::{RecordedOperation, Recording};
use parking_lot::{Condvar, Mutex};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<DiskState>,
    /// Signalled when an operation begins to hang, when hanging ones may go on, and when a life ends.
    pub(crate) changed: Condvar,
}

#[derive(Debug)]
pub(crate) struct DiskState {
    pub(crate) medium: Medium,
    pub(crate) generator: ChaCha8Rng,
    /// Counts the processes' lives: a kill or a power cut ends one, and with it its handles.
    pub(crate) life: u64,
    pub(crate) operations: u64,
    pub(crate) faults: Faults,
    pub(crate) ignore_sync_data: bool,
    pub(crate) ignore_sync_directory: bool,
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) stalled: BTreeSet<OperationKind>,
    /// Threads that hang in an operation now.
    pub(crate) hanging: usize,
    pub(crate) open_files: BTreeMap<FileId, usize>,
    pub(crate) recording: Option<Recording>,
}

impl DiskState {
    pub(crate) fn new(medium: Medium, seed: u64) -> DiskState {
        DiskState {
            medium,
            generator: ChaCha8Rng::seed_from_u64(seed),
            life: 0,
            operations: 0,
            faults: Faults::default(),
            ignore_sync_data: false,
            ignore_sync_directory: false,
            capacity_bytes: None,
            stalled: BTreeSet::new(),
            hanging: 0,
            open_files: BTreeMap::new(),
            recording: None,
        }
    }

    pub(crate) fn check_life(&self, life: u64) -> io::Result<()> {
        if life == self.life { Ok(()) } else { Err(io::Error::other("this process ended: the disk has another life")) }
    }

    /// Carries out an operation's effect and writes it down.
    pub(crate) fn complete(&mut self, operation: Operation, effect: Option<Effect>, error: Option<&io::Error>) {
        if let Some(effect) = &effect {
            self.medium.apply(effect);
        }
        if let Some(recording) = &mut self.recording {
            recording.push(RecordedOperation { operation, error: error.map(ToString::to_string), effect });
        }
    }

    /// Ends the life of all processes; the page cache stays.
    pub(crate) fn kill(&mut self) {
        self.complete(Operation::Kill, None, None);
        self.end_life();
    }

    /// Cuts the power.
    pub(crate) fn crash(&mut self, policy: CrashPolicy) {
        let medium = match policy {
            CrashPolicy::SyncedOnly => self.medium.synced_only(),
            CrashPolicy::Everything => self.medium.written_back(),
            CrashPolicy::Random(torn) => {
                let outcome = self.medium.choose_outcome(torn, &mut RandomChooser::new(&mut self.generator));
                self.medium.after(&outcome)
            }
        };
        self.complete(Operation::PowerCut, Some(Effect::Replace(Box::new(medium))), None);
        self.stalled.clear();
        self.end_life();
    }

    fn end_life(&mut self) {
        self.life += 1;
        self.open_files.clear();
        self.medium.collect(&self.open_files);
    }

    /// Space in use, in whole pages; a hole counts as written.
    pub(crate) fn used_bytes(&self) -> u64 {
        let linked: BTreeSet<FileId> = self.medium.directory.cached().values().copied().collect();
        let in_use = linked.iter().chain(self.open_files.keys()).collect::<BTreeSet<_>>();
        in_use.into_iter().filter_map(|file| self.medium.files.get(file)).map(|file| blocks(file.length())).sum()
    }

    /// The greatest length that a file may grow to.
    pub(crate) fn length_limit(&self, file: FileId) -> u64 {
        let Some(capacity) = self.capacity_bytes else { return u64::MAX };
        let own = self.medium.files.get(&file).map_or(0, |file| blocks(file.length()));
        let free = capacity.saturating_sub(self.used_bytes());
        own + free / PAGE_BYTES * PAGE_BYTES
    }
}

fn blocks(length: u64) -> u64 {
    length.div_ceil(PAGE_BYTES) * PAGE_BYTES
}
