//! The start of a simulated process: through the shipped recovery, and judged by what must be there.

use super::{CLUSTER, Process, Running, is_alive};
use crate::model::Contents;
use crate::oracle::Violation;
use crate::plan::{CrashMode, Plan};
use crate::protocol::{ContentsOf, RecordOf, SimulatedProtocol, StateOf};
use crate::snapshots::{Snapshots, restore};
use crate::wal::Wal;
use crate::written_out::WrittenOut;
use quorate_executor::{KvExecutor, MemoryStore, ReplicatedLimits, SnapshotName};
use quorate_framework::vfs::Vfs;
use quorate_framework::{Forming, Incarnation, MemberClaim, MemberVector, Position, ReplicaId, SnapshotBase};
use quorate_node::driver::{Driver, DriverSettings, Durability, TurnInput, TurnOutput};
use quorate_node::shell::storage::NamedSnapshot;
use quorate_node::snapshots::coordinator::CheckpointKind;
use quorate_recovery::{Metadata, RecoveryBase, RecoveryError, StartOptions, WalSettings, WalSync};
use quorate_simulated_disk::SimulatedDisk;

/// How a start ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// It runs.
    Runs {
        /// Unreported records that had survived.
        kept: usize,
        /// Bytes of a torn tail that were cut.
        torn_bytes: u64,
        /// Whether it had to take a new incarnation.
        is_another: bool,
        /// Whether an install that was cut off had to be finished.
        finished_install: bool,
    },
    /// It refused.
    Refused(String),
    /// The power was cut meanwhile.
    CutOff,
}

impl<P: SimulatedProtocol> Process<P> {
    /// Starts the process with what its disk holds; with recovery off, as a new incarnation.
    ///
    /// # Errors
    /// A [`Violation`]: what was found is not what must be there, or a start was refused without a reason.
    pub fn start(&mut self, plan: &Plan) -> Result<Started, Violation> {
        self.life += 1;
        match plan.crash_mode {
            CrashMode::Durable => self.start_durable(plan),
            CrashMode::InMemory => {
                self.disk = SimulatedDisk::new(self.random.draw());
                self.incarnation = Incarnation(self.random.draw());
                self.start_counter = 1;
                let state = StateOf::<P>::default();
                let executor = KvExecutor::new(MemoryStore::new(), ReplicatedLimits::default());
                self.run(plan, Beginning { state, members: None, named: None, executor, wal: None });
                Ok(Started::Runs { kept: 0, torn_bytes: 0, is_another: false, finished_install: false })
            }
        }
    }

    fn start_durable(&mut self, plan: &Plan) -> Result<Started, Violation> {
        let mut random = self.random.fork();
        let options = StartOptions {
            identity: self.identity(),
            boot: self.boot,
            settings: wal_settings(plan),
            random: Box::new(move || random.draw()),
        };
        let vfs = self.disk.mount();
        let recovered = match RecoveryBase::<RecordOf<P>>::open(Box::new(vfs.clone()), options) {
            Ok(recovered) => recovered,
            Err(error) => return self.not_started(&vfs, &error),
        };
        let metadata = recovered.pump.metadata().clone();
        let is_another = recovered.report.incarnation_given_up.is_some();
        let found: ContentsOf<P> = Contents {
            state: recovered.state.clone(),
            members: metadata.members.clone(),
            snapshot: metadata.snapshot.clone(),
        };
        let kept = match self.judge(&found, &metadata, is_another)? {
            Judgement::Explained(kept) => kept,
            Judgement::RotTakenForATear => {
                drop(recovered);
                self.wipe()?;
                return Ok(Started::Refused("rot taken for a tear".to_owned()));
            }
        };
        let executor = match executor_of(&vfs, metadata.snapshot.as_ref()) {
            Ok(executor) => executor,
            Err(reason) => return self.refused(&vfs, reason),
        };
        let executor = self.further(executor, metadata.store_generation)?;
        let named = metadata.snapshot.map(|base| NamedSnapshot {
            base,
            store_generation: metadata.store_generation,
            released: Position::ZERO,
        });
        let torn_bytes = recovered.report.torn_bytes_cut;
        let finished_install = recovered.pump.counters().groups > 0;
        self.model.restarted(found);
        self.incarnation = metadata.incarnation;
        self.start_counter = metadata.start_counter;
        self.rot = None;
        self.run(
            plan,
            Beginning {
                state: recovered.state,
                members: metadata.members,
                named,
                executor,
                wal: Some(Wal::new(recovered.pump)),
            },
        );
        Ok(Started::Runs { kept, torn_bytes, is_another, finished_install })
    }

    /// What the store kept, if it is of the live generation and further than the named snapshot.
    fn further(
        &self,
        named: KvExecutor<MemoryStore>,
        store_generation: u64,
    ) -> Result<KvExecutor<MemoryStore>, Violation> {
        let is_live =
            |kept: &&WrittenOut| kept.store_generation == store_generation && kept.position() > named.executed();
        match self.written_out.as_ref().filter(is_live) {
            Some(kept) => kept.open().map_err(|error| self.violation(&error.to_string())),
            None => Ok(named),
        }
    }

