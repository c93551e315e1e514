//! The snapshots of a simulated replica: taken, served, fetched and installed with the shipped writer, file and reader, one step after the
//! other. The order of what becomes durable is the node's.

use crate::random::SimulatedRandom;
use quorate_executor::snapshot::MemoryLoader;
use quorate_executor::{
    KvExecutor, MemoryStore, MemoryView, Restore, SnapshotError, SnapshotFile, SnapshotName, SnapshotReader, SnapshotWriter,
};
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{ClusterId, Position, ReplicaId, ServedSnapshot, SnapshotBase, SnapshotId, Ticket, Time};
use quorate_node::driver::{SnapshotEvent, SnapshotTask};
use quorate_simulated_disk::SimulatedDisk;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// A source that says nothing for this long is given up.
const SOURCE_PATIENCE: Duration = Duration::from_secs(3);
/// Least time between two signs of a peer's progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// A complete snapshot, open for reading. Its file may have lost its name.
#[derive(Clone)]
struct Ready {
    snapshot: ServedSnapshot,
    file: Rc<dyn VfsFile>,
}

/// One that is being written.
struct Writing {
    base: SnapshotBase,
    writer: SnapshotWriter<MemoryView>,
    file: SnapshotFile,
    /// All bytes are written; what is missing is the sync and the name.
    is_complete: bool,
}

/// A state made of a fetched snapshot.
struct Loaded {
    executor: KvExecutor<MemoryStore>,
    base: SnapshotBase,
    ready: Ready,
}

/// One that is being fetched.
struct Fetch {
    from: ReplicaId,
    snapshot: ServedSnapshot,
    /// None once it was loaded.
    file: Option<SnapshotFile>,
    heard_at: Time,
    loaded: Option<Loaded>,
}

/// What the metadata name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The snapshot.
    pub base: SnapshotBase,
    /// The log up to here may go.
    pub released: Position,
}

/// What is to be named in the metadata, and the event that follows once it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameWanted {
    /// What to name.
    pub named: Named,
    /// The event.
    pub then: Option<SnapshotEvent>,
}

/// What a chunk that was asked for is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// Bytes at the offset.
    Chunk(Vec<u8>),
    /// The snapshot is not served to this peer (any more), or cannot be read.
    Gone,
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

/// The snapshots of one process.
pub struct Snapshots {
    cluster: ClusterId,
    durable: bool,
    vfs: SimulatedDisk,
    random: SimulatedRandom,
    named: Named,
    named_durably: Position,
    newest: Option<Ready>,
    writing: Option<Writing>,
    waiting: BTreeMap<ReplicaId, Position>,
    served: BTreeMap<ReplicaId, (Ready, Time)>,
    fetch: Option<Fetch>,
    naming: Vec<(Ticket, Option<SnapshotEvent>)>,
    wanted: Vec<NameWanted>,
    events: Vec<SnapshotEvent>,
    asked: bool,
}

impl Snapshots {
    /// The snapshots of a process that starts on a disk whose metadata name this one.
    #[must_use]
    pub fn new(
        cluster: ClusterId,
        durable: bool,
        vfs: SimulatedDisk,
        named: Option<SnapshotBase>,
        random: SimulatedRandom,
    ) -> Snapshots {
        let named_durably = named.as_ref().map_or(Position::ZERO, |base| base.position);
        let mut snapshots = Snapshots {
            cluster,
            durable,
            vfs,
            random,
            named_durably,
            newest: None,
            writing: None,
            waiting: BTreeMap::new(),
            served: BTreeMap::new(),
            fetch: None,
            naming: Vec::new(),
            wanted: Vec::new(),
            events: Vec::new(),
            asked: false,
            named: Named { base: named.clone().unwrap_or_default(), released: Position::ZERO },
        };
        snapshots.newest = named.and_then(|base| snapshots.open_ready(base.position).ok());
        snapshots
    }

