//! The disk's handle: what a test or a simulator does to it. What a process does stands in [`crate::vfs`].

use crate::directory::{Directory, Names};
use crate::fault::{CrashPolicy, Fault, Trigger};
use crate::file::FileState;
use crate::medium::{Effect, Medium};
use crate::operation::{Operation, OperationKind};
use crate::page::SECTOR_BYTES;
use crate::recording::Recording;
use crate::state::{DiskState, Shared};
use parking_lot::{Condvar, Mutex};
use rand::Rng;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An in-memory directory. Clones are handles of the same disk; it implements [`quorate_framework::vfs::Vfs`].
///
/// The methods that name a file panic if there is none of that name: they are a test's own, and its mistake.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    pub(crate) shared: Arc<Shared>,
    /// The life a mounted handle belongs to; none for one that always belongs to the present life.
    pub(crate) life: Option<u64>,
}

impl SimulatedDisk {
    /// An empty disk. The seed decides everything that is random on it.
    #[must_use]
    pub fn new(seed: u64) -> SimulatedDisk {
        SimulatedDisk::with_medium(Medium::default(), seed)
    }

    pub(crate) fn with_medium(medium: Medium, seed: u64) -> SimulatedDisk {
        let shared = Shared { state: Mutex::new(DiskState::new(medium, seed)), changed: Condvar::new() };
        SimulatedDisk { shared: Arc::new(shared), life: None }
    }

    /// A handle for one process: it ends with the next kill or power cut, as its files do, so that a thread left over from before
    /// cannot touch what its successor reads. The disk's own handle goes on through all lives.
    #[must_use]
    pub fn mount(&self) -> SimulatedDisk {
        SimulatedDisk { shared: Arc::clone(&self.shared), life: Some(self.shared.state.lock().life) }
    }

    /// Another disk with the same contents and page cache, without faults, stalls, capacity or recording.
    #[must_use]
    pub fn copy(&self, seed: u64) -> SimulatedDisk {
        let mut medium = self.shared.state.lock().medium.clone();
        medium.collect(&std::collections::BTreeMap::new());
        SimulatedDisk::with_medium(medium, seed)
    }

    /// The process dies, the machine lives: what was written can be read, and is as little durable as before.
    pub fn kill(&self) {
        self.shared.state.lock().kill();
        self.shared.changed.notify_all();
    }

    /// The power is cut. What is left is durable; processes and stalls end; faults not yet struck stay armed.
    pub fn crash(&self, policy: CrashPolicy) {
        self.shared.state.lock().crash(policy);
        self.shared.changed.notify_all();
    }

    /// The disk is replaced by an empty one.
    pub fn wipe(&self) {
        let mut state = self.shared.state.lock();
        let empty = Medium { directory: Directory::of(Names::new()), ..Medium::default() };
        let kept = Medium { next_file: state.medium.next_file, sequence: state.medium.sequence, ..empty };
        state.complete(Operation::Tamper("wipe".to_owned()), Some(Effect::Replace(Box::new(kept))), None);
        state.crash(CrashPolicy::SyncedOnly);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Arms a fault. Of several that strike the same operation the one armed first counts.
    pub fn inject(&self, trigger: Trigger, fault: Fault) {
        self.shared.state.lock().faults.arm(trigger, fault);
    }

    /// Takes back all faults that have not struck, and those that repeat.
    pub fn disarm(&self) {
        self.shared.state.lock().faults.disarm();
    }

    /// The disk lies: syncs of files succeed and do nothing. For showing that a test would see a sync left out.
    pub fn ignore_sync_data(&self, ignore: bool) {
        self.shared.state.lock().ignore_sync_data = ignore;
    }

    /// The disk lies: syncs of the directory succeed and do nothing. For showing that a test would see one left out.
    pub fn ignore_sync_directory(&self, ignore: bool) {
        self.shared.state.lock().ignore_sync_directory = ignore;
    }

    /// Limits the space in bytes, counted in whole pages of every file's length; none lifts the limit.
    pub fn set_capacity(&self, capacity_bytes: Option<u64>) {
        self.shared.state.lock().capacity_bytes = capacity_bytes;
    }

    /// Space in use, in bytes.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.shared.state.lock().used_bytes()
    }

    /// Operations of these kinds hang from now on. A thread that calls one blocks; a simulator with a single thread asks
    /// [`SimulatedDisk::is_stalled`] first and does not call.
    pub fn stall(&self, kinds: &[OperationKind]) {
        self.shared.state.lock().stalled.extend(kinds);
    }

    /// Nothing hangs any more; what hung goes on. A sync covers what was written when it was called, not what came while it hung.
    pub fn resume(&self) {
        self.shared.state.lock().stalled.clear();
        self.shared.changed.notify_all();
    }

    /// Whether an operation of this kind would hang.
    #[must_use]
    pub fn is_stalled(&self, kind: OperationKind) -> bool {
        self.shared.state.lock().stalled.contains(&kind)
    }

