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
        let first = self.handed.next();
        let count = (index.0 - self.handed.0) as usize;
        let mut batches = Vec::with_capacity(count);
        for (offset, (term, entry)) in self.log.from(first).take(count).enumerate() {
            let block = block_of(*term, Position(first.0 + offset as u64));
            batches.push(Batch { block, kind: entry.kind(), payload: entry.payload() });
        }
        if batches.len() != count {
            return self.halt(effects, format!("commit {index} is beyond the log's last {}", self.log.last_index()));
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
        let lists = self.log.from(first).zip(first.0..).filter(|((_, entry), _)| entry.kind() == EntryKind::Membership);
        let Some((payload, index)) = lists.map(|((_, entry), index)| (entry.payload(), Position(index))).last() else {
            return;
        };
        match control::decode::<MemberVector>("member list", &payload) {
            Ok(members) => {
                let changed = *self.members() != members;
                self.member_lists.push((index, members));
                if changed {
                    effects.push(Effect::Members(self.members().clone()));
                }
            }
            Err(error) => self.halt(effects, error.to_string()),
        }
    }

    /// Entries from `first` on are gone, and with them their member lists.
    pub(crate) fn drop_member_lists(&mut self, first: Position, effects: &mut RaftEffects) {
        let before = self.members().clone();
        // The list of the forming stands at index 0 and stays.
        self.member_lists.retain(|(index, _)| *index < first);
        if *self.members() != before {
            effects.push(Effect::Members(self.members().clone()));
        }
    }
}
