//! A run that does everything a log does, and what must be true of a disk at any moment of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use super::*;
use quorate_framework::MemberVector;
use quorate_recovery::{MetadataChange, WalItem};

/// What is submitted, in order; each with its ticket's number.
pub fn history() -> Vec<WalItem<Record>> {
    let members = MemberVector::from([(ReplicaId(3), quorate_framework::Incarnation(4))]);
    let snapshot = |position: u64| {
        WalItem::Metadata(MetadataChange::Snapshot {
            base: SnapshotBase { position: Position(position), ..SnapshotBase::default() },
            store_generation: position,
            released: Position(position),
        })
    };
    let record = WalItem::Record;
    vec![
        WalItem::Metadata(MetadataChange::Members(members)),
        record(Record::Vote(1)),
        record(put(1, 10)),
        record(put(2, 5000)),
        record(Record::View(1, 1)),
        record(put(3, 10)),
        record(Record::Vote(2)),
        record(put(4, 10)),
        record(put(5, 10)),
        snapshot(3),
        record(Record::View(2, 5)),
        record(put(6, 10)),
        record(put(7, 4500)),
        record(put(8, 10)),
        record(Record::View(1, 9)),
        record(put(9, 10)),
        snapshot(8),
        record(Record::Vote(3)),
        record(put(10, 10)),
        record(put(11, 10)),
    ]
}

/// Small segments, so that rolls and reuse come often: two or three groups each.
pub fn small() -> WalSettings {
    WalSettings { segment_bytes: 16 << 10, free_segments: 2, ..settings() }
}

/// The part of a state that the first `count` submissions decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub base: Position,
    pub values: Vec<(Position, Bytes)>,
    pub vote: u64,
    pub views: BTreeMap<u64, u64>,
    pub members: Option<MemberVector>,
}

pub fn expected(count: usize) -> Expected {
    expected_of(&history()[..count])
}

/// What these submissions decide.
pub fn expected_of(items: &[WalItem<Record>]) -> Expected {
    let (mut state, mut members) = (State::default(), None);
    for item in items.iter().cloned() {
        match item {
            WalItem::Record(record) => record.replay(&mut state).unwrap(),
            WalItem::Metadata(MetadataChange::Members(vector)) => members = Some(vector),
            WalItem::Metadata(MetadataChange::Snapshot { base, .. }) => {
                state.base = base.position;
                state.values.retain(|(position, _)| *position > base.position);
            }
        }
    }
    Expected { base: state.base, values: state.values, vote: state.vote, views: state.views, members }
}

/// When an answer is given relative to the sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    AfterSync,
    /// The mistake.
    BeforeSync,
}

/// Starts and submits the history in groups of one to three, marking each durable ticket as a number on the disk. Ends at the first
/// failure, which it gives with the highest ticket released.
pub fn run(disk: &SimulatedDisk, answer: Answer) -> (u64, Option<String>) {
    let recovered = match RecoveryBase::<Record>::open(Box::new(disk.mount()), options(5, small())) {
        Ok(recovered) => recovered,
        Err(error) => return (0, Some(error.to_string())),
    };
    let mut pump = recovered.pump;
    let mut tickets = TicketSequence::default();
    let mut released = 0;
    let mut step = || -> Result<(), StorageError> {
        let mut items = history().into_iter();
        for size in [1, 2, 1, 3].into_iter().cycle() {
            let some: Vec<WalItem<Record>> = items.by_ref().take(size).collect();
            if some.is_empty() {
                return Ok(());
            }
            for item in some {
                pump.submit(Submission { ticket: tickets.next_ticket(), item })?;
            }
            while let Some(group) = pump.take_group()? {
                let last = number(group.last_ticket());
                let written = pump.write(group)?;
                let running = pump.sync_started(written);
                if answer == Answer::BeforeSync {
                    disk.mark(last.to_string());
                }
                let durable = pump.sync(running)?;
                assert_eq!(number(durable), last);
                released = last;
                disk.mark(last.to_string());
            }
            pump.maintain()?;
        }
        Ok(())
    };
    let failure = step().err();
    if let Some(error) = &failure {
        // Final: whatever is tried later gives the same failure.
        let ticket = tickets.next_ticket();
        assert_eq!(pump.submit(Submission::record(ticket, put(99, 1))).unwrap_err().to_string(), error.to_string());
        assert!(pump.take_group().is_err() && pump.maintain().is_err());
        assert_eq!(number(pump.durable()), released);
    }
    (released, failure.map(|error| error.to_string()))
}

fn number(ticket: Ticket) -> u64 {
    ticket.to_string().trim_start_matches('#').parse().unwrap()
}

/// The same part of what was recovered.
pub fn found(recovered: &Recovered<Record>) -> Expected {
    let state = recovered.state.clone();
    let members = recovered.pump.metadata().members.clone();
    Expected { base: state.base, values: state.values, vote: state.vote, views: state.views, members }
}

/// Recovers from a disk and says what is wrong with what it finds, if at least `released` tickets must be there.
pub fn judge(disk: &SimulatedDisk, released: u64) -> Result<Recovered<Record>, String> {
    let recovered = RecoveryBase::<Record>::open(Box::new(disk.mount()), options(disk.operation_count() + 77, small()))
        .map_err(|error| format!("does not recover: {error}"))?;
    let found = found(&recovered);
    let all = history().len();
    match (0..=all).rev().find(|count| expected(*count) == found) {
        None => Err(format!("what was recovered is no prefix of what was submitted: {found:?}")),
        Some(count) if (count as u64) < released => {
            Err(format!("{count} submissions are there, {released} were acknowledged"))
        }
        Some(_) => Ok(recovered),
    }
}