    /// Blocks until so many operations hang at once; false if they do not within the limit.
    #[must_use]
    pub fn await_hanging(&self, operations: usize, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut state = self.shared.state.lock();
        while state.hanging < operations {
            if self.shared.changed.wait_until(&mut state, end).timed_out() {
                return state.hanging >= operations;
            }
        }
        true
    }

    /// Operations begun since the disk was made; a trigger on the n-th of all counts the same ones.
    #[must_use]
    pub fn operation_count(&self) -> u64 {
        self.shared.state.lock().operations
    }

    /// Begins a recording of all that happens from now on; an earlier one is thrown away.
    pub fn start_recording(&self) {
        let mut state = self.shared.state.lock();
        state.recording = Some(Recording::new(state.medium.clone()));
    }

    /// The recording so far; none if none was begun.
    #[must_use]
    pub fn recording(&self) -> Option<Recording> {
        self.shared.state.lock().recording.clone()
    }

    /// Ends the recording; none if none was begun.
    pub fn stop_recording(&self) -> Option<Recording> {
        self.shared.state.lock().recording.take()
    }

    /// Writes something into the recording that its order is compared with, such as an answer that left.
    pub fn mark(&self, text: impl Into<String>) {
        self.shared.state.lock().complete(Operation::Mark(text.into()), None, None);
    }

    /// What a process would read from a file; none without one.
    #[must_use]
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.shared.state.lock();
        state.medium.file_named(path.as_ref()).map(|(_, file)| file.cached_bytes())
    }

    /// What a power cut that takes everything unsynced would leave of a file; none if it would take the name.
    #[must_use]
    pub fn durable_contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.shared.state.lock();
        let file = state.medium.directory.durable().get(path.as_ref())?;
        state.medium.files.get(file).map(FileState::durable_bytes)
    }

    /// What a power cut could take or change now: files by name, then whether names too. Empty and false before anything that
    /// relies on the disk may be said. After a failed sync that marked pages clean it tells the truth, which the process cannot see.
    #[must_use]
    pub fn undurable(&self) -> (Vec<PathBuf>, bool) {
        self.shared.state.lock().medium.undurable()
    }

    /// Puts a file there, durable, with its name; over another if there is one.
    pub fn put_durably(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let mut state = self.shared.state.lock();
        let mut medium = state.medium.clone();
        let (mut names, file) = (medium.directory.durable().clone(), medium.next_file);
        assert!(
            medium.undurable() == (Vec::new(), false),
            "put_durably on a disk with unsynced changes: crash it first"
        );
        medium.next_file += 1;
        medium.files.insert(file, FileState::durable(bytes));
        names.insert(path.as_ref().to_owned(), file);
        medium.directory = Directory::of(names);
        let note = format!("put {} of {} bytes", path.as_ref().display(), bytes.len());
        state.complete(Operation::Tamper(note), Some(Effect::Replace(Box::new(medium))), None);
    }

    /// Flips one bit of a file on the medium. A process sees it unless the page has unsynced writes, which hide it.
    pub fn flip_bit(&self, path: impl AsRef<Path>, offset: u64, bit: u8) {
        self.tamper(path.as_ref(), &format!("flip bit {bit} of byte {offset}"), |file, length| {
            assert!(offset < length, "a flip at {offset} in a file of {length} bytes");
            Effect::FlipBit { file, offset, bit }
        });
    }

    /// Flips so many random bits of a file, by the disk's seed; where they lie, in bytes.
    pub fn rot(&self, path: impl AsRef<Path>, flips: usize) -> Vec<u64> {
        let mut places = Vec::new();
        for _ in 0..flips {
            let (place, bit) = {
                let mut state = self.shared.state.lock();
                let found = state.medium.file_named(path.as_ref()).map(|(_, file)| file.length());
                let Some(length @ 1..) = found else { panic!("no bytes to rot in {}", path.as_ref().display()) };
                (state.generator.next_u64() % length, (state.generator.next_u64() % 8) as u8)
            };
            self.flip_bit(path.as_ref(), place, bit);
            places.push(place);
        }
        places
    }

    /// Makes sectors of a file unreadable: reads that touch one of these bytes' sectors fail until it is written over whole.
    pub fn break_sectors(&self, path: impl AsRef<Path>, bytes: Range<u64>) {
        self.tamper(path.as_ref(), &format!("break bytes {bytes:?}"), |file, _| Effect::BreakSectors {
            file,
            first: bytes.start / SECTOR_BYTES,
            end: bytes.end.div_ceil(SECTOR_BYTES),
        });
    }

    fn tamper(&self, path: &Path, what: &str, effect: impl FnOnce(u64, u64) -> Effect) {
        let mut state = self.shared.state.lock();
        let found = state.medium.file_named(path).map(|(file, contents)| (file, contents.length()));
        let Some((file, length)) = found else { panic!("no file {} to tamper with", path.display()) };
        let effect = effect(file, length);
        state.complete(Operation::Tamper(format!("{what} of {}", path.display())), Some(effect), None);
    }
}
