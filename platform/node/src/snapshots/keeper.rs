//! The coordinator at work: its effects carried out by threads.
//!
//! Everything that touches a file for longer than a moment is done by threads that come and go: one writes the snapshot that is taken,
//! the transfer service's reads and writes what moves between replicas, one checks and loads what was fetched. They tell the shell by
//! `reports`, which are taken up at the beginning of a turn.
//!
//! A snapshot that is served stays open, so its name can go as soon as the metadata name another one: the file lives as long as
//! somebody reads it.

use super::coordinator::{
    CheckpointKind, CheckpointSettings, Coordinator, NamingOrder, SnapshotEffect, SnapshotNote, SnapshotReport,
    TakeSteps, TurnStart,
};
use super::figures::SnapshotFigures;
use super::files::{SharedFile, open_complete, remove_others};
use super::loading::Loading;
use super::parts::{Directory, LoadState, RemoveGeneration, SnapshotParts};
use super::puller::{LateSink, Puller};
use super::reports::{Reports, Told};
use super::source::Served;
use super::writer::FileWriter;
use crate::driver::{SnapshotEvent, SnapshotTask};
use crate::state_machine::Keeping;
use quorate_communicator::transfer::{PullOrder, SnapshotSource};
use quorate_executor::snapshot::SnapshotName;
use quorate_framework::{
    Incarnation, MemberVector, Position, ReplicaId, ServedSnapshot, SnapshotBase, SnapshotId, Ticket, Time,
};
use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;

/// The snapshots of one replica. Nothing here blocks but for removing names of files.
pub struct Snapshots<E> {
    coordinator: Coordinator<E, SharedFile>,
    directory: Directory,
    puller: Box<dyn Puller>,
    load: LoadState<E>,
    remove_generation: RemoveGeneration,
    reports: Arc<Reports<E>>,
    served: Arc<Served<E>>,
    /// Dropping it cancels the pull.
    pull: Option<Box<dyn Any + Send>>,
    /// Dropping it gives the loading up.
    loading: Option<Loading>,
    /// Dropping it gives the file up.
    writer: Option<FileWriter>,
}

