//! Snapshots of a replica: which there are, who is served, what is being taken and fetched.
//!
//! Everything that touches a file is done by threads that come and go: one writes the snapshot that is taken, the transfer service's
//! reads and writes what moves between replicas, one checks and loads what was fetched. They tell the shell by `reports`, and the
//! shell asks with [`Snapshots::look`] what has come of it.
//!
//! A snapshot that is served stays open, so its name can go as soon as the metadata name another one: the file lives as long as
//! somebody reads it.

mod fetch;
mod reports;
mod scratch;
mod source;
mod writer;

#[cfg(test)]
mod tests;

pub use fetch::Puller;
pub use scratch::Scratch;

use crate::driver::{SnapshotEvent, SnapshotTask};
use crate::shell::storage::{NamedSnapshot, Wake};
use fetch::Fetch;
use quorate_communicator::transfer::SnapshotSource;
use quorate_executor::snapshot::SnapshotName;
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{
    Incarnation, MemberVector, Position, ReplicaId, ServedSnapshot, SnapshotBase, SnapshotId, Ticket,
};
use reports::{Loaded, Report, Reports};
use serde::Serialize;
use source::{ReadySnapshot, Served};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use writer::FileWriter;

/// Bytes of a snapshot that are made in one go between two groups of commands.
pub const PIECE_BYTES: usize = 128 << 10;

/// Opens the folder of the snapshots, on any thread.
pub type OpenDirectory = Arc<dyn Fn() -> io::Result<Box<dyn Vfs>> + Send + Sync>;

/// Opens a file, as often as it is wanted.
pub type OpenFile<'a> = &'a dyn Fn() -> io::Result<Box<dyn VfsFile>>;

/// Makes a state machine of a snapshot file, as a generation of the store; with the base that the file names and a line for the log.
/// Blocks.
pub type LoadState<E> = Arc<dyn Fn(OpenFile<'_>, u64) -> Result<(E, SnapshotBase, String), String> + Send + Sync>;

/// Removes a generation of a store. Blocks.
pub type RemoveGeneration = Arc<dyn Fn(u64) + Send + Sync>;

/// Where snapshots are kept.
#[derive(Clone)]
pub struct Directory {
    /// Opens the folder.
    pub open: OpenDirectory,
    /// Whether a snapshot that was taken here keeps its file: a start needs it. If not, it lives while it is served.
    pub keeps_files: bool,
}

impl fmt::Debug for Directory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Directory").field("keeps_files", &self.keeps_files).finish_non_exhaustive()
    }
}

/// What the snapshots of a replica are put together from.
pub struct SnapshotParts<E> {
    /// Where they are kept.
    pub directory: Directory,
    /// What moves them.
    pub puller: Box<dyn Puller>,
    /// What makes a state machine of one.
    pub load: LoadState<E>,
    /// Wakes the shell.
    pub wake: Wake,
    /// What the metadata name at the start, if anything.
    pub named: Option<NamedSnapshot>,
    /// Whether there are metadata; if not, nothing is named.
    pub durable: bool,
    /// Removes a generation of the store that is no longer live and not open any more. Blocks.
    pub remove_generation: RemoveGeneration,
}

impl<E> fmt::Debug for SnapshotParts<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SnapshotParts").field("named", &self.named).finish_non_exhaustive()
    }
}

/// Figures for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SnapshotFigures {
    /// Position of the newest snapshot; 0 if there is none.
    pub position: u64,
    /// Bytes of its file; 0 if it has none.
    pub bytes: u64,
    /// Snapshots taken since the process began.
    pub taken: u64,
    /// Snapshots that could not be taken.
    pub failed: u64,
    /// Snapshots fetched and installed.
    pub installed: u64,
    /// Peers that are served now.
    pub serving: u64,
    /// Whether one is being taken now.
    pub taking: bool,
    /// Position of the one that is being fetched; 0 if none is.
    pub fetching: u64,
}

/// A change of the metadata that is on its way.
#[derive(Debug)]
struct Naming {
    ticket: Ticket,
    /// The event that follows, unless only the log's part has changed.
    then: Option<SnapshotEvent>,
}

/// What is to be named in the metadata; the shell gives it a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameWanted {
    /// What to name.
    pub snapshot: NamedSnapshot,
    /// The event that follows once it is durable.
    pub then: Option<SnapshotEvent>,
}

