//! Commit and execution (Raft §5.3, §5.4.2), and the member lists that the log holds.

use crate::quorum::committed_by_majority;
use crate::raft::{Raft, RaftEffects};
use crate::term::block_of;
use bytes::Bytes;
use quorate_framework::entry::EntryKind;
use quorate_framework::{Batch, Effect, ExecuteRange, MemberVector, Position, control};

impl Raft {
    /// A leader commits what a majority holds durably, but only entries of its own term directly.
    pub(crate) fn advance_commit(&mut self, effects: &mut RaftEffects) {
        if !self.is_leader() {
            return;
        }
        let own = self.durability.persisted();
        let index = committed_by_majority(self.members(), |member| {
            if member == self.replica {
                return own;
            }
            self.follower(member).map_or(Position::ZERO, |progress| progress.matched)
        });
        if index > self.commit && self.log.term_at(index) == Some(self.term()) {
            self.commit_up_to(index, effects);
        }
    }

    /// Raises the commit index, and hands what is committed to the executor.
    pub(crate) fn commit_up_to(&mut self, index: Position, effects: &mut RaftEffects) {
        if index <= self.commit {
            return;
        }
        self.commit = index;
        if !self.check_ahead(effects) {
            return;
        }
        if self.fetch.is_some() {
            self.drop_useless_fetch(effects);
        }
        self.hand_over(effects);
    }

    /// Hands what is committed and was not handed over to the executor.
    pub(crate) fn hand_over(&mut self, effects: &mut RaftEffects) {
        let index = self.commit;
        if index <= self.handed {
            // The executor's state, or the snapshot it installs, is further than this replica knows to be committed.
            return;
        }
        let first = self.handed.next();
        let count = (index.0 - self.handed.0) as usize;
        let mut batches = Vec::with_capacity(count);
        for (offset, (term, entry)) in self.log.from(first).take(count).enumerate() {
            let block = block_of(*term, Position(first.0 + offset as u64));
            batches.push(Batch { block, kind: entry.kind(), payload: entry.payload() });
        }
        if batches.len() != count {
            let (base, last) = (self.log.base_index(), self.log.last_index());
            return self
                .halt(effects, format!("{first} to {index} are to be executed, and the log is {base} to {last}"));
        }
        self.handed = index;
        effects.push(Effect::Execute(ExecuteRange { first, batches }));
    }

    pub(crate) fn encoded_members(&self) -> Bytes {
        let mut output = Vec::new();
        control::encode(self.members(), &mut output);
        Bytes::from(output)
    }

    /// Takes over the member lists among the entries from `first` on: a list counts from when it is appended.
    pub(crate) fn adopt_member_lists(&mut self, first: Position, effects: &mut RaftEffects) {
        let entries = self.log.from(first).zip(first.0..);
        let lists = entries.filter(|((_, entry), _)| entry.kind() == EntryKind::Membership);
        // Allocates only if there is one.
        let lists: Vec<(Position, Bytes)> =
            lists.map(|((_, entry), index)| (Position(index), entry.payload())).collect();
        if lists.is_empty() {
            return;
        }
        let before = self.members().clone();
        for (index, payload) in lists {
            match control::decode::<MemberVector>("member list", &payload) {
                Ok(members) => self.member_lists.push((index, members)),
                Err(error) => return self.halt(effects, error.to_string()),
            }
        }
        self.tell_changed_members(&before, effects);
    }

    fn tell_changed_members(&self, before: &MemberVector, effects: &mut RaftEffects) {
        if self.members() != before {
            effects.push(Effect::Members(self.members().clone()));
        }
    }

    /// The member list of an installed snapshot takes the place of those up to its position; with the log go all others.
    pub(crate) fn take_members_of_snapshot(
        &mut self,
        position: Position,
        members: MemberVector,
        log_stays: bool,
        effects: &mut RaftEffects,
    ) {
        let before = self.members().clone();
        self.member_lists.retain(|(index, _)| log_stays && *index > position);
        self.member_lists.insert(0, (position, members));
        self.tell_changed_members(&before, effects);
    }

    /// Entries from `first` on are gone, and with them their member lists.
    pub(crate) fn drop_member_lists(&mut self, first: Position, effects: &mut RaftEffects) {
        let before = self.members().clone();
        // The list of the forming, or of a snapshot, is not above the commit and stays.
        self.member_lists.retain(|(index, _)| *index < first);
        self.tell_changed_members(&before, effects);
    }
}
