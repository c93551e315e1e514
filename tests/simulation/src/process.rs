//! A simulated replica: the shipped driver, core, executor, log and recovery, with a simulated clock, disk and life.

use crate::clock::Clock;
use crate::model::{Contents, Model};
use crate::oracle::Violation;
use crate::plan::{About, CrashMode, CutSoon, Plan};
use crate::protocol::{ContentsOf, RecordOf, SimulatedProtocol};
use crate::random::SimulatedRandom;
use crate::rot::Rot;
use crate::snapshots::{Snapshots, restore};
use crate::wal::Wal;
use quorate_executor::{KvExecutor, MemoryStore, ReplicatedLimits, SnapshotName};
use quorate_framework::vfs::Vfs;
use quorate_framework::{
    ClusterId, Forming, Incarnation, MemberClaim, Position, RecoverySpec, ReplicaId, SnapshotBase, Time,
};
use quorate_node::driver::{Driver, DriverSettings, Durability, TurnInput, TurnOutput};
use quorate_recovery::{BootId, Identity, Metadata, RecoveryBase, RecoveryError, StartOptions, WalSettings, WalSync};
use quorate_simulated_disk::{CrashPolicy, Fault, SimulatedDisk, Trigger};
use std::time::Duration;

/// The simulated cluster.
pub const CLUSTER: ClusterId = ClusterId([7; 16]);

/// A process that runs.
pub struct Running<P: SimulatedProtocol> {
    /// The shipped driver with the shipped core.
    pub driver: Driver<P::Core>,
    /// The shipped executor.
    pub executor: KvExecutor<MemoryStore>,
    /// What came in since the last turn.
    pub input: TurnInput,
    /// Used again and again.
    pub output: TurnOutput<P::Core>,
    /// When the next turn is.
    pub turn_at: Option<Time>,
    /// Bytes of the log it was started with, which may lie above the bound of its memory.
    pub recovered_log_bytes: usize,
    /// The write-ahead log; none with recovery off.
    pub wal: Option<Wal<RecordOf<P>>>,
    /// The process's view of its disk: gone with the life of the disk.
    pub vfs: SimulatedDisk,
    /// Its snapshots.
    pub snapshots: Snapshots,
    /// Whether a step of a snapshot that is written is on the agenda.
    pub is_writing_snapshot: bool,
    /// Transactions executed since the last checkpoint became due.
    pub transactions: u64,
}

impl<P: SimulatedProtocol> Running<P> {
    /// Whether its disk has failed: it is about to end.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.wal.as_ref().is_some_and(|wal| wal.has_failed)
    }
}

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
    },
    /// It refused.
    Refused(String),
    /// The power was cut meanwhile.
    CutOff,
}

/// A replica, alive or not.
pub struct Process<P: SimulatedProtocol> {
    /// Its id.
    pub replica: ReplicaId,
    /// Counts its lives.
    pub life: u64,
    /// Its disk; with recovery off, for this life's snapshots only.
    pub disk: SimulatedDisk,
    /// What the disk must hold.
    pub model: Model<RecordOf<P>>,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// How often that was started.
    pub start_counter: u64,
    boot: BootId,
    /// Whether an incarnation of it took its data with it.
    pub has_lost_its_data: bool,
    /// What has rotted on its disk since the last start.
    pub rot: Option<Rot>,
    /// Its data cannot be started from any more: it stays away.
    pub is_ruined: bool,
    /// Faults are armed on its disk, or it is full: a start may be refused.
    pub disk_is_ill: bool,
    /// Power cuts that wait for a moment.
    pub cuts: Vec<CutSoon>,
    /// Its clock.
    pub clock: Clock,
    /// Until when it stands still.
    pub paused_until: Option<Time>,
    /// Extra time of each sync, until when.
    pub slow_disk: Option<(Duration, Time)>,
    /// Until when every operation of its disk hangs.
    pub disk_hangs_until: Option<Time>,
    /// Its randomness.
    pub random: SimulatedRandom,
    /// The process, if it runs.
    pub running: Option<Running<P>>,
}

impl<P: SimulatedProtocol> Process<P> {
    /// A replica that has never run; with recovery on, its data directory is made.
    ///
    /// # Errors
    /// A [`Violation`] if that fails.
    pub fn new(replica: ReplicaId, plan: &Plan, rate: u64, mut random: SimulatedRandom) -> Result<Process<P>, Violation> {
        let disk = SimulatedDisk::new(random.draw());
        let mut process = Process {
            replica,
            life: 0,
            disk,
            model: Model::default(),
            incarnation: Incarnation::default(),
            start_counter: 0,
            boot: BootId(*b"the first boot.."),
            has_lost_its_data: false,
            rot: None,
            is_ruined: false,
            disk_is_ill: false,
            cuts: Vec::new(),
            clock: Clock::new(rate),
            paused_until: None,
            slow_disk: None,
            disk_hangs_until: None,
            random,
            running: None,
        };
        if plan.crash_mode == CrashMode::Durable {
            process.init()?;
        }
        Ok(process)
    }

