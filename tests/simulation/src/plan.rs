//! What goes wrong, and when: drawn from the seed before the run, so that a shrinker can leave faults out.

use crate::random::SimulatedRandom;
use quorate_framework::ReplicaId;
use std::fmt;
use std::time::Duration;

/// Something that goes wrong, or right again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process dies: with recovery on it keeps exactly what was reported durable, and perhaps some records more.
    Crash(ReplicaId),
    /// A dead process is started again.
    Restart(ReplicaId),
    /// The process dies and its data with it: what comes back is another incarnation.
    Wipe(ReplicaId),
    /// The process stands still, as by SIGSTOP.
    Pause(ReplicaId, Duration),
    /// What the first says to the second vanishes.
    CutOneWay(ReplicaId, ReplicaId),
    /// What the two say to each other vanishes.
    CutPair(ReplicaId, ReplicaId),
    /// The replicas fall into these and the others, and nothing passes between them.
    Split(Vec<ReplicaId>),
    /// Everything passes again.
    Heal,
    /// Whoever leads at that moment crashes.
    CrashLeader,
    /// Whoever leads at that moment stands still.
    PauseLeader(Duration),
    /// Nothing passes to or from whoever leads at that moment, but for so many followers.
    IsolateLeader(u32),
    /// Both sides lose the connection.
    LoseConnection(ReplicaId, ReplicaId),
    /// Only the first side notices the loss; the other goes on speaking into the void.
    LoseConnectionOneSided(ReplicaId, ReplicaId),
    /// What the first says to the second takes this long, for a while.
    SlowLink(ReplicaId, ReplicaId, Duration),
    /// The replica's clock jumps ahead.
    ClockJump(ReplicaId, Duration),
    /// The replica's disk takes this long for each sync, for a while.
    SlowDisk(ReplicaId, Duration),
}

impl Fault {
    /// The name under which it is counted.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Crash(_) => "fault: crash",
            Fault::Restart(_) => "fault: restart",
            Fault::Wipe(_) => "fault: wipe",
            Fault::Pause(..) => "fault: pause",
            Fault::CutOneWay(..) => "fault: cut one way",
            Fault::CutPair(..) => "fault: cut pair",
            Fault::Split(_) => "fault: split",
            Fault::Heal => "fault: heal",
            Fault::CrashLeader => "fault: leader crashed",
            Fault::PauseLeader(_) => "fault: leader paused",
            Fault::IsolateLeader(_) => "fault: leader isolated",
            Fault::LoseConnection(..) => "fault: connection lost",
            Fault::LoseConnectionOneSided(..) => "fault: connection lost, one side",
            Fault::SlowLink(..) => "fault: slow link",
            Fault::ClockJump(..) => "fault: clock jump",
            Fault::SlowDisk(..) => "fault: slow disk",
        }
    }
}

/// Whether processes keep their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMode {
    /// Recovery is on: a crash keeps what was reported durable.
    Durable,
    /// Recovery is off: a restarted process is another incarnation.
    InMemory,
}

/// A whole run, drawn from a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Replicas.
    pub replicas: u32,
    /// Whether processes keep their data.
    pub crash_mode: CrashMode,
    /// How long faults go on; after it, everything heals.
    pub stormy_for: Duration,
    /// What goes wrong when, ascending.
    pub faults: Vec<(Duration, Fault)>,
    /// Messages that vanish, in a thousand.
    pub loss: u64,
    /// Messages that arrive twice, in a thousand.
    pub duplication: u64,
    /// Latency of a message.
    pub latency: (Duration, Duration),
    /// How fast each replica's clock runs, in parts per thousand of true time.
    pub clock_rates: Vec<u64>,
    /// Clients.
    pub clients: u32,
    /// Memory bound of the log, in bytes.
    pub log_memory_bytes: usize,
    /// Messages in flight to a follower.
    pub in_flight_messages: usize,
    /// Entries in one append.
    pub entries_per_append: usize,
    /// Whether each further attempt of a client waits twice as long as the one before; if not, clients repeat at a fixed interval.
    pub patient_clients: bool,
    /// Whether each core checks its own invariants after each event, too. Mutants run without: an oracle must catch them.
    pub validate: bool,
}

/// How bad a run is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weather {
    Quiet,
    Breezy,
    Stormy,
}

