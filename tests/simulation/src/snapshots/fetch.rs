//! The snapshot that is being fetched: pulled chunk by chunk, checked and loaded, and then waiting to be installed.

use super::{Ready, Served, Snapshots};
use quorate_executor::snapshot::MemoryLoader;
use quorate_executor::{KvExecutor, MemoryStore, Restore, SnapshotError, SnapshotFile, SnapshotName, SnapshotReader};
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{ClusterId, ReplicaId, ServedSnapshot, SnapshotBase, SnapshotId, Time};
use quorate_node::driver::SnapshotEvent;
use std::time::Duration;

/// A source that says nothing for this long is given up.
const SOURCE_PATIENCE: Duration = Duration::from_secs(3);
/// A state made of a fetched snapshot.
struct Loaded {
    executor: KvExecutor<MemoryStore>,
    base: SnapshotBase,
    ready: Ready,
}

/// One that is being fetched.
pub(super) struct Fetch {
    from: ReplicaId,
    snapshot: ServedSnapshot,
    /// None once it was loaded.
    file: Option<SnapshotFile>,
    heard_at: Time,
    loaded: Option<Loaded>,
}

/// What a fetch wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Bytes from this offset on.
    Chunk {
        /// From whom.
        from: ReplicaId,
        /// The offset.
        offset: u64,
    },
    /// To be checked and loaded.
    Load,
    /// Nothing.
    Nothing,
}

impl Fetch {
    /// The files that belong to it.
    pub(super) fn names(&self) -> [SnapshotName; 2] {
        [SnapshotName::Fetched(self.snapshot.id), SnapshotName::Complete(self.snapshot.position)]
    }
}

impl Snapshots {
    /// Whether one is being fetched.
    #[must_use]
    pub fn is_fetching(&self) -> bool {
        self.fetch.as_ref().is_some_and(|fetch| fetch.loaded.is_none())
    }

    pub(super) fn begin_fetch(&mut self, now: Time, from: ReplicaId, snapshot: ServedSnapshot) -> bool {
        if self.fetch.as_ref().is_some_and(|fetch| fetch.snapshot.id == snapshot.id) {
            return false;
        }
        self.drop_fetch();
        match SnapshotFile::create(&self.vfs, SnapshotName::Fetched(snapshot.id)) {
            Ok(file) => {
                self.fetch = Some(Fetch { from, snapshot, file: Some(file), heard_at: now, loaded: None });
                true
            }
            Err(_) => {
                self.events.push(SnapshotEvent::NotFetched(snapshot.id));
                false
            }
        }
    }

    pub(super) fn drop_fetch(&mut self) {
        if self.fetch.take().is_some() {
            self.remove_useless_files();
        }
    }

    fn not_fetched(&mut self, id: SnapshotId) {
        self.drop_fetch();
        self.events.push(SnapshotEvent::NotFetched(id));
    }

    /// The name of what is being fetched.
    #[must_use]
    pub fn fetched_id(&self) -> Option<SnapshotId> {
        self.fetch.as_ref().map(|fetch| fetch.snapshot.id)
    }

    /// What the fetch of this name wants. A source that was silent for too long is given up.
    pub fn wants(&mut self, now: Time, id: SnapshotId) -> Wants {
        let Some(fetch) = self.fetch.as_ref().filter(|fetch| fetch.snapshot.id == id) else { return Wants::Nothing };
        let Some(file) = &fetch.file else { return Wants::Nothing };
        if file.length() >= fetch.snapshot.length_bytes {
            return Wants::Load;
        }
        if now.since(fetch.heard_at) > SOURCE_PATIENCE {
            self.not_fetched(id);
            return Wants::Nothing;
        }
        Wants::Chunk { from: fetch.from, offset: file.length() }
    }

    /// An answer from the source. Whether it was of use.
    pub fn answered(&mut self, now: Time, id: SnapshotId, offset: u64, served: &Served) -> bool {
        let Some(fetch) = self.fetch.as_mut().filter(|fetch| fetch.snapshot.id == id) else { return false };
        let Some(file) = &mut fetch.file else { return false };
        match served {
            Served::Chunk(bytes) if file.length() == offset => {
                fetch.heard_at = now;
                let written = file.append(bytes);
                if written.is_err() {
                    self.not_fetched(id);
                }
                true
            }
            // Said twice, or late.
            Served::Chunk(_) => false,
            Served::Gone => {
                self.not_fetched(id);
                true
            }
        }
    }

    /// Checks and loads what was fetched, and makes its file durable under its name.
    pub fn load(&mut self, id: SnapshotId) {
        if self.fetch.as_ref().is_none_or(|fetch| fetch.snapshot.id != id || fetch.file.is_none()) {
            return;
        }
        let loaded = self.load_file();
        match (loaded, self.fetch.as_mut()) {
            (Ok(loaded), Some(fetch)) => {
                fetch.loaded = Some(loaded);
                self.events.push(SnapshotEvent::Fetched(id));
            }
            _ => self.not_fetched(id),
        }
    }

    /// What was loaded and is not installed.
    pub fn loaded(&mut self) -> Option<&mut KvExecutor<MemoryStore>> {
        Some(&mut self.fetch.as_mut()?.loaded.as_mut()?.executor)
    }

    fn load_file(&mut self) -> Result<Loaded, SnapshotError> {
        let failed = |source| SnapshotError::File { what: "opening what was fetched", source };
        let Some((snapshot, file)) = self.fetch.as_mut().and_then(|fetch| Some((fetch.snapshot, fetch.file.take()?)))
        else {
            return Err(SnapshotError::FailedBefore);
        };
        let path = SnapshotName::Fetched(snapshot.id).path();
        let base = SnapshotReader::open(self.vfs.open(&path).map_err(failed)?)?.header().base.clone();
        let executor = restore(self.vfs.open(&path).map_err(failed)?, self.cluster, &base)?;
        if base.position != snapshot.position {
            return Err(SnapshotError::Foreign { what: "position" });
        }
        file.finish(&self.vfs, base.position)?;
        let ready = self.open_ready(base.position).map_err(failed)?;
        Ok(Loaded { executor, base, ready })
    }

    /// The fetched state, to take the place of the present one.
    ///
    /// # Errors
    /// In words, if it is not the one that is ready.
    pub fn install(&mut self, id: SnapshotId, base: &SnapshotBase) -> Result<KvExecutor<MemoryStore>, String> {
        let fetched = self.fetch.take_if(|fetch| fetch.snapshot.id == id).and_then(|fetch| fetch.loaded);
        let Some(Loaded { executor, base: found, ready }) = fetched else {
            return Err(format!("the snapshot at {} was to be installed and is not loaded", base.position));
        };
        if found != *base {
            return Err(format!("the snapshot at {} is not the one that its source announced", base.position));
        }
        // What is being taken is of the state before.
        self.writing = None;
        self.newest = Some(ready);
        self.name(found, SnapshotEvent::Installed);
        Ok(executor)
    }
}

/// An executor made of a snapshot file.
///
/// # Errors
/// [`SnapshotError`].
pub fn restore(
    file: Box<dyn VfsFile>,
    cluster: ClusterId,
    base: &SnapshotBase,
) -> Result<KvExecutor<MemoryStore>, SnapshotError> {
    Ok(Restore::begin(file, cluster, base, MemoryLoader::default())?.finish()?.0)
}
