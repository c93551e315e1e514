//! The store itself: batches, reads, views.

use super::damage;
use super::figures::{LsmFigures, PersistFigures, microseconds};
use super::handles::{LsmPersister, LsmValue, LsmView};
use super::keys;
use super::loader::LsmLoader;
use super::mark::{MARK_BYTES, Mark};
use super::open::LsmOptions;
use super::pending::Pending;
use super::physical::{Found, Source};
use super::room::make_room;
use super::write_out::write_out;
use crate::session::{SessionStamps, SessionWrite};
use crate::snapshot::RestorableStore;
use crate::store::{ExecutorState, KeyValue, OrderedStore, PersistLater, StoreError};
use fjall::{AbstractTree, Database, Keyspace, UserValue};
use quorate_framework::Position;
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The tree of one generation.
pub(super) struct Tree {
    /// The generation's directory.
    pub(super) directory: PathBuf,
    pub(super) options: LsmOptions,
    pub(super) database: Database,
    pub(super) keyspace: Keyspace,
}

/// Keys and values on disk, in one generation's directory. Dropping it closes the files, which waits for the merge that is running.
pub struct LsmStore {
    pub(super) tree: Tree,
    pub(super) pending: Pending,
    pub(super) mark: Mark,
    pub(super) stamps: SessionStamps,
    figures: LsmFigures,
    persists: Arc<PersistFigures>,
}

impl fmt::Debug for LsmStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LsmStore { tree, mark, .. } = self;
        write!(formatter, "LsmStore {{ directory: {}, {mark:?} }}", tree.directory.display())
    }
}

impl LsmStore {
    pub(super) fn new(tree: Tree, mark: Mark, stamps: SessionStamps) -> LsmStore {
        let (figures, persists) = (LsmFigures::default(), Arc::default());
        LsmStore { tree, pending: Pending::default(), mark, stamps, figures, persists }
    }

    /// The generation's directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.tree.directory
    }

    /// What makes the state as it is now durable, on any thread.
    #[must_use]
    pub fn persister(&self) -> LsmPersister {
        LsmPersister {
            database: self.tree.database.clone(),
            keyspace: self.tree.keyspace.clone(),
            directory: self.tree.directory.clone(),
            position: self.mark.position,
            figures: Arc::clone(&self.persists),
        }
    }

    /// What the store did since it was opened, and its size now. Asks the file system.
    #[must_use]
    pub fn figures(&self) -> LsmFigures {
        let Tree { database, keyspace, .. } = &self.tree;
        LsmFigures {
            write_buffer_bytes: self.memory_table_bytes(),
            cache_bytes: database.cache_size(),
            disk_bytes: database.disk_space().unwrap_or_default(),
            journals: database.journal_count() as u64,
            tables: keyspace.table_count() as u64,
            persists: self.persists.count(),
            persist_us: self.persists.took_us(),
            merges: database.compactions_completed() as u64,
            merge_us: microseconds(database.time_compacting()),
            ..self.figures
        }
    }

    /// Memory tables, those among them that only views need, in bytes. The crate's own count does not know of those that a
    /// checkpoint wrote out.
    fn memory_table_bytes(&self) -> u64 {
        self.tree.keyspace.tree.version_memtable_size_sum()
    }

    /// Writes memory tables out and merges all files into one level. Blocks for long; for experiments and tests.
    ///
    /// # Errors
    /// [`StoreError::Medium`].
    pub fn merge_everything(&self) -> Result<(), StoreError> {
        write_out(&self.tree.database, &self.tree.keyspace).map_err(|error| self.failed(error))?;
        self.tree.keyspace.major_compact().map_err(|error| self.failed(error))
    }

    pub(super) fn failed(&self, error: fjall::Error) -> StoreError {
        damage::failed(&self.tree.directory, &error)
    }

    fn now(&self) -> Source<'_> {
        Source::Now { keyspace: &self.tree.keyspace, pending: &self.pending }
    }

    fn viewed<'s>(&'s self, view: &'s LsmView) -> Source<'s> {
        Source::View { keyspace: &self.tree.keyspace, snapshot: &view.0 }
    }

    /// Writes the open batch and, if it is to be there, the mark, at once.
    pub(super) fn write_batch(&mut self, with_mark: bool) -> Result<(), StoreError> {
        let began = Instant::now();
        let Tree { database, keyspace, .. } = &self.tree;
        make_room(database, keyspace).map_err(|error| self.failed(error))?;
        let mut batch = database.batch();
        let (mut writes, mut bytes) = (0, 0);
        for (key, value) in self.pending.take() {
            writes += 1;
            bytes += (key.len() + value.as_ref().map_or(0, Vec::len)) as u64;
            match value {
                Some(value) => batch.insert(keyspace, key, value),
                None => batch.remove(keyspace, key),
            }
        }
        if with_mark {
            writes += 1;
            bytes += (keys::MARK.len() + MARK_BYTES) as u64;
            batch.insert(keyspace, keys::MARK, self.mark.encode());
        }
        batch.commit().map_err(|error| self.failed(error))?;
        self.rotate_full_table()?;
        self.figures.committed(began, writes, bytes);
        Ok(())
    }

    /// Puts a full memory table aside, to be written out. The tree's own thread would do that only after the merge it is at, and the table
    /// would grow without bound meanwhile.
    fn rotate_full_table(&self) -> Result<(), StoreError> {
        let Tree { keyspace, options, .. } = &self.tree;
        if keyspace.tree.active_memtable().size() > options.memory_table_bytes {
            keyspace.rotate_memtable().map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    pub(super) fn write_mark(&mut self) -> Result<(), StoreError> {
        self.mark.next_stamp = self.stamps.next();
        self.write_batch(true)
    }

    /// Joins a change of the session table to the open batch.
    pub(super) fn join_session_write(pending: &mut Pending, write: SessionWrite<'_>) {
        match write {
            SessionWrite::Session { id, value } => pending.set(keys::session(id), Some(value.to_vec())),
            SessionWrite::RemoveSession { id } => pending.set(keys::session(id), None),
            SessionWrite::Answer { id, sequence, answer } => {
                let value = [&[answer.status as u8], &answer.body[..]].concat();
                pending.set(keys::answer(id, sequence), Some(value));
            }
            SessionWrite::RemoveAnswer { id, sequence } => pending.set(keys::answer(id, sequence), None),
        }
    }

    /// The number of the long keys that begin like this head; a new one if there is none.
    pub(super) fn long_number_or_new(&mut self, head: Vec<u8>) -> Result<u64, StoreError> {
        if let Some(number) = self.now().long_number(&head).map_err(|error| self.failed(error))? {
            return Ok(number);
        }
        let number = self.mark.next_long;
        self.mark.next_long += 1;
        self.pending.set(head, Some(number.to_le_bytes().to_vec()));
        Ok(number)
    }

    fn delete_long(&mut self, head: Vec<u8>, rest: &[u8]) -> Result<bool, StoreError> {
        let Some(number) = self.now().long_number(&head).map_err(|error| self.failed(error))? else {
            return Ok(false);
        };
        let physical = keys::long(number, rest);
        let present = self.now().get(&physical).map_err(|error| self.failed(error))?.is_some();
        if !present {
            return Ok(false);
        }
        self.pending.set(physical, None);
        let (from, to) = keys::all_long(number);
        let others = self.now().scan(from, to, &mut |_, _| ControlFlow::Break(()));
        if others.map_err(|error| self.failed(error))?.is_continue() {
            self.pending.set(head, None);
        }
        Ok(true)
    }
}

impl KeyValue for LsmStore {
    type Value<'a> = LsmValue<'a>;

    fn get(&self, key: &[u8]) -> Result<Option<LsmValue<'_>>, StoreError> {
        let found = self.now().entry(key).map_err(|error| self.failed(error))?;
        Ok(found.map(LsmValue::from))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let physical = match keys::entry(key) {
            (physical, None) => physical,
            (head, Some(rest)) => keys::long(self.long_number_or_new(head)?, rest),
        };
        self.pending.set(physical, Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, StoreError> {
        let (physical, rest) = keys::entry(key);
        if let Some(rest) = rest {
            return self.delete_long(physical, rest);
        }
        let present = self.now().get(&physical).map_err(|error| self.failed(error))?.is_some();
        if present {
            self.pending.set(physical, None);
        }
        Ok(present)
    }
}

impl Drop for LsmStore {
    /// A clean end leaves the next start nothing to do again. What cannot be written the log has.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            drop(write_out(&self.tree.database, &self.tree.keyspace));
        }
    }
}

