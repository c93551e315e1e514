//! The snapshots of a simulated replica: taken, served, fetched and installed with the shipped writer, file and reader, one step after the
//! other. The order of what becomes durable is the node's.

mod fetch;

pub use fetch::{Wants, restore};

use crate::random::SimulatedRandom;
use fetch::Fetch;
use quorate_executor::{
    KvExecutor, MemoryStore, MemoryView, SnapshotError, SnapshotFile, SnapshotName, SnapshotWriter,
};
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{ClusterId, Position, ReplicaId, ServedSnapshot, SnapshotBase, SnapshotId, Ticket, Time};
use quorate_node::driver::{SnapshotEvent, SnapshotTask};
use quorate_simulated_disk::SimulatedDisk;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

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
        let snapshot = ServedSnapshot { id: SnapshotId(self.random.draw()), position, length_bytes: file.length()? };
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
        self.waiting.retain(|to, at_least| {
            let is_of_use = *at_least <= ready.snapshot.position;
            if is_of_use {
                self.served.insert(*to, (ready.clone(), now));
                self.events.push(SnapshotEvent::Ready { to: *to, snapshot: ready.snapshot });
            }
            !is_of_use
        });
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

    /// Everything up to a ticket is durable; whether that makes an install count.
    pub fn durable(&mut self, ticket: Ticket) -> bool {
        let (mut named_another, mut installed) = (false, false);
        for (_, then) in self.naming.extract_if(.., |(naming, _)| *naming <= ticket) {
            if let Some(SnapshotEvent::Taken(position) | SnapshotEvent::Installed(position)) = then {
                self.named_durably = position;
                named_another = true;
                installed |= matches!(then, Some(SnapshotEvent::Installed(_)));
            }
            self.events.extend(then);
        }
        if named_another {
            self.remove_useless_files();
        }
        installed
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
            keep.extend(fetch.names());
        }
        // What stays all the same is removed by the next start.
        let _ = SnapshotName::remove_others(&self.vfs, &keep);
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
}
