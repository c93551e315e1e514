//! The log in memory: entries above a base, bounded by the memory they pin.

use crate::term::{Term, entry_head};
use bytes::Bytes;
use quorate_framework::Position;
use quorate_framework::entry::{Entry, EntryKind, GroupBuilder, GroupIdentity};
use std::collections::VecDeque;

/// Memory that one shared group of entries pins, counted until the last of its entries has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PinnedGroup {
    identity: GroupIdentity,
    entries: usize,
    bytes: usize,
}

/// The log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// Index and term of the entry before the first; what lies below was executed and dropped.
    base_index: Position,
    base_term: Term,
    entries: VecDeque<(Term, Entry)>,
    groups: VecDeque<PinnedGroup>,
    pinned_bytes: usize,
}

// How entries share memory is no part of the log's value.
impl PartialEq for Log {
    fn eq(&self, other: &Log) -> bool {
        (self.base_index, self.base_term) == (other.base_index, other.base_term) && self.entries == other.entries
    }
}

impl Eq for Log {}

impl std::hash::Hash for Log {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.base_index, self.base_term, &self.entries).hash(state);
    }
}

impl Log {
    /// A log from what was recovered.
    pub(crate) fn recovered(base: (Position, Term), entries: Vec<(Term, Entry)>) -> Log {
        let mut log = Log { base_index: base.0, base_term: base.1, ..Log::default() };
        entries.into_iter().for_each(|(term, entry)| log.push(term, entry));
        log
    }

    /// Index of the entry before the first that is held.
    pub(crate) fn base_index(&self) -> Position {
        self.base_index
    }

    /// Index of the last entry; the base if there is none.
    pub(crate) fn last_index(&self) -> Position {
        Position(self.base_index.0 + self.entries.len() as u64)
    }

    /// Term of the last entry; the base's if there is none.
    pub(crate) fn last_term(&self) -> Term {
        self.entries.back().map_or(self.base_term, |(term, _)| *term)
    }

    /// Term of the entry at an index: also of the base, whose own term is kept; none below it or above the last.
    pub(crate) fn term_at(&self, index: Position) -> Option<Term> {
        if index == self.base_index {
            return Some(self.base_term);
        }
        self.slot(index).map(|slot| self.entries[slot].0)
    }

    /// Entries from `first` on; none if it is not held.
    pub(crate) fn from(&self, first: Position) -> impl Iterator<Item = &(Term, Entry)> {
        let slot = self.slot(first).unwrap_or(self.entries.len());
        self.entries.range(slot..)
    }

    /// Memory pinned by the entries, in bytes: whole groups, however few of their entries are left.
    pub(crate) fn pinned_bytes(&self) -> usize {
        self.pinned_bytes
    }

    /// Appends an entry after the last.
    pub(crate) fn push(&mut self, term: Term, entry: Entry) {
        let identity = entry.group();
        let own = entry.tail_bytes();
        match self.groups.back_mut() {
            Some(group) if group.identity == identity => {
                group.entries += 1;
                group.bytes += own;
                self.pinned_bytes += own;
            }
            _ => {
                let bytes = identity.bytes + own;
                self.groups.push_back(PinnedGroup { identity, entries: 1, bytes });
                self.pinned_bytes += bytes;
            }
        }
        self.entries.push_back((term, entry));
    }

    /// Drops all entries from `first` on.
    pub(crate) fn truncate_suffix(&mut self, first: Position) {
        let kept = first.0.saturating_sub(self.base_index.0 + 1) as usize;
        for _ in kept..self.entries.len() {
            self.entries.pop_back();
            if let Some(group) = self.groups.back_mut() {
                group.entries -= 1;
                if group.entries == 0 {
                    self.pinned_bytes -= group.bytes;
                    self.groups.pop_back();
                }
            }
        }
    }

    /// Drops executed entries from the front until no more than `limit` bytes are pinned or `executed` is reached.
    pub(crate) fn trim(&mut self, executed: Position, limit: usize) {
        while self.pinned_bytes > limit {
            // A group gives its memory back only as a whole.
            let Some(group) = self.groups.front().copied() else { return };
            if self.base_index.0 + group.entries as u64 > executed.0 {
                return;
            }
            if let Some((term, _)) = self.entries.drain(..group.entries).next_back() {
                self.base_term = term;
            }
            self.base_index = Position(self.base_index.0 + group.entries as u64);
            self.pinned_bytes -= group.bytes;
            self.groups.pop_front();
        }
    }

    /// Drops everything: the log goes on above a snapshot.
    pub(crate) fn reset(&mut self, index: Position, term: Term) {
        *self = Log { base_index: index, base_term: term, ..Log::default() };
    }

    /// The index below the tail that ends at `end`: at most so many entries and bytes of them lie above it. Not below the base.
    pub(crate) fn below_tail(&self, end: Position, entries: usize, bytes: usize) -> Position {
        let held = (end.0.saturating_sub(self.base_index.0) as usize).min(self.entries.len());
        let (mut kept, mut kept_bytes) = (0, 0);
        for (_, entry) in self.entries.range(..held).rev().take(entries) {
            kept_bytes += entry.encoded_length();
            if kept_bytes > bytes {
                break;
            }
            kept += 1;
        }
        Position(end.0 - kept)
    }

    /// The first index of the run of entries with the term of `index`, not below `floor`.
    pub(crate) fn first_of_term(&self, index: Position, floor: Position) -> Position {
        let Some(term) = self.term_at(index) else { return index };
        // Terms never fall along the log.
        let before = self.entries.partition_point(|(at, _)| *at < term);
        Position(self.base_index.0 + before as u64 + 1).max(floor).min(index)
    }

