//! What goes wrong, and when: drawn from the seed before the run, so that a shrinker can leave faults out.

use crate::fault::Fault;
use crate::random::SimulatedRandom;
use std::fmt;
use std::time::Duration;

/// Whether processes keep their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMode {
    /// Recovery is on: a crash keeps what was synced, and of the rest what the fault says.
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
    /// Further memory of the log while a follower is brought back by a snapshot, in bytes.
    pub log_held_bytes: usize,
    /// Entries that stay in the durable log before a snapshot.
    pub log_tail_entries: usize,
    /// Transactions after which a checkpoint is due; the largest number for never.
    pub checkpoint_transactions: u64,
    /// Whether the store keeps its state beside checkpoints, as one on disk does. Only with recovery on.
    pub keeps_store: bool,
    /// Bytes of a segment of the log.
    pub segment_bytes: u64,
    /// Records in a group of the log, at most.
    pub group_records: usize,
    /// Whether the log is synced (`wal_sync`).
    pub log_is_synced: bool,
    /// Bytes of a snapshot that travel at a time.
    pub chunk_bytes: usize,
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
            log_memory_bytes: random.choose(&[1_000, 1_000, 4_000, 20_000, 64 << 20]).unwrap_or(64 << 20),
            log_held_bytes: random.choose(&[1_000, 20_000, 256 << 20]).unwrap_or(256 << 20),
            log_tail_entries: random.choose(&[0, 10, 65_536]).unwrap_or(0),
            keeps_store: false,
            checkpoint_transactions: random.choose(&[10, 60, 300, u64::MAX]).unwrap_or(60),
            segment_bytes: random.choose(&[16 << 10, 64 << 10, 256 << 10]).unwrap_or(64 << 10),
            group_records: random.choose(&[1, 8, 4_096]).unwrap_or(8),
            log_is_synced: !random.chance(80),
            chunk_bytes: random.choose(&[60, 200, 1_000, 64 << 10]).unwrap_or(1_000),
            in_flight_messages: random.choose(&[1, 3, 128]).unwrap_or(128),
            entries_per_append: random.choose(&[1, 4, 1_280]).unwrap_or(1_280),
            patient_clients: true,
            validate: true,
        };
        let mut at = Duration::from_millis(random.between(0, 2_000));
        for _ in 0..count {
            let fault = Fault::draw(replicas, &mut random);
            plan.faults.push((at, fault));
            at += random.duration_between(Duration::from_millis(1), mean_gap * 2);
        }
        plan.stormy_for = at + Duration::from_millis(random.between(500, 3_000));
        plan
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "seed {}: {} replicas, {:?}, {} clients, {} faults in {:?}, loss {}/1000, duplication {}/1000, latency {:?}, \
             log {} bytes, window {} messages of {} entries, checkpoint after {}, tail {}, held {} bytes, segments of {}, groups of {}, \
             synced {}, chunks of {}, store kept {}",
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
            self.checkpoint_transactions,
            self.log_tail_entries,
            self.log_held_bytes,
            self.segment_bytes,
            self.group_records,
            self.log_is_synced,
            self.chunk_bytes,
            self.keeps_store,
        )?;
        self.faults.iter().try_for_each(|(at, fault)| writeln!(formatter, "  {at:>12?} {fault:?}"))
    }
}
