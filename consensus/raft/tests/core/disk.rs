//! What a replica of the hand-driven cluster leaves behind: durable records, and the snapshot that its metadata name.

use quorate_framework::{BlockId, ExecuteRange, Position, RecordPlace, RecoverySpec, SnapshotBase};
use quorate_raft::{RaftRecord, RaftState};
use std::collections::VecDeque;

#[derive(Default)]
pub(crate) struct Disk {
    log: VecDeque<RaftRecord>,
    hard_state: Option<RaftRecord>,
    snapshot: Option<SnapshotBase>,
    /// What the snapshot holds.
    executed: Vec<ExecuteRange>,
}

impl Disk {
    pub(crate) fn keep(&mut self, record: RaftRecord) {
        match record.place() {
            RecordPlace::Log => self.log.push_back(record),
            RecordPlace::Metadata => self.hard_state = Some(record),
        }
    }

    /// The metadata name a snapshot.
    pub(crate) fn name(&mut self, base: SnapshotBase, executed: Vec<ExecuteRange>) {
        (self.snapshot, self.executed) = (Some(base), executed);
    }

    /// Whole records go, from the front.
    pub(crate) fn forget(&mut self, through: Position) {
        assert!(through <= self.position(), "no more than a snapshot covers");
        while self.log.front().and_then(RaftRecord::position).is_some_and(|position| position <= through) {
            self.log.pop_front();
        }
    }

    pub(crate) fn position(&self) -> Position {
        self.snapshot.as_ref().map_or(Position::ZERO, |base| base.position)
    }

    pub(crate) fn executed(&self) -> Vec<ExecuteRange> {
        self.executed.clone()
    }

    pub(crate) fn recover(&mut self) -> RaftState {
        let mut state = RaftRecord::start_from(self.snapshot.as_ref()).unwrap();
        for record in self.log.iter().chain(&self.hard_state).cloned() {
            record.replay(&mut state).unwrap();
        }
        let completion = RaftRecord::complete(&mut state).unwrap();
        assert_eq!(completion.anomalies, Vec::<String>::new());
        self.log.extend(completion.records);
        state
    }
}

/// The block at which a state with these effects ends.
pub(crate) fn last_block(executed: &[ExecuteRange]) -> BlockId {
    executed.last().and_then(|range| range.batches.last()).map_or(BlockId::default(), |batch| batch.block)
}

/// What was executed up to a position.
pub(crate) fn up_to(executed: &[ExecuteRange], position: Position) -> Vec<ExecuteRange> {
    let begun = executed.iter().filter(|range| range.first <= position).cloned();
    let mut kept: Vec<ExecuteRange> = begun.collect();
    if let Some(last) = kept.last_mut() {
        last.batches.truncate((position.0 + 1 - last.first.0) as usize);
    }
    kept
}