    /// The last index at or below `index` whose entry has a term of at most `term`; the base if there is none.
    pub(crate) fn last_not_above_term(&self, index: Position, term: Term) -> Position {
        let not_above = self.entries.partition_point(|(at, _)| *at <= term);
        Position(self.base_index.0 + not_above as u64).min(index)
    }

    fn slot(&self, index: Position) -> Option<usize> {
        let slot = index.0.checked_sub(self.base_index.0 + 1)? as usize;
        (slot < self.entries.len()).then_some(slot)
    }
}

/// Builds the entries of one turn, numbered from the end of a log.
pub(crate) struct NewEntries {
    builder: GroupBuilder,
    term: Term,
    next: Position,
}

impl NewEntries {
    pub(crate) fn after(log: &Log, term: Term, bytes: usize, entries: usize) -> NewEntries {
        NewEntries { builder: GroupBuilder::with_capacity(bytes, entries), term, next: log.last_index().next() }
    }

    /// The index that the next entry will have.
    pub(crate) fn next_index(&self) -> Position {
        self.next
    }

    pub(crate) fn push(&mut self, kind: EntryKind, payload: &Bytes) {
        self.builder.push(kind, &entry_head(self.term, self.next), payload);
        self.next = self.next.next();
    }

    pub(crate) fn finish(self) -> Vec<Entry> {
        self.builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn append(log: &mut Log, term: u64, count: usize, payload_bytes: usize) {
        let mut new = NewEntries::after(log, Term(term), 0, 0);
        for _ in 0..count {
            new.push(EntryKind::Request, &Bytes::from(vec![7; payload_bytes]));
        }
        new.finish().into_iter().for_each(|entry| log.push(Term(term), entry));
    }

    #[test]
    fn a_group_is_counted_whole_until_its_last_entry_has_gone() {
        let mut log = Log::default();
        append(&mut log, 1, 10, 100);
        let group = log.pinned_bytes();
        assert_eq!(group, 10 * (10 + 16 + 100), "ten entries in one buffer");
        log.trim(Position(9), 0);
        assert_eq!(
            (log.pinned_bytes(), log.base_index()),
            (group, Position(0)),
            "nine of ten executed: all still pinned"
        );
        log.truncate_suffix(Position(2));
        assert_eq!(log.pinned_bytes(), group, "one entry left, the whole buffer pinned");
        log.trim(Position(1), 0);
        assert_eq!((log.pinned_bytes(), log.base_index()), (0, Position(1)));
    }

    #[test]
    fn a_large_payload_is_counted_beside_its_group() {
        let mut log = Log::default();
        append(&mut log, 1, 1, 5_000);
        assert_eq!(log.pinned_bytes(), 10 + 16 + 5_000);
    }

    #[test]
    fn the_base_keeps_the_term_of_its_own_entry() {
        let mut log = Log::default();
        append(&mut log, 1, 2, 10);
        append(&mut log, 5, 2, 10);
        log.trim(Position(2), 0);
        assert_eq!(
            (log.base_index(), log.term_at(Position(2)), log.term_at(Position(1))),
            (Position(2), Some(Term(1)), None)
        );
        log.trim(Position(4), 0);
        assert_eq!((log.last_index(), log.last_term()), (Position(4), Term(5)), "an empty log keeps its end");
    }

    #[test]
    fn a_tail_is_bounded_in_entries_and_in_bytes_and_by_what_is_there() {
        let mut log = Log::default();
        append(&mut log, 1, 10, 74);
        assert_eq!(log.below_tail(Position(8), 3, 10_000), Position(5));
        assert_eq!(log.below_tail(Position(8), 100, 250), Position(6), "two of 100 bytes each");
        assert_eq!(log.below_tail(Position(8), 100, 10_000), Position(0));
        log.reset(Position(20), Term(2));
        append(&mut log, 2, 5, 74);
        assert_eq!(log.below_tail(Position(22), 100, 10_000), Position(20));
        assert_eq!((log.below_tail(Position(20), 9, 9), log.last_index()), (Position(20), Position(25)));
    }

    proptest! {
        /// Pushing, truncating and trimming agree with a plain list, and memory is counted exactly.
        #[test]
        fn the_log_agrees_with_a_plain_list(steps in prop::collection::vec((0u8..3, 1u64..6, 1usize..4), 1..60)) {
            let mut log = Log::default();
            let (mut model, mut base): (Vec<(Term, Entry)>, u64) = (Vec::new(), 0);
            for (step, number, size) in steps {
                match step {
                    0 => {
                        let before = log.last_index();
                        append(&mut log, number, size, size * 10);
                        model.extend(log.from(before.next()).cloned());
                    }
                    1 => {
                        let first = log.last_index().0.saturating_sub(number).max(base) + 1;
                        log.truncate_suffix(Position(first));
                        model.truncate((first - base - 1) as usize);
                    }
                    _ => {
                        let executed = base + number;
                        log.trim(Position(executed), 0);
                        let dropped = log.base_index().0 - base;
                        prop_assert!(log.base_index().0 <= executed.max(base));
                        model.drain(..dropped as usize);
                        base += dropped;
                    }
                }
                prop_assert_eq!(log.from(Position(base + 1)).cloned().collect::<Vec<_>>(), model.clone());
                let mut groups: Vec<GroupIdentity> = model.iter().map(|(_, entry)| entry.group()).collect();
                groups.dedup();
                prop_assert_eq!(log.pinned_bytes(), groups.iter().map(|group| group.bytes).sum::<usize>());
            }
        }
    }
}
