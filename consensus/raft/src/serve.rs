//! A leader's side of snapshots: followers that need what the log no longer holds are offered one, and given up within bounds.
//!
//! A follower goes from NEEDS_SNAPSHOT to SNAPSHOT when the node is asked to make one ready, and on to REPLICATE as soon as it is
//! known to have reached the log, by whichever answer. It falls back to NEEDS_SNAPSHOT when it pulls nothing for a while, when it or
//! the node reports a failure, or when the log has to move on; and no two snapshots are asked for within a pause.

use crate::install::{InstallOutcome, InstallSnapshot, InstallSnapshotReply};
use crate::message::RaftMessage;
use crate::progress::{Progress, ProgressState, Transfer};
use crate::raft::{Raft, RaftEffects};
use crate::role::Role;
use quorate_framework::{Destination, Effect, Position, ReplicaId, ServedSnapshot, Time};

impl Raft {
    /// The log no longer holds what a follower needs next.
    pub(crate) fn on_below_the_log(&mut self, now: Time, follower: ReplicaId, effects: &mut RaftEffects) {
        self.with_follower(follower, Progress::become_needs_snapshot);
        self.ask_for_snapshot(now, follower, effects);
    }

    /// Has the node make a snapshot ready for a follower, unless it was asked only just now. From here on the log is held.
    fn ask_for_snapshot(&mut self, now: Time, follower: ReplicaId, effects: &mut RaftEffects) {
        let (pause, timeout) = (self.settings.snapshot_retry_pause, self.settings.snapshot_stall_timeout);
        let (enabled, at_least) = (self.settings.snapshots, self.log.base_index());
        let Some(progress) = self.follower_mut(follower) else { return };
        if !enabled || !progress.connected || now < progress.snapshot_not_before {
            return;
        }
        progress.snapshot_not_before = now + pause;
        let give_up_at = now + timeout;
        progress.become_snapshot(Transfer { offered: None, position: at_least, repeat_at: give_up_at, give_up_at });
        self.counters.snapshots_offered += 1;
        effects.push(Effect::OfferSnapshot { to: follower, at_least });
    }

    /// The node has a snapshot ready.
    pub(crate) fn on_snapshot_ready(
        &mut self,
        now: Time,
        to: ReplicaId,
        snapshot: ServedSnapshot,
        effects: &mut RaftEffects,
    ) {
        let Some(Transfer { offered, .. }) = self.follower(to).and_then(Progress::transfer) else {
            // No longer wanted: the follower has caught up or is gone, or this replica leads no more.
            return effects.push(Effect::WithdrawSnapshot { to });
        };
        if offered.is_some() {
            return;
        }
        if self.log.term_at(snapshot.position).is_none() || snapshot.position > self.commit {
            // Of no use: the log does not join it.
            return self.give_up_snapshot(now, to, effects);
        }
        let give_up_at = now + self.settings.snapshot_stall_timeout;
        let offer = Transfer { offered: Some(snapshot), position: snapshot.position, repeat_at: now, give_up_at };
        self.with_follower(to, |progress| progress.become_snapshot(offer));
        self.say_offer(now, to, effects);
    }

    fn say_offer(&mut self, now: Time, to: ReplicaId, effects: &mut RaftEffects) {
        let Some(snapshot) = self.follower(to).and_then(Progress::transfer).and_then(|transfer| transfer.offered)
        else {
            return;
        };
        let Some(last_term) = self.log.term_at(snapshot.position) else { return };
        let (term, repeat_at) = (self.term(), now + self.settings.in_flight_timeout);
        let members = self.members_at(snapshot.position).clone();
        let offer = InstallSnapshot { term, snapshot, last_term, members };
        if let Some(transfer) = self.follower_mut(to).and_then(Progress::transfer_mut) {
            transfer.repeat_at = repeat_at;
        }
        effects.send(Destination::One(to), RaftMessage::InstallSnapshot(offer));
    }

    /// A follower has pulled another part, or installs what it has: it lives, and its transfer goes on.
    pub(crate) fn on_snapshot_progress(&mut self, now: Time, peer: ReplicaId) {
        let give_up_at = now + self.settings.snapshot_stall_timeout;
        if let Some(transfer) = self.follower_mut(peer).and_then(Progress::transfer_mut) {
            transfer.give_up_at = give_up_at;
        }
    }

    pub(crate) fn on_snapshot_unready(&mut self, now: Time, to: ReplicaId, effects: &mut RaftEffects) {
        if self.follower(to).and_then(Progress::transfer).is_some() {
            self.give_up_snapshot(now, to, effects);
        }
    }

    /// Lets a transfer go. The next one is asked for after the pause.
    fn give_up_snapshot(&mut self, now: Time, follower: ReplicaId, effects: &mut RaftEffects) {
        let not_before = now + self.settings.snapshot_retry_pause;
        self.with_follower(follower, |progress| {
            progress.become_needs_snapshot();
            progress.snapshot_not_before = not_before;
        });
        self.counters.snapshots_given_up += 1;
        effects.push(Effect::WithdrawSnapshot { to: follower });
    }