    fn open_ready(&mut self, position: Position) -> std::io::Result<Ready> {
        let file = self.vfs.open(&SnapshotName::Complete(position).path())?;
        let snapshot =
            ServedSnapshot { id: SnapshotId(self.random.draw()), position, length_bytes: file.length()? };
        Ok(Ready { snapshot, file: Rc::from(file) })
    }

    /// Carries out a task of the protocol; whether a new fetch has begun.
    pub fn task(&mut self, now: Time, task: &SnapshotTask) -> bool {
        match *task {
            SnapshotTask::Offer { to, at_least } => {
                self.waiting.insert(to, at_least);
                self.offer_newest(now);
            }
            SnapshotTask::Withdraw(to) => {
                self.waiting.remove(&to);
                self.served.remove(&to);
                self.asked &= !self.waiting.is_empty();
            }
            SnapshotTask::Fetch { from, snapshot } => return self.begin_fetch(now, from, snapshot),
            SnapshotTask::Cancel => self.drop_fetch(),
            SnapshotTask::ForgetLog(through) if self.durable && through > self.named.released => {
                self.named.released = through;
                self.wanted.push(NameWanted { named: self.named.clone(), then: None });
            }
            SnapshotTask::ForgetLog(_) => {}
        }
        false
    }

    fn offer_newest(&mut self, now: Time) {
        let Some(ready) = self.newest.clone() else { return };
        let of_use = |at_least: &mut Position| *at_least <= ready.snapshot.position;
        for (to, _) in self.waiting.extract_if(.., |_, at_least| of_use(at_least)) {
            self.served.insert(to, (ready.clone(), now));
            self.events.push(SnapshotEvent::Ready { to, snapshot: ready.snapshot });
        }
        self.asked &= !self.waiting.is_empty();
    }

    /// Whether the protocol should be told that a snapshot is due because peers wait for one.
    pub fn asks_for_one(&mut self) -> bool {
        let asks = !self.waiting.is_empty() && !self.asked && self.writing.is_none() && self.naming.is_empty();
        self.asked |= asks;
        asks
    }

    /// The protocol has ordered none although peers wait: it is asked again.
    pub fn ask_again(&mut self) {
        self.asked = false;
    }