    /// Whose data its disk holds.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity { cluster: CLUSTER, replica: self.replica, protocol: P::NAME.to_owned() }
    }

    /// Makes its data directory.
    fn init(&mut self) -> Result<(), Violation> {
        let mut random = self.random.fork();
        let made = RecoveryBase::<RecordOf<P>>::init(&self.disk.mount(), &self.identity(), &mut move || random.draw());
        let metadata =
            made.map_err(|error| Violation::new("init", format!("replica {}: {error}", self.replica)))?;
        self.incarnation = metadata.incarnation;
        self.start_counter = 0;
        self.model = Model::default();
        Ok(())
    }

    /// Its data is gone, and made anew: another incarnation.
    ///
    /// # Errors
    /// A [`Violation`] if that fails.
    pub fn wipe(&mut self) -> Result<(), Violation> {
        self.cure();
        self.disk.wipe();
        self.has_lost_its_data = true;
        self.rot = None;
        self.init()
    }

    /// Ends the faults of its disk.
    pub fn cure(&mut self) {
        self.disk.disarm();
        self.disk.set_capacity(None);
        self.disk_is_ill = false;
        self.cuts.clear();
        self.slow_disk = None;
        self.disk_hangs_until = None;
    }

    /// The machine loses power: it is another boot, and the disk keeps what the policy says.
    pub fn lose_power(&mut self, policy: CrashPolicy) {
        self.disk.crash(policy);
        self.booted();
    }

    /// The machine has booted.
    pub fn booted(&mut self) {
        let (high, low) = (self.random.draw().to_le_bytes(), self.random.draw().to_le_bytes());
        self.boot = BootId([high, low].concat().try_into().unwrap_or_default());
        self.disk_hangs_until = None;
    }

    /// It is about to do something: the power cuts that wait for that are armed.
    pub fn arm(&mut self, about: About) {
        for cut in self.cuts.extract_if(.., |cut| cut.about == about) {
            self.disk.inject(Trigger::nth_of_all(cut.operation), Fault::PowerCut(cut.survivors.policy()));
            self.disk_is_ill = true;
        }
    }

    /// Whether it stands still.
    #[must_use]
    pub fn is_paused(&self, now: Time) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// When something that needs its disk can happen at the earliest.
    #[must_use]
    pub fn disk_works_at(&self, now: Time) -> Time {
        [self.paused_until, self.disk_hangs_until].into_iter().flatten().fold(now, Time::max)
    }

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
                let state = <RecordOf<P> as RecoverySpec>::State::default();
                let executor = KvExecutor::new(MemoryStore::new(), ReplicatedLimits::default());
                self.run(plan, Beginning { state, members: None, snapshot: None, executor, wal: None });
                Ok(Started::Runs { kept: 0, torn_bytes: 0, is_another: false })
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
        let torn_bytes = recovered.report.torn_bytes_cut;
        self.model.restarted(found);
        self.incarnation = metadata.incarnation;
        self.start_counter = metadata.start_counter;
        self.rot = None;
        self.run(
            plan,
            Beginning {
                state: recovered.state,
                members: metadata.members,
                snapshot: metadata.snapshot,
                executor,
                wal: Some(Wal::new(recovered.pump)),
            },
        );
        Ok(Started::Runs { kept, torn_bytes, is_another })
    }

    /// Compares what a start has found with what must be there.
    fn judge(
        &mut self,
        found: &ContentsOf<P>,
        metadata: &Metadata,
        is_another: bool,
    ) -> Result<Judgement, Violation> {
        if is_another {
            // It was never synced, and the power was cut: it says itself that it may have forgotten promises.
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
        let Beginning { state, members, snapshot, executor, wal } = beginning;
        let claim = MemberClaim {
            incarnation: self.incarnation,
            formed_on: None,
            start_counter: self.start_counter,
            start_nonce: self.random.draw(),
        };
        let seed = (1..=plan.replicas).map(ReplicaId).collect();
        let forming = Forming::new(self.replica, claim, seed, members);
        let (durability, is_durable) = match plan.crash_mode {
            CrashMode::Durable => (Durability::External, true),
            CrashMode::InMemory => (Durability::InMemory, false),
        };
        let settings =
            DriverSettings { validate: plan.validate, snapshots: true, ..DriverSettings::new(durability) };
        let mut random = self.random.fork();
        let driver = Driver::new(P::core(plan, self.replica), settings, forming, Box::new(move || random.draw()));
        let vfs = self.disk.mount();
        let snapshots = Snapshots::new(CLUSTER, is_durable, vfs.clone(), snapshot, self.random.fork());
        self.running = Some(Running {
            recovered_log_bytes: P::recovered_log_bytes(&state),
            driver: driver.with_recovered(state).with_executed(executor.executed()),
            executor,
            input: TurnInput::new(),
            output: TurnOutput::new(),
            turn_at: None,
            wal,
            vfs,
            snapshots,
            is_writing_snapshot: false,
            transactions: 0,
        });
    }
}

/// What a process begins with.
struct Beginning<P: SimulatedProtocol> {
    state: <RecordOf<P> as RecoverySpec>::State,
    members: Option<quorate_framework::MemberVector>,
    snapshot: Option<SnapshotBase>,
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

/// Whether a process's view of its disk is one of the disk's present life.
#[must_use]
pub fn is_alive(vfs: &SimulatedDisk) -> bool {
    vfs.list().is_ok()
}

/// The state of a store in memory at a start: the named snapshot, or nothing. Files of other snapshots are strays, and removed.
fn executor_of(vfs: &SimulatedDisk, named: Option<&SnapshotBase>) -> Result<KvExecutor<MemoryStore>, String> {
    let keep: Vec<SnapshotName> = named.map(|base| SnapshotName::Complete(base.position)).into_iter().collect();
    SnapshotName::remove_others(vfs, &keep).map_err(|error| error.to_string())?;
    let Some(base) = named.filter(|base| base.position > Position::ZERO) else {
        return Ok(KvExecutor::new(MemoryStore::new(), ReplicatedLimits::default()));
    };
    let file = vfs.open(&SnapshotName::Complete(base.position).path()).map_err(|error| error.to_string())?;
    restore(file, CLUSTER, base).map_err(|error| format!("the snapshot at {}: {error}", base.position))
}
