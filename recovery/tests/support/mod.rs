//! A small protocol of its own, and a log of it on a simulated disk.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test file uses its part

pub mod history;

use bytes::Bytes;
use quorate_framework::{
    ClusterId, Decoder, Encoder, Position, RandomSource, RecordPlace, RecoverySpec, ReplayError, ReplicaId,
    SnapshotBase, Ticket, TicketSequence, WireError,
};
use quorate_recovery::{
    BootId, Identity, Metadata, Pump, Recovered, RecoveryBase, RecoveryError, ReplicatedSettings, StartOptions,
    StorageError, Submission, WalSettings, WalSync,
};
use quorate_simulated_disk::SimulatedDisk;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A record of the protocol of these tests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// A value at a position; positions rise by one.
    Put(Position, Bytes),
    /// Metadata.
    Vote(u64),
    /// Carried forward, the latest of each key.
    View(u64, u64),
}

/// What replaying builds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub base: Position,
    pub values: Vec<(Position, Bytes)>,
    pub vote: u64,
    pub views: BTreeMap<u64, u64>,
    /// Views as they were replayed, repetitions included.
    pub view_replays: u64,
}

impl RecoverySpec for Record {
    type State = State;

    fn place(&self) -> RecordPlace {
        if matches!(self, Record::Vote(_)) { RecordPlace::Metadata } else { RecordPlace::Log }
    }

    fn position(&self) -> Option<Position> {
        if let Record::Put(position, _) = self { Some(*position) } else { None }
    }

    fn carry_key(&self) -> Option<u64> {
        if let Record::View(key, _) = self { Some(*key) } else { None }
    }

    fn weight(&self) -> usize {
        match self {
            Record::Put(_, bytes) => 9 + bytes.len(),
            Record::Vote(_) => 9,
            Record::View(..) => 17,
        }
    }

    fn encode(self, encoder: &mut Encoder) {
        match &self {
            Record::Put(position, bytes) => {
                encoder.put_u8(1);
                encoder.put_u64(position.0);
                encoder.put_shared(bytes.clone());
            }
            Record::Vote(vote) => {
                encoder.put_u8(2);
                encoder.put_u64(*vote);
            }
            Record::View(key, view) => {
                encoder.put_u8(3);
                encoder.put_u64(*key);
                encoder.put_u64(*view);
            }
        }
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<Record, WireError> {
        let record = match decoder.u8("tag")? {
            1 => Record::Put(Position(decoder.u64("position")?), decoder.take_body()),
            2 => Record::Vote(decoder.u64("vote")?),
            3 => Record::View(decoder.u64("key")?, decoder.u64("view")?),
            value => return Err(WireError::Meaningless { what: "tag", value: u64::from(value) }),
        };
        decoder.finish("record")?;
        Ok(record)
    }

    fn start_from(snapshot: Option<&SnapshotBase>) -> Result<State, ReplayError> {
        let base = snapshot.map(|snapshot| snapshot.position).unwrap_or_default();
        Ok(State { base, ..State::default() })
    }

    fn replay(self, state: &mut State) -> Result<(), ReplayError> {
        match self {
            Record::Vote(vote) => state.vote = vote,
            Record::View(key, view) => {
                state.views.insert(key, view);
                state.view_replays += 1;
            }
            Record::Put(position, bytes) => {
                let last = state.values.last().map_or(state.base, |(position, _)| *position);
                if position > last.next() {
                    return Err(ReplayError(format!("position {position} after {last}")));
                }
                if position > last {
                    state.values.push((position, bytes));
                }
            }
        }
        Ok(())
    }
}

pub fn identity() -> Identity {
    let replicated_settings = ReplicatedSettings::from([("key_bytes".to_owned(), 64), ("window".to_owned(), 8)]);
    Identity { cluster: ClusterId([0xc1; 16]), replica: ReplicaId(3), protocol: "test".to_owned(), replicated_settings }
}

pub const BOOT: BootId = BootId([1; 16]);

/// Segments of 32 KiB: six groups of one block and a seal.
pub fn settings() -> WalSettings {
    WalSettings { segment_bytes: 32 << 10, ..WalSettings::default() }
}

/// Numbers that differ, as salts must.
pub fn random(seed: u64) -> Box<dyn RandomSource> {
    let mut state = seed;
    Box::new(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ (state >> 29)
    })
}

