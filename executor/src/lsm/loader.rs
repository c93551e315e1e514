//! Fills a fresh generation from a snapshot.

use super::generation::generation_path;
use super::keys;
use super::mark::Mark;
use super::open::{LsmOpenError, LsmOptions, create_tree, sync_names};
use super::store::LsmStore;
use crate::replicated_limits::ReplicatedLimits;
use crate::session::SessionStamps;
use crate::snapshot::{LoadedState, SYNC_EVERY_BYTES, SnapshotError, SnapshotReader, StateLoader, failed_file};
use crate::store::{OrderedStore, StoreError};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Records that do not come in the tree's order are written in batches of this size, in bytes.
const BATCH_BYTES: u64 = 1 << 20;

/// Where the tree has its tables, below the keyspace's directory. Each is a file whose name is a number, the newest the highest.
const TABLES_DIRECTORY: &str = "tables";

/// The table that is being written, or the last one that was.
fn newest_table(tables: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest = None;
    for entry in std::fs::read_dir(tables)? {
        newest = newest.max(entry?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
    }
    Ok(newest.map(|number| tables.join(number.to_string())))
}

/// Syncs the table that is being written. The tree syncs each at its end only, which is too much for the device at once.
fn sync_newest_table(tables: &Path) -> io::Result<()> {
    newest_table(tables)?.map_or(Ok(()), |table| File::open(table)?.sync_data())
}

/// A generation that is being filled. It has no mark before [`StateLoader::finish`]: given up half-way, it can never be opened.
#[derive(Debug)]
pub struct LsmLoader {
    store: LsmStore,
}

impl LsmLoader {
    /// Begins a generation; what lies in its directory is removed. Blocks.
    ///
    /// # Errors
    /// [`LsmOpenError`].
    pub fn create(
        data_directory: &Path,
        generation: u64,
        options: LsmOptions,
        limits: ReplicatedLimits,
    ) -> Result<LsmLoader, LsmOpenError> {
        match std::fs::remove_dir_all(generation_path(data_directory, generation)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let tree = create_tree(data_directory, generation, options, &limits)?;
        let mark = Mark::first(options.cluster, limits);
        Ok(LsmLoader { store: LsmStore::new(tree, mark, SessionStamps::starting_at(0)) })
    }

    fn write_full_batch(&mut self) -> Result<(), StoreError> {
        if self.store.pending.memory_bytes() < BATCH_BYTES { Ok(()) } else { self.store.write_batch(false) }
    }
}

impl StateLoader for LsmLoader {
    type Store = LsmStore;

    /// Takes all entries at once, since they are written into the tree's files in one go, past journal and memory tables.
    fn load(&mut self, reader: &mut SnapshotReader, _budget_bytes: u64) -> Result<bool, SnapshotError> {
        let keyspace = self.store.tree.keyspace.clone();
        let failed = |store: &LsmStore, error| SnapshotError::Store(store.failed(error));
        let mut ingestion = keyspace.start_ingestion().map_err(|error| failed(&self.store, error))?;
        let mut last_head = Vec::new();
        let tables = keyspace.path().join(TABLES_DIRECTORY);
        let mut unsynced = 0;
        while let Some((key, value)) = reader.next_entry()? {
            unsynced += (key.len() + value.len()) as u64;
            if unsynced >= SYNC_EVERY_BYTES {
                unsynced = 0;
                sync_newest_table(&tables).map_err(failed_file("syncing a table"))?;
            }
            let written = match keys::entry(key) {
                (physical, None) => ingestion.write(physical, value),
                (head, Some(rest)) => {
                    let is_new = head != last_head;
                    if is_new {
                        self.store.mark.next_long += 1;
                        last_head.clone_from(&head);
                    }
                    let number = self.store.mark.next_long - 1;
                    self.store.pending.set(keys::long(number, rest), Some(value.to_vec()));
                    self.write_full_batch()?;
                    if is_new { ingestion.write(head, number.to_le_bytes()) } else { Ok(()) }
                }
            };
            written.map_err(|error| failed(&self.store, error))?;
        }
        ingestion.finish().map_err(|error| failed(&self.store, error))?;
        Ok(true)
    }

    fn finish(mut self, state: LoadedState<'_>) -> Result<LsmStore, StoreError> {
        let mut written = Ok(());
        let LsmStore { stamps, .. } = &mut self.store;
        let mut stamps = std::mem::replace(stamps, SessionStamps::starting_at(0));
        stamps.write_all(state.sessions, |write| {
            LsmStore::join_session_write(&mut self.store.pending, write);
            if written.is_ok() {
                written = self.write_full_batch();
            }
        });
        written?;
        self.store.stamps = stamps;
        (self.store.mark.block, self.store.mark.limits) = (state.block, *state.limits);
        self.store.commit(state.position)?;
        self.store.persist()?;
        sync_names(self.store.directory()).map_err(|error| StoreError::Medium(error.to_string()))?;
        Ok(self.store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_table_is_the_one_with_the_highest_number() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(newest_table(directory.path()).unwrap(), None);
        for name in ["9", "12", "7", "99.tmp", "lock"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(newest_table(directory.path()).unwrap(), Some(directory.path().join("12")));
        assert!(sync_newest_table(&directory.path().join("nowhere")).is_err());
    }
}
