//! Checkpoints: what a snapshot must say of its position, and what the log may forget once one is durable.

use crate::raft::{Raft, RaftEffects};
use crate::replay::snapshot_base;
use quorate_framework::{Effect, MemberVector, OperationError, OperationId, Position, SnapshotBase};

/// Operators that wait for a snapshot, at most; more are told that it cannot be had.
const WAITING_OPERATORS: usize = 64;

impl Raft {
    /// What the metadata must say of a snapshot at a position; none if the log cannot tell, or it is not committed.
    fn base_at(&self, position: Position) -> Option<SnapshotBase> {
        let term = self.log.term_at(position).filter(|_| position <= self.commit)?;
        Some(snapshot_base(position, term, self.members_at(position)))
    }

    /// The node finds a checkpoint due: it is taken where the executor will be after all that was handed to it.
    pub(crate) fn on_snapshot_due(&mut self, effects: &mut RaftEffects) {
        if !self.settings.snapshots || self.handed <= self.snapshot || self.is_installing() {
            return;
        }
        if let Some(base) = self.base_at(self.handed) {
            effects.push(Effect::TakeSnapshot { base });
        }
    }

    /// An operator wants a snapshot; answered once it is durable.
    pub(crate) fn on_snapshot_wanted(&mut self, id: OperationId, effects: &mut RaftEffects) {
        let full = self.snapshot_operators.len() >= WAITING_OPERATORS;
        if !self.settings.snapshots || full || self.is_installing() {
            return effects.push(Effect::Operated { id, result: Err(OperationError::Unsupported) });
        }
        if self.handed <= self.snapshot {
            return effects.push(Effect::Operated { id, result: Ok(()) });
        }
        self.snapshot_operators.push((id, self.handed));
        self.on_snapshot_due(effects);
    }

    /// A snapshot is durable: what it covers may be forgotten, but for a tail.
    pub(crate) fn on_snapshot_taken(&mut self, position: Position, effects: &mut RaftEffects) {
        if position > self.handed {
            let handed = self.handed;
            return self
                .halt(effects, format!("a snapshot at {position}, and only {handed} was handed to the executor"));
        }
        self.answer_operators(position, Ok(()), effects);
        if position <= self.snapshot {
            return;
        }
        self.snapshot = position;
        self.counters.snapshots_taken += 1;
        self.forget_below_tail(position, effects);
    }

    /// A snapshot could not be written. The next checkpoint tries again, and may fail as well: operators do not wait for it.
    pub(crate) fn on_snapshot_not_taken(&mut self, position: Position, effects: &mut RaftEffects) {
        self.answer_operators(position, Err(OperationError::Failed), effects);
    }

    /// Answers the operators whom a snapshot at this position would have satisfied, or has.
    pub(crate) fn answer_operators(
        &mut self,
        position: Position,
        result: Result<(), OperationError>,
        effects: &mut RaftEffects,
    ) {
        for (id, _) in self.snapshot_operators.extract_if(.., |(_, wanted)| *wanted <= position) {
            effects.push(Effect::Operated { id, result });
        }
    }

    /// The durable log may forget what a snapshot at `position` covers, but for a tail: a restart or a follower that is only a
    /// little behind needs no snapshot (cases/open.md B92).
    pub(crate) fn forget_below_tail(&mut self, position: Position, effects: &mut RaftEffects) {
        let through = self.log.below_tail(position, self.settings.log_tail_entries, self.settings.log_tail_bytes);
        if through > self.forgotten {
            self.forgotten = through;
            effects.push(Effect::ForgetLog { through });
        }
        // Of the member lists that the log no longer reaches, the last one still counts.
        let base = self.log.base_index();
        let reached = self.member_lists.iter().rposition(|(at, _)| *at <= base).unwrap_or(0);
        self.member_lists.drain(..reached);
    }

    /// The member list as of a position.
    pub(crate) fn members_at(&self, position: Position) -> &MemberVector {
        static NONE: MemberVector = MemberVector::new();
        let list = self.member_lists.iter().rev().find(|(at, _)| *at <= position);
        list.or(self.member_lists.first()).map_or(&NONE, |(_, members)| members)
    }
}
