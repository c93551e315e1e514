//! A simulated replica: the shipped driver, core, executor, log and recovery, with a simulated clock, disk and life.

mod start;

pub use start::{Started, executor_of, wal_settings};

use crate::clock::Clock;
use crate::fault::{About, CutSoon};
use crate::model::Model;
use crate::oracle::Violation;
use crate::plan::{CrashMode, Plan};
use crate::protocol::{RecordOf, SimulatedProtocol};
use crate::random::SimulatedRandom;
use crate::rot::Rot;
use crate::snapshots::Snapshots;
use crate::wal::Wal;
use crate::written_out::WrittenOut;
use quorate_executor::{KvExecutor, MemoryStore};
use quorate_framework::vfs::Vfs;
use quorate_framework::{ClusterId, Incarnation, ReplicaId, Time};
use quorate_node::driver::{Driver, TurnInput, TurnOutput};
use quorate_recovery::{BootId, Identity, RecoveryBase, ReplicatedSettings};
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
}

impl<P: SimulatedProtocol> Running<P> {
    /// Whether its disk has failed: it is about to end.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.wal.as_ref().is_some_and(|wal| wal.has_failed)
    }
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
    /// What its store keeps beyond the named snapshot, if it is one that does.
    pub written_out: Option<WrittenOut>,
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
    pub fn new(
        replica: ReplicaId,
        plan: &Plan,
        rate: u64,
        mut random: SimulatedRandom,
    ) -> Result<Process<P>, Violation> {
        let disk = SimulatedDisk::new(random.draw());
        let mut process = Process {
            replica,
            life: 0,
            disk,
            model: Model::default(),
            written_out: None,
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
        let (protocol, replicated_settings) = (P::NAME.to_owned(), ReplicatedSettings::new());
        Identity { cluster: CLUSTER, replica: self.replica, protocol, replicated_settings }
    }

    /// Makes its data directory.
    fn init(&mut self) -> Result<(), Violation> {
        let mut random = self.random.fork();
        let made = RecoveryBase::<RecordOf<P>>::init(&self.disk.mount(), &self.identity(), &mut move || random.draw());
        let metadata = made.map_err(|error| Violation::new("init", format!("replica {}: {error}", self.replica)))?;
        self.incarnation = metadata.incarnation;
        self.start_counter = 0;
        self.model = Model::default();
        self.written_out = None;
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
}

/// Whether a process's view of its disk is one of the disk's present life.
#[must_use]
pub fn is_alive(vfs: &SimulatedDisk) -> bool {
    vfs.list().is_ok()
}