/// The snapshots of one replica. Nothing here blocks.
pub struct Snapshots<E> {
    directory: Directory,
    puller: Box<dyn Puller>,
    load: LoadState<E>,
    durable: bool,
    remove_generation: RemoveGeneration,
    /// State machines whose place was taken, with their generations; let go once the metadata name the new one.
    retired: Vec<(E, u64)>,
    /// The last generation that was begun.
    last_generation: u64,
    /// The generation that was live before the last install.
    generation_before: u64,
    reports: Arc<Reports<E>>,
    served: Arc<Served<E>>,
    /// What the metadata name, or will name with the changes on their way.
    named: NamedSnapshot,
    /// Position of the one that the metadata name durably.
    named_durably: Position,
    /// The newest one with a file.
    newest: Option<ReadySnapshot>,
    /// The one being written.
    writing: Option<(SnapshotBase, FileWriter)>,
    /// Peers for whom one is to be made ready, and from where on it is of use.
    waiting: BTreeMap<ReplicaId, Position>,
    fetch: Option<Fetch<E>>,
    naming: Vec<Naming>,
    wanted: Vec<NameWanted>,
    events: Vec<SnapshotEvent>,
    /// The protocol was told that one is due, for peers that wait.
    asked: bool,
    figures: SnapshotFigures,
}

impl<E> fmt::Debug for Snapshots<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Snapshots")
            .field("named", &self.named)
            .field("waiting", &self.waiting)
            .field("fetch", &self.fetch)
            .finish_non_exhaustive()
    }
}

