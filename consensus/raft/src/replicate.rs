//! A leader's side of replication: proposals, appends under a window, their answers, heartbeats, and the check that a majority
//! still hears it.

use crate::log::NewEntries;
use crate::message::{Append, AppendOutcome, AppendReply, Heartbeat, HeartbeatReply, RaftMessage};
use crate::progress::{Progress, ProgressState};
use crate::quorum::majority;
use crate::raft::{Raft, RaftEffects};
use crate::role::{Leadership, Role};
use crate::term::{Term, block_of};
use quorate_framework::entry::{ENTRY_PREFIX_BYTES, Entry, EntryKind, SharedEntries};
use quorate_framework::{Destination, Effect, Observation, Position, Proposal, Refusal, ReplicaId, Time, limits};

/// What an append carries.
enum Load<'a> {
    /// As much as limits allow; what was last sent in the same turn is shared if it fits.
    Entries(&'a mut LastSent),
    /// Nothing: a question to a follower that is slow, not lost.
    Question,
}

/// The entries of the last append of a turn: followers in step are sent the same.
#[derive(Default)]
struct LastSent {
    /// Index of the first, zero if there are none.
    first: Position,
    entries: SharedEntries,
    bytes: usize,
}

impl Raft {
    pub(crate) fn on_propose(&mut self, now: Time, proposals: Vec<Proposal>, effects: &mut RaftEffects) {
        if !self.is_leader() {
            let hint = self.leader;
            proposals.into_iter().for_each(|proposal| effects.refuse(proposal, Refusal::NotLeader { hint }));
            return;
        }
        let wanted: usize = proposals.iter().map(|proposal| proposal.frame().bytes.len() + ENTRY_OVERHEAD).sum();
        let limit = self.trim_log(wanted);
        let mut room = limit.saturating_sub(self.log.pinned_bytes());
        // An entry above the whole bound still passes, alone.
        let mut alone = self.commit == self.log.last_index();
        let copied = proposals
            .iter()
            .map(|proposal| proposal.frame().bytes.len())
            .filter(|length| *length < limits::SHARED_PAYLOAD_BYTES);
        let bytes = copied.map(|length| length + ENTRY_OVERHEAD).sum::<usize>();
        let term = self.term();
        let mut entries = NewEntries::after(&self.log, term, bytes, proposals.len());
        for proposal in proposals {
            let size = proposal.frame().bytes.len() + ENTRY_OVERHEAD;
            if size > room && !alone {
                // Uncommitted entries fill the bound: certainly not proposed.
                self.counters.refused_busy += 1;
                effects.refuse(proposal, Refusal::Busy);
                continue;
            }
            room = room.saturating_sub(size);
            alone = false;
            let index = entries.next_index();
            let frame = effects.accept(proposal, index, block_of(term, index));
            entries.push(EntryKind::Request, &frame.bytes);
        }
        if entries.next_index() == self.log.last_index().next() {
            return;
        }
        self.append_own(entries, effects);
        self.send_or_linger(now, effects);
    }

    /// Appends entries of the own term. The leader's own copy counts once it is durable.
    pub(crate) fn append_own(&mut self, entries: NewEntries, effects: &mut RaftEffects) {
        let term = self.term();
        let entries = entries.finish().into_iter().map(|entry| (term, entry)).collect();
        self.append_entries(entries, effects);
        self.verified = self.log.last_index();
    }

    fn send_or_linger(&mut self, now: Time, effects: &mut RaftEffects) {
        let linger = self.settings.linger;
        if linger.is_zero() {
            return self.send_to_all(now, effects);
        }
        if let Role::Leader(leadership) = &mut self.role {
            leadership.flush_at.get_or_insert(now + linger);
        }
    }