    /// Whether one is being taken, or made known.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.writing.is_some() || !self.naming.is_empty() || !self.wanted.is_empty()
    }

    /// Whether one is being written.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Whether all of one is written, and is to be made durable next.
    #[must_use]
    pub fn is_nearly_written(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| writing.is_complete)
    }

    /// Whether something is to be named in the metadata.
    #[must_use]
    pub fn wants_a_name(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Whether one is being fetched.
    #[must_use]
    pub fn is_fetching(&self) -> bool {
        self.fetch.as_ref().is_some_and(|fetch| fetch.loaded.is_none())
    }

    /// Whether one is served to somebody.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        !self.served.is_empty()
    }

    /// Begins to take a snapshot of the state as executed. Whether it has begun.
    ///
    /// # Errors
    /// If the state is not at the base's position.
    pub fn take(&mut self, executor: &mut KvExecutor<MemoryStore>, base: SnapshotBase) -> Result<bool, SnapshotError> {
        if self.is_busy() {
            return Ok(false);
        }
        let writer = executor.snapshot(self.cluster, base.clone())?;
        match SnapshotFile::create(&self.vfs, SnapshotName::Temporary(base.position)) {
            Ok(file) => self.writing = Some(Writing { base, writer, file, is_complete: false }),
            Err(_) => self.not_taken(),
        }
        Ok(self.writing.is_some())
    }

    /// Takes the next step of what is being written; whether there is another.
    pub fn write_step(&mut self, now: Time, executor: &KvExecutor<MemoryStore>) -> bool {
        let Some(mut writing) = self.writing.take() else { return false };
        if writing.is_complete {
            let base = writing.base.clone();
            match writing.file.finish(&self.vfs, base.position) {
                Ok(_) => self.taken(now, base),
                Err(_) => self.not_taken(),
            }
            return false;
        }
        let mut bytes = Vec::new();
        let stepped = writing.writer.step(executor.store(), 1, &mut bytes);
        let appended = stepped.and_then(|summary| writing.file.append(&bytes).map(|()| summary));
        match appended {
            Ok(summary) => {
                writing.is_complete = summary.is_some();
                self.writing = Some(writing);
                true
            }
            Err(_) => {
                self.not_taken();
                false
            }
        }
    }

    fn taken(&mut self, now: Time, base: SnapshotBase) {
        match self.open_ready(base.position) {
            Ok(ready) => self.newest = Some(ready),
            Err(_) => return self.not_taken(),
        }
        self.offer_newest(now);
        self.name(base, SnapshotEvent::Taken);
    }

    /// Peers that wait are told; the next checkpoint tries again.
    fn not_taken(&mut self) {
        for (to, _) in std::mem::take(&mut self.waiting) {
            self.events.push(SnapshotEvent::Unready(to));
        }
        self.asked = false;
    }

    fn name(&mut self, base: SnapshotBase, then: impl FnOnce(Position) -> SnapshotEvent) {
        let then = then(base.position);
        self.named.base = base;
        if self.durable {
            self.wanted.push(NameWanted { named: self.named.clone(), then: Some(then) });
        } else {
            self.named_durably = self.named.base.position;
            self.events.push(then);
            self.remove_useless_files();
        }
    }

    /// What is to be named in the metadata.
    pub fn take_wanted(&mut self) -> Vec<NameWanted> {
        std::mem::take(&mut self.wanted)
    }

    /// What was wanted is submitted with this ticket.
    pub fn submitted(&mut self, ticket: Ticket, then: Option<SnapshotEvent>) {
        self.naming.push((ticket, then));
    }

    /// Everything up to a ticket is durable.
    pub fn durable(&mut self, ticket: Ticket) {
        let mut named_another = false;
        for (_, then) in self.naming.extract_if(.., |(naming, _)| *naming <= ticket) {
            if let Some(SnapshotEvent::Taken(position) | SnapshotEvent::Installed(position)) = then {
                self.named_durably = position;
                named_another = true;
            }
            self.events.extend(then);
        }
        if named_another {
            self.remove_useless_files();
        }
    }

    /// What the protocol must hear.
    pub fn take_events(&mut self, events: &mut Vec<SnapshotEvent>) {
        events.append(&mut self.events);
    }

    /// Whether there is something for the protocol.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    fn remove_useless_files(&self) {
        let mut keep = Vec::new();
        if self.durable {
            keep.extend([self.named.base.position, self.named_durably].map(SnapshotName::Complete));
        }
        if let Some(writing) = &self.writing {
            keep.push(SnapshotName::Temporary(writing.base.position));
        }
        if let Some(fetch) = &self.fetch {
            keep.extend([SnapshotName::Fetched(fetch.snapshot.id), SnapshotName::Complete(fetch.snapshot.position)]);
        }
        // What stays all the same is removed by the next start.
        let _ = SnapshotName::remove_others(&self.vfs, &keep);
    }

    fn begin_fetch(&mut self, now: Time, from: ReplicaId, snapshot: ServedSnapshot) -> bool {
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

    fn drop_fetch(&mut self) {
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

    /// A peer asks for bytes.
    pub fn serve(&mut self, now: Time, peer: ReplicaId, id: SnapshotId, offset: u64, bytes: usize) -> Served {
        let Some((ready, told)) = self.served.get_mut(&peer).filter(|(ready, _)| ready.snapshot.id == id) else {
            return Served::Gone;
        };
        let left = ready.snapshot.length_bytes.saturating_sub(offset);
        let mut chunk = vec![0; bytes.min(left as usize)];
        if ready.file.read_exact_at(&mut chunk, offset).is_err() {
            self.served.remove(&peer);
            self.events.push(SnapshotEvent::Unready(peer));
            return Served::Gone;
        }
        if now.since(*told) >= PROGRESS_INTERVAL {
            *told = now;
            self.events.push(SnapshotEvent::Progress(peer));
        }
        Served::Chunk(chunk)
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
        let Some((snapshot, file)) =
            self.fetch.as_mut().and_then(|fetch| Some((fetch.snapshot, fetch.file.take()?)))
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