pub fn init(disk: &SimulatedDisk) -> Metadata {
    RecoveryBase::<Record>::init(disk, &identity(), &mut *random(1)).unwrap()
}

pub fn options(seed: u64, settings: WalSettings) -> StartOptions {
    StartOptions { identity: identity(), boot: BOOT, settings, random: random(seed) }
}

pub fn try_open(disk: &SimulatedDisk, seed: u64) -> Result<Recovered<Record>, RecoveryError> {
    RecoveryBase::open(Box::new(disk.mount()), options(seed, settings()))
}

pub fn open(disk: &SimulatedDisk, seed: u64) -> Recovered<Record> {
    try_open(disk, seed).unwrap()
}

/// A disk with a replica that never ran.
pub fn fresh(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    init(&disk);
    disk
}

/// A value that tells its position.
pub fn value(position: u64, bytes: usize) -> Bytes {
    let mut value = format!("value {position} ").into_bytes();
    value.resize(bytes.max(value.len()), b'.');
    Bytes::from(value)
}

pub fn put(position: u64, bytes: usize) -> Record {
    Record::Put(Position(position), value(position, bytes))
}

/// A pump with the tickets that a driver would give.
pub struct Writer {
    pub pump: Pump<Record>,
    pub tickets: TicketSequence,
}

impl Writer {
    pub fn new(pump: Pump<Record>) -> Writer {
        Writer { pump, tickets: TicketSequence::default() }
    }

    pub fn submit(&mut self, record: Record) -> Result<Ticket, StorageError> {
        let ticket = self.tickets.next_ticket();
        self.pump.submit(Submission::record(ticket, record))?;
        Ok(ticket)
    }

    /// Submits and makes durable, in a group of its own.
    pub fn persist(&mut self, record: Record) -> Result<Ticket, StorageError> {
        let ticket = self.submit(record)?;
        while self.pump.run_group()?.is_some() {}
        Ok(ticket)
    }

    pub fn persist_all(&mut self, records: impl IntoIterator<Item = Record>) {
        for record in records {
            self.persist(record).unwrap();
        }
    }
}

pub fn writer(disk: &SimulatedDisk, seed: u64) -> Writer {
    Writer::new(open(disk, seed).pump)
}

pub fn positions(state: &State) -> Vec<u64> {
    state.values.iter().map(|(position, _)| position.0).collect()
}

/// Names of the segment files that are part of the log or were, by what their first bytes say.
pub fn segments(disk: &SimulatedDisk, magic: &[u8]) -> Vec<String> {
    use quorate_framework::vfs::Vfs;
    let list = disk.list().unwrap().into_iter().map(|path| path.display().to_string());
    list.filter(|name| name.ends_with(".wal") && disk.contents(name).unwrap().starts_with(magic)).collect()
}

/// The disk of a log of `count` synced groups with one value each.
pub fn disk_with(count: u64, bytes: usize) -> SimulatedDisk {
    let disk = fresh(1);
    writer(&disk, 2).persist_all((1..=count).map(|position| put(position, bytes)));
    disk.crash(quorate_simulated_disk::CrashPolicy::SyncedOnly);
    disk
}

pub fn never() -> WalSettings {
    WalSettings { sync: WalSync::Never, ..settings() }
}

/// Every file of a disk with its bytes.
pub fn contents(disk: &SimulatedDisk) -> Vec<(PathBuf, Vec<u8>)> {
    use quorate_framework::vfs::Vfs;
    let read = |path: PathBuf| {
        let bytes = disk.contents(path.to_str().unwrap()).unwrap();
        (path, bytes)
    };
    disk.list().unwrap().into_iter().map(read).collect()
}