    pub(crate) fn send_to_all(&mut self, now: Time, effects: &mut RaftEffects) {
        let Role::Leader(leadership) = &mut self.role else { return };
        leadership.flush_at = None;
        let followers: Vec<ReplicaId> = leadership.followers.keys().copied().collect();
        let mut sent = LastSent::default();
        followers.into_iter().for_each(|follower| self.send_sharing(now, follower, &mut sent, effects));
    }

    /// Sends a follower what it lacks and its window takes.
    fn send_to(&mut self, now: Time, to: ReplicaId, effects: &mut RaftEffects) {
        self.send_sharing(now, to, &mut LastSent::default(), effects);
    }

    fn send_sharing(&mut self, now: Time, to: ReplicaId, sent: &mut LastSent, effects: &mut RaftEffects) {
        loop {
            let last = self.log.last_index();
            let Some(progress) = self.follower(to).filter(|progress| progress.connected) else { return };
            let ready = match progress.state {
                ProgressState::Probe { outstanding } => outstanding.is_none(),
                ProgressState::Replicate => progress.next <= last,
                ProgressState::NeedsSnapshot | ProgressState::Snapshot(_) => false,
            };
            let (messages, bytes) = (self.settings.in_flight_messages, self.settings.in_flight_bytes);
            if !ready || !progress.has_room(messages, bytes) {
                return;
            }
            if !self.send_append(now, to, Load::Entries(sent), effects) {
                return;
            }
        }
    }

    /// Sends one append from `next` on. False if the log no longer holds what the follower needs.
    fn send_append(&mut self, now: Time, to: ReplicaId, load: Load<'_>, effects: &mut RaftEffects) -> bool {
        let Some(next) = self.follower(to).map(|progress| progress.next) else { return false };
        let previous_index = Position(next.0 - 1);
        let Some(previous_term) = self.log.term_at(previous_index) else {
            self.on_below_the_log(now, to, effects);
            return false;
        };
        let (entries, bytes) = match load {
            Load::Entries(sent) => {
                // The log does not change while a turn sends.
                if sent.first != next {
                    let (entries, bytes) = self.next_entries(next);
                    *sent = LastSent { first: next, entries: entries.into(), bytes };
                }
                (sent.entries.clone(), sent.bytes)
            }
            Load::Question => (SharedEntries::default(), 0),
        };
        let last = Position(previous_index.0 + entries.len() as u64);
        let (term, commit) = (self.term(), self.commit);
        let Some(progress) = self.follower_mut(to) else { return false };
        let probing = matches!(progress.state, ProgressState::Probe { .. });
        let request = progress.on_sent(now, last, bytes);
        self.counters.appends_sent += 1;
        self.counters.probes_sent += u64::from(probing);
        let append = Append { term, request, previous_index, previous_term, commit, entries };
        effects.send(Destination::One(to), RaftMessage::Append(append));
        true
    }

    /// Entries from `next` on, as many as one message takes; always at least one if there is one.
    fn next_entries(&self, next: Position) -> (Vec<Entry>, usize) {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for (_, entry) in self.log.from(next).take(self.settings.entries_per_append) {
            let length = entry.encoded_length();
            if !entries.is_empty() && bytes + length > self.settings.bytes_per_append {
                break;
            }
            bytes += length;
            entries.push(entry.clone());
        }
        (entries, bytes)
    }

    pub(crate) fn on_append_reply(
        &mut self,
        now: Time,
        from: ReplicaId,
        reply: AppendReply,
        effects: &mut RaftEffects,
    ) {
        if !self.hear(now, from, reply.term, effects) {
            return;
        }
        match reply.outcome {
            AppendOutcome::Matched(index) => {
                return self.on_follower_matched(now, from, Some(reply.request), index, effects);
            }
            AppendOutcome::Conflict { term, index } => self.on_conflict(from, reply.request, term, index),
            // The term of the reply was not newer, so it answers a leadership that is over.
            AppendOutcome::StaleTerm => return,
        }
        self.send_to(now, from, effects);
    }