    /// Compares what a start has found with what must be there.
    fn judge(&mut self, found: &ContentsOf<P>, metadata: &Metadata, is_another: bool) -> Result<Judgement, Violation> {
        // Also given up by a start that failed afterwards.
        let was_given_up = metadata.incarnation != self.incarnation && metadata.members.is_none();
        if is_another || was_given_up {
            // It was not synced while it ran, and the power was cut or a sync has failed: it says itself that it may have forgotten promises.
            self.has_lost_its_data = true;
            return match metadata.members {
                None => Ok(Judgement::Explained(0)),
                Some(_) => Err(self.violation("a given up incarnation kept its member vector")),
            };
        }
        if metadata.incarnation != self.incarnation || metadata.start_counter <= self.start_counter {
            return Err(self.violation(&format!(
                "start {} of incarnation {} follows start {} of {}",
                metadata.start_counter, metadata.incarnation, self.start_counter, self.incarnation
            )));
        }
        let explained = self
            .model
            .explain(found, P::is_same)
            .map_err(|error| Violation::new("records", format!("replica {}: {error}", self.replica)))?;
        match explained {
            Some(kept) => Ok(Judgement::Explained(kept)),
            None if self.rot.as_ref().is_some_and(|rot| rot.may_look_torn) => Ok(Judgement::RotTakenForATear),
            None => Err(self.violation(&format!(
                "the start found {}, and what was reported durable is {}",
                P::describe(found),
                P::describe(&self.model.durable)
            ))),
        }
    }

    fn violation(&self, what: &str) -> Violation {
        Violation::new("durability", format!("replica {} (life {}): {what}", self.replica, self.life))
    }

    fn not_started(&mut self, vfs: &SimulatedDisk, error: &RecoveryError) -> Result<Started, Violation> {
        self.refused(vfs, error.to_string())
    }

    fn refused(&mut self, vfs: &SimulatedDisk, reason: String) -> Result<Started, Violation> {
        if !is_alive(vfs) {
            self.booted();
            return Ok(Started::CutOff);
        }
        self.disk.kill();
        if self.rot.is_some() {
            self.is_ruined = true;
            return Ok(Started::Refused(reason));
        }
        if self.disk_is_ill {
            return Ok(Started::Refused(reason));
        }
        Err(Violation::new("refused start", format!("replica {}: {reason}", self.replica)))
    }

    fn run(&mut self, plan: &Plan, beginning: Beginning<P>) {
        let Beginning { state, members, named, executor, wal } = beginning;
        let claim = MemberClaim {
            incarnation: self.incarnation,
            formed_on: None,
            start_counter: self.start_counter,
            start_nonce: self.random.draw(),
        };
        let seed = (1..=plan.replicas).map(ReplicaId).collect();
        let forming = Forming::new(self.replica, claim, seed, members);
        let (durability, kind) = match plan.crash_mode {
            CrashMode::Durable => (Durability::External, CheckpointKind::File),
            CrashMode::InMemory => (Durability::InMemory, CheckpointKind::Passing),
        };
        let settings = DriverSettings { validate: plan.validate, snapshots: true, ..DriverSettings::new(durability) };
        let mut random = self.random.fork();
        let driver = Driver::new(P::core(plan, self.replica), settings, forming, Box::new(move || random.draw()));
        let vfs = self.disk.mount();
        let snapshots =
            Snapshots::new(CLUSTER, kind, vfs.clone(), named, plan.checkpoint_transactions, self.random.fork());
        self.running = Some(Running {
            recovered_log_bytes: P::recovered_log_bytes(&state),
            driver: driver.with_recovered(state).with_executed(executor.executed_at()),
            executor,
            input: TurnInput::new(),
            output: TurnOutput::new(),
            turn_at: None,
            wal,
            vfs,
            snapshots,
            is_writing_snapshot: false,
        });
    }
}

/// What a process begins with.
struct Beginning<P: SimulatedProtocol> {
    state: StateOf<P>,
    members: Option<MemberVector>,
    named: Option<NamedSnapshot>,
    executor: KvExecutor<MemoryStore>,
    wal: Option<Wal<RecordOf<P>>>,
}

enum Judgement {
    /// So many unreported records survived, and nothing else is amiss.
    Explained(usize),
    /// The last group rotted before another vouched for it: declined in docs/STORAGE-FORMAT.md, section 7.
    RotTakenForATear,
}

/// The settings of the log under a plan.
#[must_use]
pub fn wal_settings(plan: &Plan) -> WalSettings {
    WalSettings {
        sync: if plan.log_is_synced { WalSync::Always } else { WalSync::Never },
        segment_bytes: plan.segment_bytes,
        group_records: plan.group_records,
        free_segments: 2,
        ..WalSettings::default()
    }
}

/// The state of a store in memory at a start: the named snapshot, or nothing. Files of other snapshots are strays, and removed.
///
/// # Errors
/// Why there is none, in words.
pub fn executor_of(vfs: &SimulatedDisk, named: Option<&SnapshotBase>) -> Result<KvExecutor<MemoryStore>, String> {
    let keep: Vec<SnapshotName> = named.map(|base| SnapshotName::Complete(base.position)).into_iter().collect();
    SnapshotName::remove_others(vfs, &keep).map_err(|error| error.to_string())?;
    let Some(base) = named.filter(|base| base.position > Position::ZERO) else {
        return Ok(KvExecutor::new(MemoryStore::new(), ReplicatedLimits::default()));
    };
    let file = vfs.open(&SnapshotName::Complete(base.position).path()).map_err(|error| error.to_string())?;
    restore(file, CLUSTER, base).map_err(|error| format!("the snapshot at {}: {error}", base.position))
}