impl<E> fmt::Debug for Snapshots<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Snapshots").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl<E: Send + 'static> Snapshots<E> {
    /// The snapshots of a replica that starts. Looks for the file of the named one; blocks for that.
    #[must_use]
    pub fn new(parts: SnapshotParts<E>) -> Snapshots<E> {
        let kind = parts.kind();
        let SnapshotParts { directory, puller, load, wake, named, remove_generation, .. } = parts;
        let reports = Arc::new(Reports::new(wake));
        let newest = named.as_ref().and_then(|named| {
            let vfs = (directory.open)().ok()?;
            open_complete(&*vfs, named.base.position, SnapshotId(rand::random()))
        });
        Snapshots {
            coordinator: Coordinator::new(kind, named, newest),
            directory,
            puller,
            load,
            remove_generation,
            served: Arc::new(Served::new(Arc::clone(&reports))),
            reports,
            pull: None,
            loading: None,
            writer: None,
        }
    }

    /// From now on a checkpoint is due by these settings, too; without any only for peers.
    pub fn schedule(&mut self, settings: Option<CheckpointSettings>, now: Time) {
        self.coordinator.schedule(settings, now);
    }

    /// How the state machine must keep its state.
    #[must_use]
    pub fn keeping(&self) -> Keeping {
        match self.coordinator.kind() {
            CheckpointKind::Store => Keeping::OnDisk,
            CheckpointKind::Passing | CheckpointKind::File => Keeping::InSnapshots,
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
        self.coordinator.figures()
    }

    /// When a turn is wanted, because a checkpoint may be due then.
    #[must_use]
    pub fn next_look(&self) -> Option<Time> {
        self.coordinator.next_look()
    }

    /// So many more transactions were executed.
    pub fn executed(&mut self, transactions: u64) {
        self.coordinator.executed(transactions);
    }

    /// Takes what the threads have told and what has become durable, and puts what the protocol must hear into `events`.
    pub fn before_turn(&mut self, start: TurnStart, events: &mut Vec<SnapshotEvent>) {
        for told in self.reports.take() {
            if let Told::Report(report) = told {
                self.report(report);
            }
        }
        self.coordinator.before_turn(start, events);
        self.carry_out();
    }

    /// [`Coordinator::after_turn`]: gives the base of which the state machine is to hold a view, for peers that wait.
    #[must_use]
    pub fn after_turn(&mut self, has_ordered: bool, at_rest: Option<Position>) -> Option<SnapshotBase> {
        self.coordinator.after_turn(has_ordered, at_rest)
    }

    /// Carries out a task of the protocol. `incarnation_of` gives the bound incarnation of a peer.
    pub fn task(&mut self, task: &SnapshotTask, incarnation_of: impl Fn(ReplicaId) -> Option<Incarnation>) {
        self.coordinator.task(task, incarnation_of);
        self.carry_out();
    }

    /// The turn of an order for a checkpoint has come: what the state machine is to do for it.
    #[must_use]
    pub fn take(&self) -> TakeSteps {
        self.coordinator.take()
    }

    /// The state machine has begun to give a snapshot of this base.
    pub fn begun(&mut self, base: SnapshotBase) {
        self.coordinator.begun(base);
        self.carry_out();
    }

    /// Whether the next piece is wanted now.
    pub fn wants_piece(&mut self) -> bool {
        self.writer.as_mut().is_some_and(FileWriter::has_room)
    }

    /// The next piece.
    pub fn piece(&mut self, bytes: Vec<u8>, last: bool) {
        if let Some(writer) = &mut self.writer {
            writer.push(bytes, last);
        }
    }

    /// Whether the state machine need not keep its view any longer.
    #[must_use]
    pub fn is_done_with_view(&self) -> bool {
        self.writer.as_ref().is_none_or(FileWriter::is_complete)
    }

    /// The store holds the state at a base, durably.
    pub fn persisted(&mut self, base: SnapshotBase) {
        self.coordinator.persisted(base);
    }

    /// [`Coordinator::install`]: makes the fetched state machine the present one.
    ///
    /// # Errors
    /// In words, if what was ordered is not what is ready. The replica must then stop.
    pub fn install(&mut self, id: SnapshotId, base: &SnapshotBase, machine: &mut E) -> Result<(), String> {
        let installed = self.coordinator.install(id, base, machine);
        self.carry_out();
        installed
    }

    /// The next change of the metadata that is to be submitted, if any, with the ticket that it draws.
    pub fn submit_naming(&mut self, ticket: impl FnOnce() -> Ticket) -> Option<NamingOrder> {
        self.coordinator.submit_naming(ticket)
    }

    /// Whether there is something for the protocol or the metadata already.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.coordinator.has_news()
    }

    fn report(&mut self, report: SnapshotReport<E, SharedFile>) {
        if let SnapshotReport::Written { base, .. } = &report {
            self.writer.take_if(|writer| writer.base() == base);
        }
        self.coordinator.report(report);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.coordinator.next_effect() {
            match effect {
                SnapshotEffect::Write(base) => self.write(base),
                SnapshotEffect::StopWriting => self.writer = None,
                SnapshotEffect::Serve { to, ready } => self.served.serve(to, ready),
                SnapshotEffect::Withdraw(from) => self.served.withdraw(from),
                SnapshotEffect::Pull { from, incarnation, snapshot } => self.pull(from, incarnation, snapshot),
                SnapshotEffect::StopPulling => self.pull = None,
                SnapshotEffect::Load { snapshot, store_generation } => self.load(snapshot, store_generation),
                SnapshotEffect::StopLoading => self.loading = None,
                SnapshotEffect::RemoveFilesBut(keep) => self.remove_files_but(&keep),
                SnapshotEffect::Discard { machine, store_generation } => self.discard(machine, store_generation),
                SnapshotEffect::Note(note) => log(note),
            }
        }
    }

    fn write(&mut self, base: SnapshotBase) {
        match FileWriter::start(&self.directory, base.clone(), Arc::clone(&self.reports)) {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => {
                let outcome = Err(format!("no thread to write it: {error}"));
                self.coordinator.report(SnapshotReport::Written { base, outcome });
            }
        }
    }

    fn pull(&mut self, from: ReplicaId, incarnation: Incarnation, snapshot: ServedSnapshot) {
        let order = PullOrder { from, incarnation, snapshot, written: 0 };
        let (id, told) = (snapshot.id, Arc::clone(&self.reports));
        let sink = LateSink::new(Arc::clone(&self.directory.open), SnapshotName::Fetched(id));
        let on_end = Box::new(move |end: quorate_communicator::transfer::PullEnd| {
            told.report(SnapshotReport::Pulled { id, outcome: end.result.map_err(|error| error.to_string()) });
        });
        self.pull = Some(self.puller.pull(order, Box::new(sink), on_end));
    }

    fn load(&mut self, snapshot: ServedSnapshot, store_generation: u64) {
        self.pull = None;
        let (open, load) = (Arc::clone(&self.directory.open), Arc::clone(&self.load));
        let (remove, reports) = (Arc::clone(&self.remove_generation), Arc::clone(&self.reports));
        match Loading::start(snapshot, store_generation, open, load, remove, reports) {
            Ok(loading) => self.loading = Some(loading),
            Err(error) => {
                let outcome = Err(format!("no thread to load it: {error}"));
                self.coordinator.report(SnapshotReport::Loaded { id: snapshot.id, outcome });
            }
        }
    }

    /// Here and now, since whatever is begun later may make files of the same names; what is removed is kept open meanwhile, so that the
    /// room it took is freed on another thread.
    fn remove_files_but(&self, keep: &[SnapshotName]) {
        match (self.directory.open)().and_then(|vfs| remove_others(&*vfs, keep)) {
            Ok(open) if open.is_empty() => {}
            Ok(open) => {
                // Without a thread they are closed here.
                let _ = thread::Builder::new().name("snapshot-remover".to_owned()).spawn(move || drop(open));
            }
            Err(error) => tracing::warn!("old snapshots are left for the next start: {error}"),
        }
    }

    /// On a thread of its own: closing a store may take its time.
    fn discard(&self, machine: E, store_generation: u64) {
        let remove = Arc::clone(&self.remove_generation);
        let closing = move || {
            drop(machine);
            remove(store_generation);
        };
        // Without a thread the next start removes what stays.
        let _: io::Result<_> = thread::Builder::new().name("store-remover".to_owned()).spawn(closing);
    }
}

fn log(note: SnapshotNote) {
    match note {
        SnapshotNote::Taken(ServedSnapshot { position, length_bytes, .. }) => {
            tracing::info!(%position, bytes = length_bytes, "a snapshot was taken");
        }
        SnapshotNote::NotTaken { position, reason } => {
            tracing::error!(%position, "a snapshot could not be taken: {reason}");
        }
        SnapshotNote::Fetching { from, snapshot: ServedSnapshot { position, length_bytes, .. } } => {
            tracing::info!(%from, %position, bytes = length_bytes, "fetching a snapshot");
        }
        SnapshotNote::NotFetched { reason, .. } => tracing::warn!("a snapshot could not be fetched: {reason}"),
        SnapshotNote::Installed(summary) => tracing::info!("installed a snapshot: {summary}"),
    }
}