    /// A follower's log is known to equal this one up to `index`, durably; said in answer to an append, or to something else.
    pub(crate) fn on_follower_matched(
        &mut self,
        now: Time,
        from: ReplicaId,
        request: Option<u64>,
        index: Position,
        effects: &mut RaftEffects,
    ) {
        if index > self.log.last_index() {
            let last = self.log.last_index();
            return self.halt(effects, format!("replica {from} matched {index}, beyond the leader's last {last}"));
        }
        self.with_follower(from, |progress| {
            let probe_answered = request.is_some_and(|request| progress.is_outstanding_probe(request));
            progress.on_matched(index);
            if probe_answered {
                progress.become_replicate();
            }
        });
        self.leave_snapshot_if_reached(from, effects);
        self.advance_commit(effects);
        self.send_to(now, from, effects);
    }

    /// Goes back by whole terms (Raft §5.3, end).
    fn on_conflict(&mut self, from: ReplicaId, request: u64, term: Option<Term>, index: Position) {
        let Some(progress) = self.follower(from) else { return };
        let relevant = match progress.state {
            ProgressState::Probe { .. } => progress.is_outstanding_probe(request),
            ProgressState::Replicate => progress.is_of_this_state(request),
            ProgressState::NeedsSnapshot | ProgressState::Snapshot(_) => false,
        };
        if !relevant {
            return;
        }
        let previous = Position(progress.next.0 - 1);
        // If this log has entries of the follower's term, they agree at most up to the last of them; if not, the logs agree before
        // the follower's first entry of it.
        let shared = term.map(|term| (term, self.log.last_not_above_term(previous, term)));
        let next = match shared {
            Some((term, last)) if self.log.term_at(last) == Some(term) => last.next(),
            _ => index,
        };
        self.with_follower(from, |progress| progress.become_probe(next.min(progress.next)));
    }

    pub(crate) fn on_heartbeat_reply(
        &mut self,
        now: Time,
        from: ReplicaId,
        reply: HeartbeatReply,
        effects: &mut RaftEffects,
    ) {
        if !self.hear(now, from, reply.term, effects) {
            return;
        }
        if let Role::Leader(leadership) = &self.role
            && leadership.round.0 == reply.round
        {
            let duration = now.since(leadership.round.1);
            effects.push(Effect::Observe(Observation::RoundTrip { peer: from, duration }));
        }
        if reply.matched <= self.log.last_index() {
            self.on_follower_matched(now, from, None, reply.matched, effects);
        }
    }

    /// Notes a follower's sign of life. False unless it answers the present leadership.
    pub(crate) fn hear(&mut self, now: Time, from: ReplicaId, term: Term, effects: &mut RaftEffects) -> bool {
        if term > self.term() {
            self.enter_term(now, term, effects);
            return false;
        }
        if term < self.term() {
            return false;
        }
        self.with_follower(from, |progress| progress.heard = Some(now)).is_some()
    }

    /// A follower is alive, whatever it says.
    pub(crate) fn on_follower_alive(&mut self, now: Time, from: ReplicaId) {
        self.with_follower(from, |progress| progress.heard = Some(now));
    }

    /// What a leader does by the clock.
    pub(crate) fn lead(&mut self, now: Time, effects: &mut RaftEffects) {
        if self.step_down_if_stalled(now, effects) {
            return;
        }
        if self.lost_its_majority(now) {
            return self.become_follower(now, None, effects);
        }
        if self.manager.heartbeat_is_due(now) {
            self.send_heartbeats(now, effects);
            self.ask_the_slow(now, effects);
            self.tend_snapshots(now, effects);
        }
        if let Role::Leader(Leadership { flush_at: Some(flush_at), .. }) = &self.role
            && now >= *flush_at
        {
            self.send_to_all(now, effects);
        }
    }

