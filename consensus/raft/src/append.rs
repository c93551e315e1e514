//! A follower's side of replication (Raft §5.3): appends and heartbeats.

use crate::message::{Append, AppendOutcome, AppendReply, Heartbeat, HeartbeatReply, RaftPromise};
use crate::raft::{Raft, RaftEffects};
use crate::record::RaftRecord;
use crate::role::Role;
use crate::term::{Term, read_entry_head};
use quorate_framework::entry::Entry;
use quorate_framework::{Destination, Position, ReplicaId, Time};

impl Raft {
    /// Follows the sender of a leader's message. False if the message is out of date or the rules are broken.
    pub(crate) fn follow(&mut self, now: Time, leader: ReplicaId, term: Term, effects: &mut RaftEffects) -> bool {
        if term < self.term() {
            return false;
        }
        if term > self.term() {
            self.enter_term(now, term, effects);
        }
        if self.is_leader() || self.leader.is_some_and(|known| known != leader) {
            self.halt(effects, format!("replicas {leader} and {:?} both lead term {term}", self.leader));
            return false;
        }
        self.manager.on_leader_message(now, effects.random_u64());
        self.role = Role::Follower;
        self.set_leader(Some(leader), effects);
        true
    }

    pub(crate) fn on_append(&mut self, now: Time, from: ReplicaId, append: Append, effects: &mut RaftEffects) {
        let request = append.request;
        if !self.follow(now, from, append.term, effects) {
            if !self.halted {
                let ticket = self.durability.hard_state();
                let outcome = AppendOutcome::StaleTerm;
                let reply = AppendReply { term: self.term(), request, outcome };
                effects.promise(Destination::One(from), ticket, RaftPromise::AppendReply(reply));
            }
            return;
        }
        let outcome = match self.find_conflict(&append) {
            Some(conflict) => {
                self.counters.conflicts += 1;
                conflict
            }
            None => {
                let (last, commit) = (append.last_index(), append.commit);
                self.take_entries(append, effects);
                if self.halted {
                    return;
                }
                self.verified = self.verified.max(last);
                self.commit_up_to(commit.min(self.verified), effects);
                // The last entry of *this* request: behind it there may be entries of another leader.
                AppendOutcome::Matched(last)
            }
        };
        let ticket = match outcome {
            AppendOutcome::Matched(last) => self.durability.ticket_for(last),
            _ => self.durability.hard_state(),
        };
        let reply = AppendReply { term: self.term(), request, outcome };
        effects.promise(Destination::One(from), ticket, RaftPromise::AppendReply(reply));
    }

    /// Why the entry before the first new one is not there; none if it is.
    fn find_conflict(&self, append: &Append) -> Option<AppendOutcome> {
        let previous = append.previous_index;
        if previous <= self.commit {
            // Committed entries equal those of every leader (leader completeness); below the base none are left to compare.
            return None;
        }
        match self.log.term_at(previous) {
            Some(term) if term == append.previous_term => None,
            Some(term) => {
                let index = self.log.first_of_term(previous, self.commit.next());
                Some(AppendOutcome::Conflict { term: Some(term), index })
            }
            None => Some(AppendOutcome::Conflict { term: None, index: self.log.last_index().next() }),
        }
    }

    /// Appends what is not there yet; drops the log's own suffix only from a real conflict on.
    fn take_entries(&mut self, append: Append, effects: &mut RaftEffects) {
        let mut index = append.previous_index;
        let mut new: Vec<(Term, Entry)> = Vec::new();
        for entry in append.entries.into_entries() {
            index = index.next();
            // Heads were checked when the message was decoded.
            let Ok((term, _)) = read_entry_head(entry.head()) else { return };
            if new.is_empty() && (index <= self.log.base_index() || self.log.term_at(index) == Some(term)) {
                continue;
            }
            if new.is_empty() && index <= self.log.last_index() {
                if index <= self.commit {
                    let own = self.log.term_at(index);
                    let commit = self.commit;
                    return self.halt(
                        effects,
                        format!("entry {index} of term {term} conflicts with the committed one of term {own:?} (commit {commit})"),
                    );
                }
                self.truncate_from(index, effects);
            }
            new.push((term, entry));
        }
        if !new.is_empty() {
            self.append_entries(new, effects);
        }
    }

    fn truncate_from(&mut self, first: Position, effects: &mut RaftEffects) {
        self.log.truncate_suffix(first);
        self.durability.on_truncate(first);
        self.verified = self.verified.min(Position(first.0 - 1));
        effects.persist(RaftRecord::Truncate { from: first });
        self.drop_member_lists(first, effects);
    }

    /// Appends entries at the end of the log, and makes them durable.
    pub(crate) fn append_entries(&mut self, entries: Vec<(Term, Entry)>, effects: &mut RaftEffects) {
        let first = self.log.last_index().next();
        let count = entries.len();
        let last = Position(self.log.last_index().0 + count as u64);
        let record = RaftRecord::entries(count, last, entries.iter().map(|(_, entry)| entry));
        entries.into_iter().for_each(|(term, entry)| self.log.push(term, entry));
        self.counters.entries_appended += count as u64;
        self.counters.groups_appended += 1;
        let ticket = effects.persist(record);
        self.durability.on_append(ticket, last);
        self.adopt_member_lists(first, effects);
        self.trim_log(0);
    }

    pub(crate) fn on_heartbeat(&mut self, now: Time, from: ReplicaId, heartbeat: Heartbeat, effects: &mut RaftEffects) {
        if self.follow(now, from, heartbeat.term, effects) {
            self.commit_up_to(heartbeat.commit.min(self.verified), effects);
        } else if self.halted {
            return;
        }
        // At once: only the term must be durable. What is verified but not yet durable follows with its append's reply.
        let matched = self.verified.min(self.durability.persisted());
        let reply = HeartbeatReply { term: self.term(), round: heartbeat.round, matched };
        effects.promise(Destination::One(from), self.durability.hard_state(), RaftPromise::HeartbeatReply(reply));
    }
}
