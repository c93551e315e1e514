//! A simulated replica: the shipped driver, core and executor, with a simulated clock, disk and life.

use crate::disk::Disk;
use crate::plan::{CrashMode, Plan};
use crate::protocol::SimulatedProtocol;
use crate::random::SimulatedRandom;
use quorate_executor::{KvExecutor, MemoryStore, ReplicatedLimits};
use quorate_framework::{Forming, Incarnation, MemberClaim, ReplicaId, Time};
use quorate_node::driver::{Driver, DriverSettings, Durability, TurnInput, TurnOutput};
use std::time::Duration;

/// A replica's clock: monotonic, but fast or slow, and now and then it jumps ahead.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Speed, in parts per thousand of true time.
    rate: u64,
    /// How far it has jumped.
    jumped: Duration,
}

impl Clock {
    fn new(rate: u64) -> Clock {
        Clock { rate, jumped: Duration::ZERO }
    }

    /// What it shows at a true time.
    #[must_use]
    pub fn local(&self, now: Time) -> Time {
        Time(now.0 / 1_000 * self.rate) + self.jumped
    }

    /// The true time at which it shows at least `local`.
    #[must_use]
    pub fn when(&self, local: Time) -> Time {
        Time(((local - self.jumped).0 / self.rate + 1) * 1_000)
    }

    /// Jumps ahead.
    pub fn jump(&mut self, by: Duration) {
        self.jumped += by;
    }
}

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
    /// Bytes of the log it was started with: there are no checkpoints yet that would bound it.
    pub recovered_log_bytes: usize,
    /// Whether the disk syncs just now: what is written meanwhile waits for the next sync, all of it together.
    pub is_syncing: bool,
}

/// A replica, alive or not.
pub struct Process<P: SimulatedProtocol> {
    /// Its id.
    pub replica: ReplicaId,
    /// Counts its lives.
    pub life: u64,
    /// Its data.
    pub disk: Disk<P::Core>,
    /// Whether an incarnation of it took its data with it.
    pub has_lost_its_data: bool,
    /// Its clock.
    pub clock: Clock,
    /// Until when it stands still.
    pub paused_until: Option<Time>,
    /// Extra time of each sync, until when.
    pub slow_disk: Option<(Duration, Time)>,
    /// Its randomness.
    pub random: SimulatedRandom,
    /// The process, if it runs.
    pub running: Option<Running<P>>,
}

impl<P: SimulatedProtocol> Process<P> {
    /// A replica that has never run.
    #[must_use]
    pub fn new(replica: ReplicaId, rate: u64, mut random: SimulatedRandom) -> Process<P> {
        let disk = Disk::empty(Incarnation(random.draw()));
        Process {
            replica,
            life: 0,
            disk,
            has_lost_its_data: false,
            clock: Clock::new(rate),
            paused_until: None,
            slow_disk: None,
            random,
            running: None,
        }
    }

    /// Whether it stands still.
    #[must_use]
    pub fn is_paused(&self, now: Time) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// Starts the process with what its disk holds; with recovery off, as a new incarnation.
    pub fn start(&mut self, plan: &Plan) {
        self.life += 1;
        if plan.crash_mode == CrashMode::InMemory {
            self.disk = Disk::empty(Incarnation(self.random.draw()));
        }
        self.disk.start_counter += 1;
        let claim = MemberClaim {
            incarnation: self.disk.incarnation,
            formed_on: None,
            start_counter: self.disk.start_counter,
            start_nonce: self.random.draw(),
        };
        let seed = (1..=plan.replicas).map(ReplicaId).collect();
        let forming = Forming::new(self.replica, claim, seed, self.disk.vector.clone());
        let durability = match plan.crash_mode {
            CrashMode::Durable => Durability::External,
            CrashMode::InMemory => Durability::InMemory,
        };
        let settings = DriverSettings { validate: plan.validate, ..DriverSettings::new(durability) };
        let mut random = self.random.fork();
        let core = P::core(plan, self.replica);
        let driver = Driver::new(core, settings, forming, Box::new(move || random.draw()));
        self.running = Some(Running {
            driver: driver.with_recovered(self.disk.state.clone()),
            executor: KvExecutor::new(MemoryStore::new(), ReplicatedLimits::default()),
            input: TurnInput::new(),
            output: TurnOutput::new(),
            turn_at: None,
            recovered_log_bytes: P::recovered_log_bytes(&self.disk),
            is_syncing: false,
        });
    }
}