    /// CheckQuorum: once an election timeout, a majority must have been heard within the last one.
    fn lost_its_majority(&mut self, now: Time) -> bool {
        let timeout = self.settings.election_timeout;
        let needed = majority(self.members().len());
        let Role::Leader(leadership) = &mut self.role else { return false };
        if now.since(leadership.quorum_checked) < timeout {
            return false;
        }
        leadership.quorum_checked = now;
        let fresh = |progress: &&Progress| progress.heard.is_some_and(|heard| now.since(heard) < timeout);
        leadership.followers.values().filter(fresh).count() + 1 < needed
    }

    /// Each follower is told to commit only what it is known to hold.
    pub(crate) fn send_heartbeats(&mut self, now: Time, effects: &mut RaftEffects) {
        let (term, commit) = (self.term(), self.commit);
        let Role::Leader(leadership) = &mut self.role else { return };
        leadership.round = (leadership.round.0 + 1, now);
        for (follower, progress) in &leadership.followers {
            if progress.connected {
                let heartbeat = Heartbeat { term, round: leadership.round.0, commit: progress.matched.min(commit) };
                effects.send(Destination::One(*follower), RaftMessage::Heartbeat(heartbeat));
            }
        }
        self.manager.on_broadcast(now);
    }

    /// A follower that leaves appends unanswered on a live connection is slow, not lost: one empty append asks how far it is, and
    /// nothing is sent twice.
    fn ask_the_slow(&mut self, now: Time, effects: &mut RaftEffects) {
        let timeout = self.settings.in_flight_timeout;
        let Role::Leader(leadership) = &mut self.role else { return };
        let mut slow = Vec::new();
        for (follower, progress) in &mut leadership.followers {
            let late = progress.oldest_unanswered().is_some_and(|sent_at| now.since(sent_at) >= timeout);
            if progress.connected && late {
                progress.become_probe(progress.next);
                slow.push(*follower);
            }
        }
        for follower in slow {
            self.counters.in_flight_timeouts += 1;
            self.send_append(now, follower, Load::Question, effects);
        }
    }

    /// A follower's link came up or went down: what was in flight is lost.
    pub(crate) fn on_follower_link(&mut self, now: Time, peer: ReplicaId, up: bool, effects: &mut RaftEffects) {
        let withdraw = self.follower(peer).and_then(Progress::transfer).is_some();
        if withdraw {
            effects.push(Effect::WithdrawSnapshot { to: peer });
        }
        self.with_follower(peer, |progress| {
            progress.connected = up;
            progress.release();
            let next = match progress.state {
                ProgressState::Replicate => progress.matched.next(),
                ProgressState::Probe { .. } | ProgressState::NeedsSnapshot | ProgressState::Snapshot(_) => {
                    progress.next
                }
            };
            progress.become_probe(next);
        });
        if up && self.is_leader() {
            self.send_to(now, peer, effects);
        }
    }

    pub(crate) fn leader_deadline(&self, leadership: &Leadership) -> Time {
        let quorum = leadership.quorum_checked + self.settings.election_timeout;
        let flush = leadership.flush_at.map_or(quorum, |flush_at| flush_at.min(quorum));
        self.stall_deadline().map_or(flush, |stall| stall.min(flush))
    }

    pub(crate) fn follower(&self, id: ReplicaId) -> Option<&Progress> {
        match &self.role {
            Role::Leader(leadership) => leadership.followers.get(&id),
            _ => None,
        }
    }

    pub(crate) fn follower_mut(&mut self, id: ReplicaId) -> Option<&mut Progress> {
        match &mut self.role {
            Role::Leader(leadership) => leadership.followers.get_mut(&id),
            _ => None,
        }
    }

    pub(crate) fn with_follower<R>(&mut self, id: ReplicaId, change: impl FnOnce(&mut Progress) -> R) -> Option<R> {
        self.follower_mut(id).map(change)
    }
}

/// Bytes of an entry beside its payload.
const ENTRY_OVERHEAD: usize = ENTRY_PREFIX_BYTES + crate::term::ENTRY_HEAD_BYTES;
