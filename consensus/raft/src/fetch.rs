//! A follower's side of snapshots (Raft §7): an offer is answered, pulled, installed in its place among the execute orders, and then
//! promised.

use crate::install::{InstallOutcome, InstallSnapshot, InstallSnapshotReply};
use crate::message::RaftPromise;
use crate::raft::{Raft, RaftEffects};
use crate::record::RaftRecord;
use crate::replay::snapshot_base;
use quorate_framework::{Destination, Effect, Position, ReplicaId, SnapshotId, Ticket, Time};

/// A snapshot that is being fetched or installed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fetch {
    from: ReplicaId,
    offer: InstallSnapshot,
    /// Whether the executor was told to install it: from then on its state is the snapshot's.
    installing: bool,
}

impl Fetch {
    pub(crate) fn position(&self) -> Position {
        self.offer.snapshot.position
    }

    pub(crate) fn is_installing(&self) -> bool {
        self.installing
    }
}

impl Raft {
    pub(crate) fn is_installing(&self) -> bool {
        self.fetch.as_ref().is_some_and(Fetch::is_installing)
    }

    pub(crate) fn on_install_snapshot(
        &mut self,
        now: Time,
        from: ReplicaId,
        offer: InstallSnapshot,
        effects: &mut RaftEffects,
    ) {
        let (id, position) = (offer.snapshot.id, offer.snapshot.position);
        let term_ticket = self.durability.hard_state();
        if !self.follow(now, from, offer.term, effects) {
            if !self.halted {
                self.answer_install(from, id, InstallOutcome::StaleTerm, term_ticket, effects);
            }
            return;
        }
        // A repeated offer is no second one; while one is installed, no other is looked at (cases/open.md B34).
        if let Some(fetch) = &self.fetch {
            let same = fetch.from == from && fetch.offer.snapshot.id == id;
            if fetch.installing && same {
                let ticket = self.durability.hard_state();
                self.answer_install(from, id, InstallOutcome::Installing, ticket, effects);
            }
            if fetch.installing || same {
                return;
            }
        }
        if position > self.commit && self.log.term_at(position) == Some(offer.last_term) {
            // The log holds the snapshot's last entry, and with it all before: they are committed, and nothing need be fetched.
            self.verified = self.verified.max(position);
            self.commit_up_to(position, effects);
        }
        if position <= self.commit {
            // The state never goes back (B39). What is committed here is in every later leader's log.
            let commit = self.commit;
            let ticket = self.durability.ticket_for(commit);
            return self.answer_install(from, id, InstallOutcome::Matched(commit), ticket, effects);
        }
        if !self.settings.snapshots {
            let ticket = self.durability.hard_state();
            return self.answer_install(from, id, InstallOutcome::Failed, ticket, effects);
        }
        let snapshot = offer.snapshot;
        self.fetch = Some(Fetch { from, offer, installing: false });
        effects.push(Effect::FetchSnapshot { from, snapshot });
    }

    fn answer_install(
        &self,
        to: ReplicaId,
        snapshot: SnapshotId,
        outcome: InstallOutcome,
        after: Ticket,
        effects: &mut RaftEffects,
    ) {
        let reply = InstallSnapshotReply { term: self.term(), snapshot, outcome };
        effects.promise(Destination::One(to), after, RaftPromise::InstallSnapshotReply(reply));
    }

    /// The commit has passed what is being fetched: it would only lead back.
    pub(crate) fn drop_useless_fetch(&mut self, effects: &mut RaftEffects) {
        let commit = self.commit;
        if self.fetch.take_if(|fetch| !fetch.installing && fetch.position() <= commit).is_some() {
            effects.push(Effect::CancelFetch);
        }
    }

    /// All of it is here. From now on nothing below it is handed to the executor.
    pub(crate) fn on_snapshot_fetched(&mut self, id: SnapshotId, effects: &mut RaftEffects) {
        // Of one that was cancelled or replaced, the node was told.
        let Some(fetch) = self.fetch.as_mut().filter(|fetch| !fetch.installing && fetch.offer.snapshot.id == id) else {
            return;
        };
        fetch.installing = true;
        let (position, offer) = (fetch.position(), &fetch.offer);
        let base = snapshot_base(position, offer.last_term, &offer.members);
        effects.push(Effect::InstallSnapshot { id, base });
        // After a start the executor may be further than the log, never than what is committed.
        (self.handed, self.handed_without_log) = (position, position);
        self.executed = self.executed.min(position);
        self.ahead = None;
    }

    pub(crate) fn on_snapshot_not_fetched(&mut self, id: SnapshotId, effects: &mut RaftEffects) {
        let Some(fetch) = self.fetch.take_if(|fetch| !fetch.installing && fetch.offer.snapshot.id == id) else {
            return;
        };
        self.counters.snapshots_not_fetched += 1;
        if self.leader == Some(fetch.from) {
            let ticket = self.durability.hard_state();
            self.answer_install(fetch.from, id, InstallOutcome::Failed, ticket, effects);
        }
    }

    /// The snapshot is the state, durably. The log follows: it is dropped unless it holds the snapshot's last entry.
    pub(crate) fn on_snapshot_installed(&mut self, position: Position, effects: &mut RaftEffects) {
        let Some(Fetch { from, offer, .. }) =
            self.fetch.take_if(|fetch| fetch.installing && fetch.position() == position)
        else {
            return self.halt(effects, format!("a snapshot at {position} was installed, which was not ordered"));
        };
        let term = offer.last_term;
        // What was appended and executed meanwhile may have been cut already, beyond the snapshot: then it went through it.
        let stays = position < self.log.base_index() || self.log.term_at(position) == Some(term);
        if !stays && (self.commit >= position || self.is_leader()) {
            let (commit, own) = (self.commit, self.log.term_at(position));
            return self.halt(
                effects,
                format!("snapshot {position} of term {term} conflicts with the log's term {own:?} (commit {commit})"),
            );
        }
        let ticket = if stays {
            // No record: by the time it is read again, the entry it refers to may have been forgotten. The metadata name the
            // snapshot, and that is all the promise needs.
            self.durability.hard_state()
        } else {
            let ticket = effects.persist(RaftRecord::Reset { position, term });
            self.log.reset(position, term);
            self.durability.on_reset(ticket, position, self.commit);
            self.verified = position;
            ticket
        };
        self.take_members_of_snapshot(position, offer.members, stays, effects);
        self.verified = self.verified.max(position);
        self.commit = self.commit.max(position);
        self.snapshot = self.snapshot.max(position);
        // One that was being taken is given up for it, and it serves as well.
        self.answer_operators(position, Ok(()), effects);
        self.on_executed(position);
        self.counters.snapshots_installed += 1;
        self.forget_below_tail(position, effects);
        if self.leader == Some(from) {
            self.answer_install(from, offer.snapshot.id, InstallOutcome::Matched(position), ticket, effects);
        }
    }
}