impl OrderedStore for LsmStore {
    type View = LsmView;

    const KEEPS_EXECUTOR_STATE: bool = true;
    const COUNTS_KEYS: bool = false;

    fn keep_state(&mut self, state: ExecutorState<'_>) -> Result<(), StoreError> {
        let ExecutorState { block, limits, sessions, changes } = state;
        (self.mark.block, self.mark.limits) = (block, *limits);
        let pending = &mut self.pending;
        self.stamps.write_changes(sessions, changes, |write| LsmStore::join_session_write(pending, write));
        Ok(())
    }

    fn persist(&mut self) -> Result<Position, StoreError> {
        self.persister().persist()
    }

    fn persist_later(&self) -> PersistLater {
        let persister = self.persister();
        Box::new(move || persister.persist())
    }

    fn applied(&self) -> Position {
        self.mark.position
    }

    fn commit(&mut self, applied: Position) -> Result<(), StoreError> {
        if applied <= self.mark.position {
            return Err(StoreError::NotAhead { applied: self.mark.position, given: applied });
        }
        self.mark.position = applied;
        self.write_mark()
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let scanned = self.now().scan_entries(from, to, &mut visit);
        scanned.map(drop).map_err(|error| self.failed(error))
    }

    fn view(&mut self) -> Result<LsmView, StoreError> {
        if self.pending.is_empty() { Ok(LsmView(self.tree.database.snapshot())) } else { Err(StoreError::OpenBatch) }
    }

    fn view_get(&self, view: &LsmView, key: &[u8]) -> Result<Option<LsmValue<'_>>, StoreError> {
        let found = self.viewed(view).entry(key).map_err(|error| self.failed(error))?;
        Ok(found.map(|found| match found {
            Found::Stored(value) => LsmValue::Stored(value),
            Found::Pending(value) => LsmValue::Stored(UserValue::from(value)),
        }))
    }

    fn view_scan(
        &self,
        view: &LsmView,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let scanned = self.viewed(view).scan_entries(from, to, &mut visit);
        scanned.map(drop).map_err(|error| self.failed(error))
    }

    fn keys(&self) -> u64 {
        self.tree.keyspace.approximate_len() as u64
    }

    fn memory_bytes(&self) -> u64 {
        let database = &self.tree.database;
        self.memory_table_bytes() + database.cache_size() + self.pending.memory_bytes()
    }
}

impl RestorableStore for LsmStore {
    type Loader = LsmLoader;

    fn fresh(&self, generation: u64) -> Result<LsmLoader, StoreError> {
        let data_directory = self.tree.directory.parent().unwrap_or(Path::new("."));
        LsmLoader::create(data_directory, generation, self.tree.options, self.mark.limits)
            .map_err(|error| StoreError::Medium(error.to_string()))
    }
}
