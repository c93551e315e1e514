//! Elections: pre-votes and votes (Raft §5.2, §5.4.1; Ongaro's thesis §9.6).

use crate::log::NewEntries;
use crate::message::{RaftMessage, RaftPromise, VoteReply, VoteRequest};
use crate::progress::Progress;
use crate::quorum::majority;
use crate::raft::{Raft, RaftEffects};
use crate::record::HardState;
use crate::role::{Leadership, Role};
use crate::term::Term;
use bytes::Bytes;
use quorate_framework::entry::EntryKind;
use quorate_framework::{Destination, Position, ReplicaId, Time};
use std::collections::BTreeSet;

impl Raft {
    /// The election clock ran out: ask whether the next term could be won.
    pub(crate) fn campaign(&mut self, now: Time, effects: &mut RaftEffects) {
        if !self.may_lead(now) {
            if !matches!(self.role, Role::Follower) {
                self.role = Role::Follower;
            }
            return self.manager.step_down(now, effects.random_u64());
        }
        self.manager.on_attempt(now, effects.random_u64());
        // Whoever campaigns forgets its leader, or two replicas that remember one would refuse each other for ever.
        self.set_leader(None, effects);
        self.role = Role::PreCandidate { granted: BTreeSet::from([self.replica]) };
        if majority(self.members().len()) == 1 {
            return self.become_candidate(now, effects);
        }
        let request = self.vote_request(self.term().next());
        effects.send(Destination::All, RaftMessage::PreVote(request));
    }

    fn vote_request(&self, term: Term) -> VoteRequest {
        VoteRequest { term, last_index: self.log.last_index(), last_term: self.log.last_term() }
    }

    /// Raft §5.4.1: last term first, then last index; nothing else, no id, breaks the tie.
    fn is_up_to_date(&self, request: VoteRequest) -> bool {
        (request.last_term, request.last_index) >= (self.log.last_term(), self.log.last_index())
    }

    /// Stickiness: while a leader is heard, or is this replica itself, nobody is helped to unseat it; unless this replica's own
    /// link to that leader is gone.
    fn keeps_its_leader(&self, now: Time) -> bool {
        self.is_leader() || (self.manager.leader_is_fresh(now) && !self.leader_link_lost)
    }

    pub(crate) fn on_pre_vote(&mut self, now: Time, from: ReplicaId, request: VoteRequest, effects: &mut RaftEffects) {
        let granted = request.term > self.term() && self.is_up_to_date(request) && !self.keeps_its_leader(now);
        let reply = VoteReply { term: self.term(), requested: request.term, granted };
        effects.send(Destination::One(from), RaftMessage::PreVoteReply(reply));
    }

    pub(crate) fn on_pre_vote_reply(
        &mut self,
        now: Time,
        from: ReplicaId,
        reply: VoteReply,
        effects: &mut RaftEffects,
    ) {
        if reply.term > self.term() {
            // Behind: follow into the newer term; the next attempt asks for one above it.
            return self.enter_term(now, reply.term, effects);
        }
        let (next, needed) = (self.term().next(), majority(self.members().len()));
        let Role::PreCandidate { granted } = &mut self.role else { return };
        if reply.requested != next || !reply.granted {
            return;
        }
        granted.insert(from);
        if granted.len() >= needed && self.may_lead(now) {
            self.become_candidate(now, effects);
        }
    }

    fn become_candidate(&mut self, now: Time, effects: &mut RaftEffects) {
        self.counters.elections_started += 1;
        let term = self.term().next();
        self.set_hard_state(HardState { term, voted_for: Some(self.replica) }, effects);
        self.verified = self.commit;
        self.manager.on_candidacy(now, effects.random_u64());
        self.role = Role::Candidate { granted: BTreeSet::new() };
        if majority(self.members().len()) > 1 {
            let request = self.vote_request(term);
            effects.promise(Destination::All, self.durability.hard_state(), RaftPromise::RequestVote(request));
        }
    }

    /// A candidate's own vote counts once it is durable.
    pub(crate) fn count_own_vote(&mut self, now: Time, effects: &mut RaftEffects) {
        if self.durability.hard_state_reached() && self.hard_state.voted_for == Some(self.replica) {
            self.count_vote(now, self.replica, effects);
        }
    }

    pub(crate) fn on_request_vote(
        &mut self,
        now: Time,
        from: ReplicaId,
        request: VoteRequest,
        effects: &mut RaftEffects,
    ) {
        if request.term > self.term() {
            if self.keeps_its_leader(now) {
                // Not even the term is taken over, or one cut-off replica could unseat a leader that a majority hears.
                return self.answer_vote(from, request, false, effects);
            }
            self.enter_term(now, request.term, effects);
        }
        let free = self.hard_state.voted_for.is_none_or(|voted_for| voted_for == from);
        let granted = request.term == self.term()
            && free
            && self.leader.is_none()
            && self.is_up_to_date(request)
            && matches!(self.role, Role::Follower | Role::PreCandidate { .. });
        if granted {
            if self.hard_state.voted_for.is_none() {
                self.set_hard_state(HardState { voted_for: Some(from), ..self.hard_state }, effects);
            }
            // Whoever votes gives the candidate a whole timeout.
            self.role = Role::Follower;
            self.manager.step_down(now, effects.random_u64());
        }
        self.answer_vote(from, request, granted, effects);
    }

    fn answer_vote(&mut self, to: ReplicaId, request: VoteRequest, granted: bool, effects: &mut RaftEffects) {
        let reply = VoteReply { term: self.term(), requested: request.term, granted };
        effects.promise(Destination::One(to), self.durability.hard_state(), RaftPromise::VoteReply(reply));
    }

    pub(crate) fn on_vote_reply(&mut self, now: Time, from: ReplicaId, reply: VoteReply, effects: &mut RaftEffects) {
        if reply.term > self.term() {
            return self.enter_term(now, reply.term, effects);
        }
        if reply.granted && reply.requested == self.term() {
            self.count_vote(now, from, effects);
        }
    }

    fn count_vote(&mut self, now: Time, from: ReplicaId, effects: &mut RaftEffects) {
        let needed = majority(self.members().len());
        let Role::Candidate { granted } = &mut self.role else { return };
        granted.insert(from);
        // Its own vote must be durable, too: a leader's term is.
        if granted.len() >= needed && granted.contains(&self.replica) {
            self.become_leader(now, effects);
        }
    }

    fn become_leader(&mut self, now: Time, effects: &mut RaftEffects) {
        self.counters.leaderships += 1;
        let next = self.log.last_index().next();
        let followers = self
            .members()
            .keys()
            .filter(|member| **member != self.replica)
            .map(|member| (*member, Progress::new(next, self.links.contains_key(member))))
            .collect();
        self.role = Role::Leader(Leadership { followers, round: (0, now), quorum_checked: now, flush_at: None });
        self.manager.become_leader(now);
        self.set_leader(Some(self.replica), effects);
        self.append_first_entries(effects);
        self.send_heartbeats(now, effects);
        self.send_to_all(now, effects);
        self.advance_commit(effects);
    }

    /// The entry of its own term that lets a leader commit those before it (Raft §8); the very first leader puts the bound member
    /// list into the log as well.
    fn append_first_entries(&mut self, effects: &mut RaftEffects) {
        let mut entries = NewEntries::after(&self.log, self.term(), 0, 2);
        entries.push(EntryKind::NoOperation, &Bytes::new());
        if self.log.last_index() == Position::ZERO {
            entries.push(EntryKind::Membership, &self.encoded_members());
        }
        self.append_own(entries, effects);
    }
}