impl<E: Send + 'static> Snapshots<E> {
    /// The snapshots of a replica that starts. Looks for the file of the named one; blocks for that.
    #[must_use]
    pub fn new(parts: SnapshotParts<E>) -> Snapshots<E> {
        let SnapshotParts { directory, puller, load, wake, named, durable, remove_generation } = parts;
        let reports = Arc::new(Reports::new(wake));
        let newest = named.as_ref().and_then(|named| open_ready(&directory, named.base.position));
        Snapshots {
            served: Arc::new(Served::new(Arc::clone(&reports))),
            directory,
            puller,
            load,
            durable,
            remove_generation,
            retired: Vec::new(),
            generation_before: 0,
            last_generation: named.as_ref().map_or(0, |named| named.store_generation),
            reports,
            named_durably: named.as_ref().map_or(Position::ZERO, |named| named.base.position),
            named: named.unwrap_or_else(nothing),
            newest,
            writing: None,
            waiting: BTreeMap::new(),
            fetch: None,
            naming: Vec::new(),
            wanted: Vec::new(),
            events: Vec::new(),
            asked: false,
            figures: SnapshotFigures::default(),
        }
    }

    /// What peers pull from.
    #[must_use]
    pub fn source(&self) -> Arc<dyn SnapshotSource> {
        Arc::clone(&self.served) as Arc<dyn SnapshotSource>
    }

    /// From now on these incarnations may pull.
    pub fn set_members(&self, members: &MemberVector) {
        self.served.set_members(members);
    }

    /// Figures for operators.
    #[must_use]
    pub fn figures(&self) -> SnapshotFigures {
        SnapshotFigures {
            position: self.newest_position().0,
            bytes: self.newest.as_ref().map_or(0, |ready| ready.snapshot.length_bytes),
            serving: self.served.count() as u64,
            taking: self.writing.is_some(),
            fetching: self.fetch.as_ref().map_or(0, |fetch| fetch.position().0),
            ..self.figures
        }
    }

    fn newest_position(&self) -> Position {
        let with_file = self.newest.as_ref().map_or(Position::ZERO, |ready| ready.snapshot.position);
        with_file.max(self.named.base.position)
    }

    /// Carries out a task of the protocol. `incarnation_of` gives the bound incarnation of a peer.
    pub fn task(&mut self, task: SnapshotTask, incarnation_of: impl Fn(ReplicaId) -> Option<Incarnation>) {
        match task {
            SnapshotTask::Offer { to, at_least } => {
                self.waiting.insert(to, at_least);
                self.offer_newest();
            }
            SnapshotTask::Withdraw(to) => {
                self.waiting.remove(&to);
                self.served.withdraw(to);
                if self.waiting.is_empty() {
                    self.asked = false;
                }
            }
            SnapshotTask::Fetch { from, snapshot } => self.fetch(from, incarnation_of(from), snapshot),
            SnapshotTask::Cancel => self.drop_fetch(),
            SnapshotTask::ForgetLog(through) => self.forget_log(through),
        }
    }

    /// Serves the newest to those it is of use to.
    fn offer_newest(&mut self) {
        let Some(ready) = &self.newest else { return };
        let is_of_use = |at_least: Position| at_least <= ready.snapshot.position;
        let peers: Vec<ReplicaId> =
            self.waiting.iter().filter(|(_, at_least)| is_of_use(**at_least)).map(|(to, _)| *to).collect();
        for to in peers {
            self.waiting.remove(&to);
            self.served.serve(to, ready.clone());
            self.events.push(SnapshotEvent::Ready { to, snapshot: ready.snapshot });
        }
        if self.waiting.is_empty() {
            self.asked = false;
        }
    }

    fn fetch(&mut self, from: ReplicaId, incarnation: Option<Incarnation>, snapshot: ServedSnapshot) {
        if self.fetch.as_ref().is_some_and(|fetch| fetch.id() == snapshot.id) {
            return;
        }
        self.drop_fetch();
        let Some(incarnation) = incarnation else {
            self.events.push(SnapshotEvent::NotFetched(snapshot.id));
            return;
        };
        tracing::info!(%from, position = %snapshot.position, bytes = snapshot.length_bytes, "fetching a snapshot");
        let source = (from, incarnation);
        self.fetch = Some(Fetch::begin(&*self.puller, &self.directory, source, snapshot, &self.reports));
    }

    /// Lets go of what is being fetched. A store that was made of it is closed on a thread of its own.
    fn drop_fetch(&mut self) {
        let Some(fetch) = self.fetch.take() else { return };
        if let Some(loaded) = fetch.into_loaded() {
            let remove = Arc::clone(&self.remove_generation);
            let closing = move || {
                let generation = loaded.store_generation;
                drop(loaded);
                remove(generation);
            };
            // Without a thread the next start removes what stays.
            let _ = thread::Builder::new().name("store-remover".to_owned()).spawn(closing);
        }
        self.remove_useless_files();
    }

    fn forget_log(&mut self, through: Position) {
        if !self.durable || through <= self.named.released {
            return;
        }
        self.named.released = through;
        self.wanted.push(NameWanted { snapshot: self.named.clone(), then: None });
    }

    /// Whether the protocol should be told that a snapshot is due because peers wait for one. Once for each that comes of it.
    pub fn asks_for_one(&mut self) -> bool {
        let asks = !self.waiting.is_empty() && !self.asked && self.writing.is_none() && self.naming.is_empty();
        self.asked |= asks;
        asks
    }

    /// The protocol has ordered no snapshot although it was told that one is due: it is asked again when more was executed.
    pub fn ask_again(&mut self) {
        self.asked = false;
    }

    /// Whether a snapshot that is taken now needs a file although the store keeps the state: peers wait for it.
    #[must_use]
    pub fn is_wanted_by_peers(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether one is being taken, or made known.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.writing.is_some() || !self.naming.is_empty() || !self.wanted.is_empty()
    }

    /// What the state of the executor must be for a snapshot of what the metadata name.
    #[must_use]
    pub fn named_base(&self) -> Option<&SnapshotBase> {
        (self.named.base.position > Position::ZERO).then_some(&self.named.base)
    }

    /// Which generation of the store is live.
    #[must_use]
    pub fn store_generation(&self) -> u64 {
        self.named.store_generation
    }

    /// The state machine has begun to give a snapshot of this base.
    pub fn begun(&mut self, base: SnapshotBase) {
        match FileWriter::start(&self.directory, base.clone(), Arc::clone(&self.reports)) {
            Ok(writer) => self.writing = Some((base, writer)),
            Err(error) => self.not_taken(&base, &format!("no thread to write it: {error}")),
        }
    }

    /// Whether the next piece is wanted now.
    pub fn wants_piece(&mut self) -> bool {
        self.writing.as_mut().is_some_and(|(_, writer)| writer.has_room())
    }

    /// The next piece.
    pub fn piece(&mut self, bytes: Vec<u8>, last: bool) {
        if let Some((_, writer)) = &mut self.writing {
            writer.push(bytes, last);
        }
    }

    /// Whether the state machine need not keep its view any longer.
    #[must_use]
    pub fn is_done_with_view(&self) -> bool {
        self.writing.as_ref().is_none_or(|(_, writer)| writer.is_complete())
    }

    /// The store holds the state at a base, durably.
    pub fn persisted(&mut self, base: SnapshotBase) {
        self.figures.taken += 1;
        self.name(base, self.named.store_generation, SnapshotEvent::Taken);
    }

    /// The fetched state machine, to take the place of the present one. None if it is not the one that is ready.
    pub fn install(&mut self, id: SnapshotId, base: &SnapshotBase) -> Result<E, String> {
        let fetched = self.fetch.take_if(|fetch| fetch.id() == id).and_then(Fetch::into_loaded);
        let Some(Loaded { machine, base: found, ready, store_generation, summary, .. }) = fetched else {
            return Err(format!("the snapshot at {} was to be installed and is not loaded", base.position));
        };
        if found != *base {
            return Err(format!("the snapshot at {} is not the one that its source announced", base.position));
        }
        tracing::info!("installed a snapshot: {summary}");
        self.figures.installed += 1;
        if let Some((_, writer)) = self.writing.take() {
            // What is being taken is of the state before.
            drop(writer);
        }
        self.newest = Some(ready);
        self.generation_before = self.named.store_generation;
        self.name(found, store_generation, SnapshotEvent::Installed);
        Ok(machine)
    }

    fn name(&mut self, base: SnapshotBase, store_generation: u64, then: impl FnOnce(Position) -> SnapshotEvent) {
        let then = then(base.position);
        if !self.durable {
            self.named_durably = base.position;
            self.named = NamedSnapshot { base, store_generation, released: Position::ZERO };
            self.events.push(then);
            self.remove_useless_files();
            return;
        }
        self.named = NamedSnapshot { base, store_generation, released: self.named.released };
        self.wanted.push(NameWanted { snapshot: self.named.clone(), then: Some(then) });
    }

    /// The state machine whose place was taken by the one that [`Snapshots::install`] gave. It is let go once the metadata name the new
    /// one, on a thread of its own: closing a store may take its time.
    pub fn retire(&mut self, machine: E) {
        self.retired.push((machine, self.generation_before));
        if !self.durable {
            self.let_retired_go();
        }
    }

    fn let_retired_go(&mut self) {
        let retired = std::mem::take(&mut self.retired);
        if retired.is_empty() {
            return;
        }
        let remove = Arc::clone(&self.remove_generation);
        let closing = move || {
            for (machine, generation) in retired {
                drop(machine);
                remove(generation);
            }
        };
        // Without a thread the next start removes what stays.
        let _ = thread::Builder::new().name("store-remover".to_owned()).spawn(closing);
    }

    /// What is to be named in the metadata. The shell submits it and says with which ticket.
    pub fn take_wanted(&mut self) -> Vec<NameWanted> {
        std::mem::take(&mut self.wanted)
    }

    /// What was wanted is submitted with this ticket.
    pub fn submitted(&mut self, ticket: Ticket, then: Option<SnapshotEvent>) {
        self.naming.push(Naming { ticket, then });
    }

    /// Whether there is something for the protocol or the metadata already.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.events.is_empty() || !self.wanted.is_empty()
    }

    /// Takes what the threads have told, and puts what the protocol must hear into `events`. `durable` is the highest durable ticket.
    pub fn look(&mut self, durable: Ticket, events: &mut Vec<SnapshotEvent>) {
        for report in self.reports.take() {
            self.reported(report);
        }
        let mut named_another = false;
        for naming in self.naming.extract_if(.., |naming| naming.ticket <= durable) {
            if let Some(SnapshotEvent::Taken(position) | SnapshotEvent::Installed(position)) = naming.then {
                self.named_durably = position;
                named_another = true;
            }
            self.events.extend(naming.then);
        }
        if named_another {
            self.remove_useless_files();
            self.let_retired_go();
        }
        events.append(&mut self.events);
    }

    fn reported(&mut self, report: Report<E>) {
        match report {
            Report::Room => {}
            Report::Progress(peer) => self.events.push(SnapshotEvent::Progress(peer)),
            Report::Written { base, outcome } => self.written(base, outcome),
            Report::Pulled { id, end } => self.pulled(id, end),
            Report::Loaded { id, outcome } => {
                let Some(fetch) = self.fetch.as_mut().filter(|fetch| fetch.id() == id) else {
                    // It was given up meanwhile.
                    return self.remove_useless_files();
                };
                match outcome {
                    Ok(loaded) => {
                        fetch.loaded(loaded);
                        self.events.push(SnapshotEvent::Fetched(id));
                    }
                    Err(reason) => self.not_fetched(id, &reason),
                }
            }
        }
    }

    fn written(&mut self, base: SnapshotBase, outcome: Result<ReadySnapshot, String>) {
        if self.writing.as_ref().is_none_or(|(writing, _)| *writing != base) {
            // Another state has taken the place of the one it was of.
            return self.remove_useless_files();
        }
        self.writing = None;
        match outcome {
            Ok(ready) => {
                tracing::info!(position = %base.position, bytes = ready.snapshot.length_bytes, "a snapshot was taken");
                self.newest = Some(ready);
                self.offer_newest();
                if self.directory.keeps_files || !self.durable {
                    self.figures.taken += 1;
                    self.name(base, self.named.store_generation, SnapshotEvent::Taken);
                }
            }
            Err(reason) => self.not_taken(&base, &reason),
        }
    }

    /// A snapshot could not be taken: peers that wait are told, and the next checkpoint tries again.
    fn not_taken(&mut self, base: &SnapshotBase, reason: &str) {
        tracing::error!(position = %base.position, "a snapshot could not be taken: {reason}");
        self.figures.failed += 1;
        for (to, _) in std::mem::take(&mut self.waiting) {
            self.events.push(SnapshotEvent::Unready(to));
        }
        self.asked = false;
    }

    fn pulled(&mut self, id: SnapshotId, end: quorate_communicator::transfer::PullEnd) {
        // Never one that was begun before and may still be open.
        self.last_generation += 1;
        let generation = self.last_generation;
        let Some(fetch) = self.fetch.as_mut().filter(|fetch| fetch.id() == id) else {
            return self.remove_useless_files();
        };
        let begun = match end.result {
            Ok(()) => fetch
                .load(&self.directory, &self.load, generation, &self.reports)
                .map_err(|error| format!("no thread to load it: {error}")),
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = begun {
            self.not_fetched(id, &reason);
        }
    }

    fn not_fetched(&mut self, id: SnapshotId, reason: &str) {
        tracing::warn!("a snapshot could not be fetched: {reason}");
        self.drop_fetch();
        self.events.push(SnapshotEvent::NotFetched(id));
    }

    /// Removes the files that neither the metadata nor anything under way needs. Here and now, since whatever is begun later may make
    /// files of the same names; what is removed is kept open meanwhile, so that the room it took is freed on another thread.
    fn remove_useless_files(&self) {
        let mut keep = Vec::new();
        if self.directory.keeps_files {
            // Until the metadata name the new one they name the old one.
            keep.extend([self.named.base.position, self.named_durably].map(SnapshotName::Complete));
        }
        if let Some((base, _)) = &self.writing {
            keep.extend([SnapshotName::Temporary(base.position), SnapshotName::Complete(base.position)]);
        }
        keep.extend(self.fetch.iter().flat_map(Fetch::names));
        match remove_others(&self.directory, &keep) {
            Ok(open) if open.is_empty() => {}
            Ok(open) => {
                // Without a thread they are closed here.
                let _ = thread::Builder::new().name("snapshot-remover".to_owned()).spawn(move || drop(open));
            }
            Err(error) => tracing::warn!("old snapshots are left for the next start: {error}"),
        }
    }
}

/// Takes the names of all snapshot files but those to keep, and gives the files, which are still open.
fn remove_others(directory: &Directory, keep: &[SnapshotName]) -> io::Result<Vec<Box<dyn VfsFile>>> {
    let vfs = (directory.open)()?;
    let mut open = Vec::new();
    for path in vfs.list()? {
        if SnapshotName::of(&path).is_some_and(|name| !keep.contains(&name)) {
            open.extend(vfs.open(&path).ok());
            vfs.remove(&path)?;
        }
    }
    Ok(open)
}

fn nothing() -> NamedSnapshot {
    NamedSnapshot { base: SnapshotBase::default(), store_generation: 0, released: Position::ZERO }
}

/// The file of a snapshot, if it is there.
fn open_ready(directory: &Directory, position: Position) -> Option<ReadySnapshot> {
    let vfs = (directory.open)().ok()?;
    let file = vfs.open(&SnapshotName::Complete(position).path()).ok()?;
    let length = file.length().ok()?;
    Some(ReadySnapshot::new(position, length, file))
}
