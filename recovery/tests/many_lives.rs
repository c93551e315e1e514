//! Random histories over many lives: power cuts, kills, clean stops, checkpoints, and never a loss of what was acknowledged.
#![allow(clippy::unwrap_used)]

mod support;

use quorate_framework::{MemberVector, Position, RandomSource, ReplicaId, SnapshotBase, TicketSequence};
use quorate_recovery::{MetadataChange, Pump, Recovered, RecoveryBase, StorageError, Submission, WalItem, WalSettings};
use quorate_simulated_disk::{CrashPolicy, Fault, SimulatedDisk, Torn, Trigger};
use support::history::*;
use support::*;

const SEEDS: u64 = 150;
const LIVES: u64 = 8;

/// A replica's disk, and all that was ever submitted and is not lost.
struct Story {
    disk: SimulatedDisk,
    random: Box<dyn RandomSource>,
    settings: WalSettings,
    items: Vec<WalItem<Record>>,
    /// So many of them were acknowledged.
    acknowledged: usize,
    /// A life may end by a power cut, not only by a kill.
    power_cuts: bool,
    /// Nothing is promised but that every start succeeds.
    may_lose: bool,
}

impl Story {
    fn below(&mut self, bound: u64) -> u64 {
        (self.random.next_u64() >> 33) % bound
    }

    /// Starts, and finds a prefix of what was submitted that holds all that was acknowledged.
    fn start(&mut self) -> Pump<Record> {
        let seed = self.random.next_u64();
        let options = options(seed, self.settings.clone());
        let recovered: Recovered<Record> = RecoveryBase::open(Box::new(self.disk.mount()), options).unwrap();
        let found = found(&recovered);
        if self.may_lose {
            self.items = submissions_for(&found);
            assert_eq!(expected_of(&self.items), found);
            return recovered.pump;
        }
        let kept =
            (self.acknowledged..=self.items.len()).rev().find(|count| expected_of(&self.items[..*count]) == found);
        let kept = kept.unwrap_or_else(|| {
            let candidates: Vec<Expected> =
                (self.acknowledged..=self.items.len()).map(|count| expected_of(&self.items[..count])).collect();
            panic!("{} acknowledged; found {found:?} instead of one of {candidates:?}", self.acknowledged)
        });
        self.items.truncate(kept);
        self.acknowledged = kept;
        recovered.pump
    }

    fn next_item(&mut self) -> WalItem<Record> {
        let present = expected_of(&self.items);
        let last = present.values.last().map_or(present.base, |(position, _)| *position);
        match self.below(20) {
            0 => WalItem::Record(Record::Vote(present.vote + 1)),
            1 => WalItem::Record(Record::View(self.below(3), present.views.values().max().unwrap_or(&0) + 1)),
            2 => {
                let incarnation = quorate_framework::Incarnation(self.random.next_u64());
                WalItem::Metadata(MetadataChange::Members(MemberVector::from([(ReplicaId(3), incarnation)])))
            }
            3 => {
                let position = Position(present.base.0 + self.below(last.0 - present.base.0 + 1));
                let released = Position(self.below(position.0 + 1));
                let base = SnapshotBase { position, ..SnapshotBase::default() };
                WalItem::Metadata(MetadataChange::Snapshot { base, store_generation: position.0, released })
            }
            4 => WalItem::Record(put(last.0 + 1, 1000 + self.below(20_000) as usize)),
            _ => WalItem::Record(put(last.0 + 1, self.below(300) as usize)),
        }
    }

    /// One life, until something fails or it has had enough.
    fn live(&mut self, pump: &mut Pump<Record>) -> Result<(), StorageError> {
        let mut tickets = TicketSequence::default();
        for _ in 0..self.below(30) {
            for _ in 0..=self.below(4) {
                let item = self.next_item();
                self.items.push(item.clone());
                pump.submit(Submission { ticket: tickets.next_ticket(), item })?;
            }
            while pump.run_group()?.is_some() {}
            self.acknowledged = self.items.len();
            if self.below(2) == 0 {
                pump.maintain()?;
            }
        }
        Ok(())
    }

    fn run(&mut self) {
        for _ in 0..LIVES {
            let mut pump = self.start();
            let cut = 1 + self.below(120);
            if self.power_cuts {
                let policy = CrashPolicy::Random(Torn::Sectors);
                self.disk.inject(Trigger::nth_of_all(cut), Fault::PowerCut(policy));
            }
            let lived = self.live(&mut pump);
            if lived.is_ok() && self.below(3) == 0 {
                // A stop may be cut off too.
                let _ = pump.stop();
            }
            self.disk.disarm();
            match self.below(2) {
                0 if self.power_cuts => self.disk.crash(CrashPolicy::Random(Torn::Pages)),
                _ => self.disk.kill(),
            }
        }
        self.start();
    }
}

fn story(seed: u64, settings: WalSettings, power_cuts: bool) -> Story {
    let (disk, random) = (fresh(seed), random(seed));
    Story { disk, random, settings, items: Vec::new(), acknowledged: 0, power_cuts, may_lose: false }
}

/// Submissions that would have led to this.
fn submissions_for(found: &Expected) -> Vec<WalItem<Record>> {
    let base = SnapshotBase { position: found.base, ..SnapshotBase::default() };
    let snapshot = MetadataChange::Snapshot { base, store_generation: 0, released: found.base };
    let mut items: Vec<WalItem<Record>> = vec![WalItem::Record(Record::Vote(found.vote)), WalItem::Metadata(snapshot)];
    items.extend(found.members.clone().map(|members| WalItem::Metadata(MetadataChange::Members(members))));
    items.extend(found.views.iter().map(|(key, view)| WalItem::Record(Record::View(*key, *view))));
    items.extend(found.values.iter().map(|(position, bytes)| WalItem::Record(Record::Put(*position, bytes.clone()))));
    items
}

#[test]
fn without_syncs_every_start_succeeds_whatever_a_power_cut_has_left_of_the_log() {
    for seed in 0..SEEDS {
        let mut story = story(seed, WalSettings { segment_bytes: 16 << 10, ..never() }, true);
        story.may_lose = true;
        story.run();
    }
}

#[test]
fn with_syncs_nothing_acknowledged_is_lost_over_many_power_cuts_and_kills() {
    for seed in 0..SEEDS {
        story(seed, small(), true).run();
    }
}

#[test]
fn without_syncs_nothing_is_lost_over_many_kills() {
    for seed in 0..SEEDS {
        story(seed, WalSettings { segment_bytes: 16 << 10, ..never() }, false).run();
    }
}

#[test]
#[should_panic(expected = "acknowledged; found")]
fn without_syncs_a_power_cut_loses_what_was_acknowledged_and_this_test_sees_it() {
    for seed in 0..SEEDS {
        story(seed, WalSettings { segment_bytes: 16 << 10, ..never() }, true).run();
    }
}
