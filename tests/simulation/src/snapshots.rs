//! The snapshots of a simulated replica: the node's coordinator decides, and its effects are carried out here in virtual time, with the
//! shipped writer, files and reader, one step after the other.

mod pull;

pub use pull::{ChunkWanted, Served};

use crate::random::SimulatedRandom;
use pull::Pull;
use quorate_executor::snapshot::MemoryLoader;
use quorate_executor::{
    KvExecutor, MemoryStore, MemoryView, Restore, SnapshotError, SnapshotFile, SnapshotName, SnapshotReader,
    SnapshotWriter,
};
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{
    ClusterId, Incarnation, Position, ReplicaId, ServedSnapshot, SnapshotBase, SnapshotId, Ticket, Time,
};
use quorate_node::driver::{SnapshotEvent, SnapshotTask};
use quorate_node::shell::storage::NamedSnapshot;
use quorate_node::snapshots::coordinator::{
    CheckpointKind, CheckpointSettings, Coordinator, NamingOrder, ReadySnapshot, SnapshotEffect, SnapshotReport,
    TurnStart,
};
use quorate_node::snapshots::files::{SharedFile, finish_file, load_fetched, open_complete, remove_others};
use quorate_node::snapshots::{LoadedState, OpenFile};
use quorate_simulated_disk::SimulatedDisk;
use std::collections::{BTreeMap, BTreeSet};

/// The state machine of a simulated replica.
type Machine = KvExecutor<MemoryStore>;

/// What a thread of the node would do some time later: the world puts it on its agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Look after the pull of a snapshot.
    Pull(SnapshotId),
    /// Check and load what was pulled.
    Load(SnapshotId),
}

/// One that is being written.
struct Writing {
    base: SnapshotBase,
    view: SnapshotWriter<MemoryView>,
    file: SnapshotFile,
    /// All bytes are written; what is missing is the sync and the name.
    is_complete: bool,
}

/// The snapshots of one process.
pub struct Snapshots {
    coordinator: Coordinator<Machine, SharedFile>,
    cluster: ClusterId,
    vfs: SimulatedDisk,
    random: SimulatedRandom,
    /// Everything up to here is durable, as far as the replica knows.
    durable: Ticket,
    /// What the executor holds for the file that is to be begun.
    view: Option<SnapshotWriter<MemoryView>>,
    writing: Option<Writing>,
    /// What is served to whom, and when a sign of the peer's progress was told last.
    served: BTreeMap<ReplicaId, (ReadySnapshot<SharedFile>, Time)>,
    pull: Option<Pull>,
    /// Pulls that were stopped and have not told their end.
    stopped_pulls: BTreeSet<SnapshotId>,
    /// What is to be loaded, and as which generation, also if nobody waits for it any more.
    loads: BTreeMap<SnapshotId, (ServedSnapshot, u64)>,
    errands: Vec<Errand>,
}

impl Snapshots {
    /// The snapshots of a process that starts on a disk whose metadata name this one. A checkpoint is due after so many transactions.
    #[must_use]
    pub fn new(
        cluster: ClusterId,
        kind: CheckpointKind,
        vfs: SimulatedDisk,
        named: Option<NamedSnapshot>,
        transactions: u64,
        mut random: SimulatedRandom,
    ) -> Snapshots {
        let newest =
            named.as_ref().and_then(|named| open_complete(&vfs, named.base.position, SnapshotId(random.draw())));
        let mut coordinator = Coordinator::new(kind, named, newest);
        let never = std::time::Duration::MAX;
        let settings = CheckpointSettings { interval: never, transactions, log_bytes: u64::MAX };
        coordinator.schedule(Some(settings), Time::ZERO);
        Snapshots {
            coordinator,
            cluster,
            vfs,
            random,
            durable: Ticket::RECOVERED,
            view: None,
            writing: None,
            served: BTreeMap::new(),
            pull: None,
            stopped_pulls: BTreeSet::new(),
            loads: BTreeMap::new(),
            errands: Vec::new(),
        }
    }

    /// What decides.
    #[must_use]
    pub fn coordinator(&self) -> &Coordinator<Machine, SharedFile> {
        &self.coordinator
    }

    /// The replica hears that everything up to a ticket is durable.
    pub fn reported(&mut self, ticket: Ticket) {
        self.durable = self.durable.max(ticket);
    }

    /// So many more transactions were executed.
    pub fn executed(&mut self, transactions: u64) {
        self.coordinator.executed(transactions);
    }

    /// [`Coordinator::before_turn`].
    pub fn before_turn(&mut self, now: Time, is_started: bool, events: &mut Vec<SnapshotEvent>) {
        let start = TurnStart { now, durable: self.durable, log_bytes: 0, is_started };
        self.coordinator.before_turn(start, events);
        self.carry_out(now);
    }

    /// [`Coordinator::after_turn`].
    pub fn after_turn(&mut self, has_ordered: bool, at_rest: Option<Position>) -> Option<SnapshotBase> {
        self.coordinator.after_turn(has_ordered, at_rest)
    }

    /// [`Coordinator::task`].
    pub fn task(&mut self, now: Time, task: &SnapshotTask, incarnation_of: impl Fn(ReplicaId) -> Option<Incarnation>) {
        self.coordinator.task(task, incarnation_of);
        self.carry_out(now);
    }

    /// [`Coordinator::submit_naming`].
    pub fn submit_naming(&mut self, ticket: impl FnOnce() -> Ticket) -> Option<NamingOrder> {
        self.coordinator.submit_naming(ticket)
    }

    /// What is to be done later.
    pub fn take_errands(&mut self) -> Vec<Errand> {
        std::mem::take(&mut self.errands)
    }

