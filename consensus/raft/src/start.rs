//! The start from what was recovered.

use crate::durability::Durability;
use crate::election::LeaderElectionManager;
use crate::log::Log;
use crate::raft::{Raft, RaftEffects};
use crate::record::HardState;
use crate::term::read_entry_head;
use quorate_framework::{Effect, Position, Start, Time};

impl Raft {
    /// Takes over what was recovered, as a follower that knows no leader. Halts where log, snapshot and state do not fit together.
    pub(crate) fn start(&mut self, now: Time, start: Start<Raft>, effects: &mut RaftEffects) {
        self.replica = start.replica;
        let (base_index, base_term) = start.state.base;
        let mut entries = Vec::with_capacity(start.state.entries.len());
        for entry in start.state.entries {
            match read_entry_head(entry.head()) {
                Ok((term, _)) => entries.push((term, entry)),
                Err(error) => return self.halt(effects, format!("recovered entry: {error}")),
            }
        }
        self.log = Log::recovered((base_index, base_term), entries);
        self.durability = Durability::recovered(self.log.last_index());
        self.hard_state = start.state.hard_state;
        if self.log.last_term() > self.hard_state.term {
            // DESIGN §4: the larger of both counts; no vote of that term is known, so none may be given to another in it.
            self.counters.term_anomalies += 1;
            self.set_hard_state(HardState { term: self.log.last_term(), voted_for: Some(self.replica) }, effects);
        }
        let (snapshot, snapshot_term) = start.state.snapshot;
        if snapshot > base_index && self.log.term_at(snapshot) != Some(snapshot_term) {
            let last = self.log.last_index();
            return self
                .halt(effects, format!("the log, {base_index} to {last}, does not join the snapshot at {snapshot}"));
        }
        let executed = start.executed.position;
        if executed < base_index {
            return self
                .halt(effects, format!("the state holds up to {executed}, and the log begins after {base_index}"));
        }
        (self.snapshot, self.commit) = (snapshot, base_index.max(snapshot));
        (self.handed, self.executed, self.handed_without_log) = (executed, executed, executed);
        if !self.join_executed(start.executed, effects) {
            return;
        }
        self.verified = self.commit;
        self.member_lists = match start.state.snapshot_members {
            Some(members) => vec![(snapshot, members)],
            None => vec![(Position::ZERO, start.members.clone())],
        };
        self.adopt_member_lists(self.member_lists[0].0.next().max(base_index.next()), effects);
        if *self.members() != start.members {
            effects.push(Effect::Members(self.members().clone()));
        }
        self.hand_over(effects);
        self.manager = LeaderElectionManager::new(
            now,
            self.settings.heartbeat_interval,
            self.settings.election_timeout,
            effects.random_u64(),
        );
        self.started = true;
    }
}
