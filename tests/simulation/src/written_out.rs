//! A store on disk, as far as a start sees it: the whole state at some moment at which a memory table was written out.
//!
//! The store itself is the one in memory. What such a store keeps is further than the last checkpoint, and it may be further than what the log
//! holds after a power cut, since execution does not wait for the log of its own replica.

use crate::process::CLUSTER;
use crate::snapshots::restore;
use quorate_executor::{KvExecutor, MemoryStore, SnapshotError, SnapshotFile, SnapshotName};
use quorate_framework::vfs::Vfs;
use quorate_framework::{Position, SnapshotBase};
use quorate_simulated_disk::SimulatedDisk;

/// A state that outlives its process, durably.
pub struct WrittenOut {
    /// The generation of the store that it is of.
    pub store_generation: u64,
    base: SnapshotBase,
    disk: SimulatedDisk,
}

impl WrittenOut {
    /// Writes the state out as it is.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn of(executor: &mut KvExecutor<MemoryStore>, store_generation: u64) -> Result<WrittenOut, SnapshotError> {
        let position = executor.executed();
        let base = SnapshotBase { position, ..SnapshotBase::default() };
        let mut writer = executor.snapshot(CLUSTER, base.clone())?;
        let mut bytes = Vec::new();
        while writer.step(executor.store(), usize::MAX, &mut bytes)?.is_none() {}
        // No fault is ever drawn on it.
        let disk = SimulatedDisk::new(0);
        let vfs = disk.mount();
        let mut file = SnapshotFile::create(&vfs, SnapshotName::Temporary(position))?;
        file.append(&bytes)?;
        file.finish(&vfs, position)?;
        Ok(WrittenOut { store_generation, base, disk })
    }

    /// The position of the state.
    #[must_use]
    pub fn position(&self) -> Position {
        self.base.position
    }

    /// The state.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn open(&self) -> Result<KvExecutor<MemoryStore>, SnapshotError> {
        let name = SnapshotName::Complete(self.base.position).path();
        let file = self.disk.mount().open(&name);
        restore(file.map_err(|source| SnapshotError::File { what: "opening the store", source })?, CLUSTER, &self.base)
    }
}