    /// Whether all of one is written, and is to be made durable next.
    #[must_use]
    pub fn is_nearly_written(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| writing.is_complete)
    }

    /// Whether one is served to somebody.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        !self.served.is_empty()
    }

    /// The generation of the store that the state is.
    #[must_use]
    pub fn store_generation(&self) -> u64 {
        self.coordinator.store_generation()
    }

    /// Begins a snapshot of the state as executed.
    ///
    /// # Errors
    /// If the state is not at the base's position.
    pub fn begin(&mut self, now: Time, executor: &mut Machine, base: SnapshotBase) -> Result<(), SnapshotError> {
        self.view = Some(executor.snapshot(self.cluster, base.clone())?);
        self.coordinator.begun(base);
        self.carry_out(now);
        Ok(())
    }

    /// Takes the next step of what is being written.
    pub fn write_step(&mut self, now: Time, executor: &Machine) {
        let Some(mut writing) = self.writing.take() else { return };
        if writing.is_complete {
            let Writing { base, file, .. } = writing;
            let id = SnapshotId(self.random.draw());
            let keeps_name = self.coordinator.kind() == CheckpointKind::File;
            let finished = finish_file(&self.vfs, file, base.position, id, keeps_name);
            return self.written(now, base, finished);
        }
        let mut bytes = Vec::new();
        let stepped = writing.view.step(executor.store(), 1, &mut bytes);
        let appended = stepped.and_then(|summary| writing.file.append(&bytes).map(|()| summary));
        match appended {
            Ok(summary) => {
                writing.is_complete = summary.is_some();
                self.writing = Some(writing);
            }
            Err(error) => self.written(now, writing.base, Err(error)),
        }
    }

    fn written(&mut self, now: Time, base: SnapshotBase, outcome: Result<ReadySnapshot<SharedFile>, SnapshotError>) {
        if outcome.is_err() {
            self.remove_unfinished(base.position);
        }
        let outcome = outcome.map_err(|error| error.to_string());
        self.report(now, SnapshotReport::Written { base, outcome });
    }

    fn remove_unfinished(&self, position: Position) {
        // What stays all the same is removed by the next start.
        let _ = self.vfs.remove(&SnapshotName::Temporary(position).path());
    }

    /// Checks and loads what was pulled, whether or not somebody still waits for it.
    pub fn load(&mut self, now: Time, id: SnapshotId) {
        let Some((snapshot, store_generation)) = self.loads.remove(&id) else { return };
        let (cluster, own_id) = (self.cluster, SnapshotId(self.random.draw()));
        let load = |open: OpenFile<'_>, _| load_executor(open, cluster).map_err(|error| error.to_string());
        let outcome = load_fetched(&self.vfs, snapshot, load, store_generation, own_id);
        self.report(now, SnapshotReport::Loaded { id, outcome });
    }

    /// What was loaded and is not installed.
    pub fn loaded(&mut self) -> Option<&mut Machine> {
        self.coordinator.loaded_machine()
    }

    /// [`Coordinator::install`].
    ///
    /// # Errors
    /// In words, if what was ordered is not what is ready.
    pub fn install(
        &mut self,
        now: Time,
        id: SnapshotId,
        base: &SnapshotBase,
        executor: &mut Machine,
    ) -> Result<(), String> {
        let installed = self.coordinator.install(id, base, executor);
        self.carry_out(now);
        installed
    }

    fn report(&mut self, now: Time, report: SnapshotReport<Machine, SharedFile>) {
        self.coordinator.report(report);
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: Time) {
        while let Some(effect) = self.coordinator.next_effect() {
            match effect {
                SnapshotEffect::Write(base) => self.write(base),
                SnapshotEffect::StopWriting => {
                    if let Some(Writing { base, .. }) = self.writing.take() {
                        self.remove_unfinished(base.position);
                    }
                }
                SnapshotEffect::Serve { to, ready } => {
                    self.served.insert(to, (ready, now));
                }
                SnapshotEffect::Withdraw(from) => {
                    self.served.remove(&from);
                }
                SnapshotEffect::Pull { from, snapshot, .. } => self.begin_pull(now, from, snapshot),
                SnapshotEffect::StopPulling => self.stop_pulling(),
                SnapshotEffect::Load { snapshot, store_generation } => {
                    self.loads.insert(snapshot.id, (snapshot, store_generation));
                    self.errands.push(Errand::Load(snapshot.id));
                }
                // A loading is one step here: it was not begun, and goes on whether or not somebody waits for it.
                SnapshotEffect::StopLoading => {}
                SnapshotEffect::RemoveFilesBut(keep) => {
                    // What stays all the same is removed by the next start.
                    let _ = remove_others(&self.vfs, &keep);
                }
                SnapshotEffect::Discard { machine, .. } => drop(machine),
                SnapshotEffect::Note(_) => {}
            }
        }
    }

    fn write(&mut self, base: SnapshotBase) {
        let Some(view) = self.view.take() else { return };
        match SnapshotFile::create(&self.vfs, SnapshotName::Temporary(base.position)) {
            Ok(file) => self.writing = Some(Writing { base, view, file, is_complete: false }),
            Err(error) => {
                let outcome = Err(error.to_string());
                self.coordinator.report(SnapshotReport::Written { base, outcome });
            }
        }
    }
}

/// An executor made of a snapshot file that was pulled.
fn load_executor(open: OpenFile<'_>, cluster: ClusterId) -> Result<LoadedState<Machine>, SnapshotError> {
    let file = || open().map_err(|source| SnapshotError::File { what: "opening a snapshot", source });
    let base = SnapshotReader::open(file()?)?.header().base.clone();
    Ok((restore(file()?, cluster, &base)?, base, String::new()))
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