    pub(crate) fn on_install_reply(
        &mut self,
        now: Time,
        from: ReplicaId,
        reply: InstallSnapshotReply,
        effects: &mut RaftEffects,
    ) {
        if !self.hear(now, from, reply.term, effects) {
            return;
        }
        let offered = self.follower(from).and_then(Progress::transfer).and_then(|transfer| transfer.offered);
        match reply.outcome {
            // Said of the follower's log, not of one transfer: a late answer says no less.
            InstallOutcome::Matched(index) => self.on_follower_matched(now, from, None, index, effects),
            InstallOutcome::Failed if offered.is_some_and(|snapshot| snapshot.id == reply.snapshot) => {
                self.give_up_snapshot(now, from, effects);
            }
            InstallOutcome::Installing if offered.is_some_and(|snapshot| snapshot.id == reply.snapshot) => {
                self.on_snapshot_progress(now, from);
            }
            InstallOutcome::Installing | InstallOutcome::Failed | InstallOutcome::StaleTerm => {}
        }
    }

    /// A follower in need of a snapshot that has reached the log, by whatever way, is sent what follows. Nothing new need be written
    /// for that (cases/open.md B17).
    pub(crate) fn leave_snapshot_if_reached(&mut self, follower: ReplicaId, effects: &mut RaftEffects) {
        let Some(progress) = self.follower(follower) else { return };
        if !matches!(progress.state, ProgressState::NeedsSnapshot | ProgressState::Snapshot(_)) {
            return;
        }
        let withdraw = progress.transfer().is_some();
        if self.log.term_at(progress.matched).is_none() {
            return;
        }
        let end = self.log.last_index();
        self.with_follower(follower, |progress| progress.leave_snapshot(end));
        if withdraw {
            effects.push(Effect::WithdrawSnapshot { to: follower });
        }
    }

    /// What a leader does by the clock, at each heartbeat.
    pub(crate) fn tend_snapshots(&mut self, now: Time, effects: &mut RaftEffects) {
        let Role::Leader(leadership) = &self.role else { return };
        let base = self.log.base_index();
        let (mut needing, mut lost, mut unanswered) = (Vec::new(), Vec::new(), Vec::new());
        for (follower, progress) in &leadership.followers {
            match &progress.state {
                ProgressState::NeedsSnapshot => needing.push(*follower),
                ProgressState::Snapshot(transfer) if now >= transfer.give_up_at || transfer.position < base => {
                    lost.push(*follower);
                }
                ProgressState::Snapshot(transfer) if now >= transfer.repeat_at => unanswered.push(*follower),
                _ => {}
            }
        }
        needing.into_iter().for_each(|follower| self.ask_for_snapshot(now, follower, effects));
        lost.into_iter().for_each(|follower| self.give_up_snapshot(now, follower, effects));
        unanswered.into_iter().for_each(|follower| self.say_offer(now, follower, effects));
    }

    /// Ends whatever is being served, before a leadership goes.
    pub(crate) fn withdraw_all_snapshots(&mut self, effects: &mut RaftEffects) {
        let Role::Leader(leadership) = &self.role else { return };
        for (follower, _) in leadership.followers.iter().filter(|(_, progress)| progress.transfer().is_some()) {
            effects.push(Effect::WithdrawSnapshot { to: *follower });
        }
    }

    /// The log above this is held for followers that a snapshot brings back.
    fn held_above(&self) -> Option<Position> {
        let Role::Leader(leadership) = &self.role else { return None };
        leadership.followers.values().filter_map(Progress::holds_above).min()
    }

    /// Drops executed entries so that `wanted` more bytes fit the log's bound, and gives the bound: it is higher while something is
    /// held for a follower, and then what is held goes all the same, so that a dead follower pins nothing for ever.
    pub(crate) fn trim_log(&mut self, wanted: usize) -> usize {
        let limit = self.settings.log_memory_bytes;
        if self.log.pinned_bytes().saturating_add(wanted) <= limit {
            return limit;
        }
        let executed = self.executed.min(self.commit);
        let floor = self.held_above().map_or(executed, |held| held.min(executed));
        self.log.trim(floor, limit.saturating_sub(wanted));
        if floor == executed {
            return limit;
        }
        let most = limit.saturating_add(self.settings.log_held_bytes);
        self.log.trim(executed, most.saturating_sub(wanted));
        let base = self.log.base_index();
        if let Role::Leader(leadership) = &mut self.role
            && base > floor
        {
            // What was held has gone. Those that wait for a snapshot are given up at the next heartbeat.
            let lost = |progress: &&mut Progress| progress.holds_above().is_some_and(|above| above < base);
            leadership.followers.values_mut().filter(lost).for_each(Progress::release);
        }
        most
    }
}