impl Plan {
    /// Draws the run of a seed. `steps` is the number of faults in the worst weather.
    #[must_use]
    pub fn draw(seed: u64, replicas: u32, steps: u32, crash_mode: CrashMode) -> Plan {
        let mut random = SimulatedRandom::new(seed ^ 0x9e37_79b9_7f4a_7c15);
        let weather = random.choose(&[Weather::Quiet, Weather::Breezy, Weather::Stormy, Weather::Stormy]);
        let weather = weather.unwrap_or(Weather::Stormy);
        let count = match weather {
            Weather::Quiet => 0,
            Weather::Breezy => random.between(1, u64::from(steps / 4).max(1)),
            Weather::Stormy => random.between(u64::from(steps / 4).max(1), u64::from(steps).max(1)),
        };
        let mean_gap = Duration::from_millis(random.between(10, 400));
        let lossy = weather == Weather::Stormy && random.chance(400);
        let slow_network = random.chance(200);
        let mut plan = Plan {
            seed,
            replicas,
            crash_mode,
            stormy_for: Duration::ZERO,
            faults: Vec::new(),
            loss: if lossy { random.between(1, 100) } else { 0 },
            duplication: if lossy { random.between(1, 50) } else { 0 },
            latency: match slow_network {
                true => (Duration::from_millis(1), Duration::from_millis(random.between(5, 60))),
                false => (Duration::from_micros(50), Duration::from_micros(random.between(100, 3_000))),
            },
            clock_rates: (0..replicas)
                .map(|_| if random.chance(300) { random.between(800, 1_250) } else { 1_000 })
                .collect(),
            clients: random.between(1, 4) as u32,
            log_memory_bytes: random.choose(&[1_000, 4_000, 20_000, 64 << 20]).unwrap_or(64 << 20),
            in_flight_messages: random.choose(&[1, 3, 128]).unwrap_or(128),
            entries_per_append: random.choose(&[1, 4, 1_280]).unwrap_or(1_280),
            patient_clients: true,
            validate: true,
        };
        let mut at = Duration::from_millis(random.between(0, 2_000));
        for _ in 0..count {
            let fault = plan.draw_fault(&mut random);
            plan.faults.push((at, fault));
            at += random.duration_between(Duration::from_millis(1), mean_gap * 2);
        }
        plan.stormy_for = at + Duration::from_millis(random.between(500, 3_000));
        plan
    }

    fn draw_fault(&self, random: &mut SimulatedRandom) -> Fault {
        let everyone: Vec<ReplicaId> = (1..=self.replicas).map(ReplicaId).collect();
        let one = random.choose(&everyone).unwrap_or_default();
        let others: Vec<ReplicaId> = everyone.iter().copied().filter(|other| *other != one).collect();
        let other = random.choose(&others).unwrap_or(one);
        let short = random.duration_between(Duration::from_millis(1), Duration::from_millis(3_000));
        match random.below(25) {
            0..=2 => Fault::Crash(one),
            3..=5 => Fault::Restart(one),
            6 if random.chance(300) => Fault::Wipe(one),
            6 | 7 => Fault::Pause(one, short),
            8 => Fault::CutOneWay(one, other),
            9 => Fault::CutPair(one, other),
            10 => {
                let side = everyone.iter().copied().filter(|_| random.chance(500)).collect();
                Fault::Split(side)
            }
            11 | 12 => Fault::Heal,
            13 => Fault::LoseConnection(one, other),
            14 => Fault::LoseConnectionOneSided(one, other),
            15 => Fault::SlowLink(one, other, short / 4),
            16 => Fault::ClockJump(one, short),
            17 | 18 => Fault::CrashLeader,
            19 => Fault::PauseLeader(short),
            20..=22 => Fault::IsolateLeader(random.below(2) as u32),
            23 => Fault::Heal,
            _ => Fault::SlowDisk(one, short / 4),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "seed {}: {} replicas, {:?}, {} clients, {} faults in {:?}, loss {}/1000, duplication {}/1000, latency {:?}, \
             log {} bytes, window {} messages of {} entries",
            self.seed,
            self.replicas,
            self.crash_mode,
            self.clients,
            self.faults.len(),
            self.stormy_for,
            self.loss,
            self.duplication,
            self.latency,
            self.log_memory_bytes,
            self.in_flight_messages,
            self.entries_per_append,
        )?;
        self.faults.iter().try_for_each(|(at, fault)| writeln!(formatter, "  {at:>12?} {fault:?}"))
    }
}
