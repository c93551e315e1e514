//! Makes an executor of a snapshot file.

use super::error::SnapshotError;
use super::reader::SnapshotReader;
use crate::executor::KvExecutor;
use crate::memory_store::MemoryStore;
use crate::replicated_limits::ReplicatedLimits;
use crate::session::SessionTable;
use crate::store::{KeyValue, OrderedStore, StoreError};
use quorate_framework::vfs::VfsFile;
use quorate_framework::{BlockId, ClusterId, Position, SnapshotBase};

/// What a store is told beside the entries when it was filled.
#[derive(Debug)]
pub struct LoadedState<'a> {
    /// The position whose state it is.
    pub position: Position,
    /// The block that stands there.
    pub block: BlockId,
    /// The limits.
    pub limits: &'a ReplicatedLimits,
    /// The session table.
    pub sessions: &'a SessionTable,
}

/// Fills a fresh store from a snapshot.
pub trait StateLoader: Send {
    /// What comes of it.
    type Store: OrderedStore;

    /// Takes about `budget_bytes` of entries from the reader; gives whether that were all. May take all of them at once where stopping
    /// in between would cost much. Blocks.
    ///
    /// # Errors
    /// [`SnapshotError`]; what was filled is dropped.
    fn load(&mut self, reader: &mut SnapshotReader, budget_bytes: u64) -> Result<bool, SnapshotError>;

    /// The filled store, at the position of the state. Only called when the snapshot was checked to its end. Where the store is on disk,
    /// all of it is synced then. Blocks.
    ///
    /// # Errors
    /// [`StoreError`].
    fn finish(self, state: LoadedState<'_>) -> Result<Self::Store, StoreError>;
}

/// A store of which a fresh one can be made and filled while it is in use.
pub trait RestorableStore: OrderedStore + Sized {
    /// What fills the fresh one.
    type Loader: StateLoader<Store = Self>;

    /// Begins a fresh, empty store; `generation` names where, if it is on disk. What an earlier attempt left there is removed. Blocks.
    ///
    /// # Errors
    /// [`StoreError`].
    fn fresh(&self, generation: u64) -> Result<Self::Loader, StoreError>;
}

/// Fills a store in memory.
#[derive(Debug, Default)]
pub struct MemoryLoader {
    store: MemoryStore,
}

impl StateLoader for MemoryLoader {
    type Store = MemoryStore;

    fn load(&mut self, reader: &mut SnapshotReader, budget_bytes: u64) -> Result<bool, SnapshotError> {
        let until = reader.bytes_read().saturating_add(budget_bytes);
        while let Some((key, value)) = reader.next_entry()? {
            self.store.put(key, value)?;
            if reader.bytes_read() >= until && reader.is_between_sections() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn finish(mut self, state: LoadedState<'_>) -> Result<MemoryStore, StoreError> {
        self.store.commit(state.position)?;
        Ok(self.store)
    }
}

impl RestorableStore for MemoryStore {
    type Loader = MemoryLoader;

    fn fresh(&self, _generation: u64) -> Result<MemoryLoader, StoreError> {
        Ok(MemoryLoader::default())
    }
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// The position whose state was loaded.
    pub position: Position,
    /// What the protocol knows of it.
    pub base: SnapshotBase,
    /// Keys.
    pub entries: u64,
    /// Sessions.
    pub sessions: u64,
    /// Stored answers.
    pub answers: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// A snapshot being restored: a pump without a thread. Dropping it drops what was filled so far.
#[derive(Debug)]
pub struct Restore<L> {
    reader: SnapshotReader,
    sessions: SessionTable,
    loader: L,
}

impl<L: StateLoader> Restore<L> {
    /// Begins: header and sessions are read, and it is checked that this is the snapshot asked for. Blocks.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn begin(
        file: Box<dyn VfsFile>,
        cluster: ClusterId,
        base: &SnapshotBase,
        loader: L,
    ) -> Result<Restore<L>, SnapshotError> {
        let mut reader = SnapshotReader::open(file)?;
        reader.expect(cluster, base)?;
        let sessions = reader.sessions()?;
        Ok(Restore { reader, sessions, loader })
    }

    /// Restores about `budget_bytes` more; gives whether everything was read and checked, and [`Restore::finish`] may be called. Blocks.
    ///
    /// # Errors
    /// [`SnapshotError`]; nothing can be made of it any more.
    pub fn step(&mut self, budget_bytes: u64) -> Result<bool, SnapshotError> {
        self.loader.load(&mut self.reader, budget_bytes)
    }

    /// The executor at the snapshot's position, and what was restored; takes the steps that are missing. A store on disk is synced when it returns. Blocks.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn finish(mut self) -> Result<(KvExecutor<L::Store>, RestoreReport), SnapshotError> {
        while !self.step(u64::MAX)? {}
        let header = self.reader.header().clone();
        let end = *self.reader.end().expect("a loader ends when the reader does, which is after the end");
        let state = LoadedState {
            position: header.base.position,
            block: header.block,
            limits: &header.limits,
            sessions: &self.sessions,
        };
        let store = self.loader.finish(state)?;
        // The position is what the store says of itself, not what a name or header says.
        let position = store.applied();
        if position != header.base.position {
            let (wanted, executed) = (header.base.position, position);
            return Err(SnapshotError::NotAt { wanted, executed });
        }
        let report = RestoreReport {
            position,
            base: header.base,
            entries: end.entries,
            sessions: end.sessions,
            answers: end.answers,
            file_bytes: end.file_bytes,
        };
        Ok((KvExecutor::restore(store, self.sessions, header.limits, header.block), report))
    }
}
