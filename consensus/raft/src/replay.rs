//! What Raft starts from: the state that replaying its records rebuilds.

use crate::record::{HardState, RaftRecord};
use crate::term::{Term, read_entry_head};
use quorate_framework::entry::Entry;
use quorate_framework::{Completion, MemberVector, Position, ReplayError, SnapshotBase, control};

/// What the metadata file says of a Raft snapshot: the members are those as of its position.
#[must_use]
pub fn snapshot_base(position: Position, term: Term, members: &MemberVector) -> SnapshotBase {
    let mut membership = Vec::new();
    control::encode(members, &mut membership);
    SnapshotBase { position, protocol: term.0.to_le_bytes().to_vec(), membership }
}

/// What Raft starts from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RaftState {
    /// Term and vote.
    pub hard_state: HardState,
    /// The entry before the first one in the log: index and term. After a start, entries that the snapshot covers stay in the log as
    /// far as it holds them: they serve followers that are only a little behind.
    pub base: (Position, Term),
    /// The last entry the snapshot covers: index and term; zero without a snapshot. All up to it is committed. Not below the base.
    pub snapshot: (Position, Term),
    /// The member list as of the snapshot, if there is one.
    pub snapshot_members: Option<MemberVector>,
    /// The log above the base.
    pub entries: Vec<Entry>,
    /// Where replay stands; the default before and after it.
    pub replay: ReplayCursor,
}

/// What only the replay needs to know. While it runs, [`RaftState::entries`] may begin below the base: a log is cut by whole segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReplayCursor {
    /// The snapshot the metadata names.
    snapshot: Position,
    /// The index that must come next while the log is empty; none if any index up to the one after the base may.
    next: Option<Position>,
    /// The latest reset: nothing at or below it may be truncated after it.
    reset: Position,
}

impl RaftState {
    /// Where replay begins: at the snapshot the metadata names, if it names one.
    pub(crate) fn of_snapshot(snapshot: Option<&SnapshotBase>) -> Result<RaftState, ReplayError> {
        let Some(snapshot) = snapshot else { return Ok(RaftState::default()) };
        let term: [u8; 8] = snapshot
            .protocol
            .as_slice()
            .try_into()
            .map_err(|_| ReplayError(format!("the snapshot at {} names no term", snapshot.position)))?;
        let replay = ReplayCursor { snapshot: snapshot.position, ..ReplayCursor::default() };
        let members = control::decode("member list of the snapshot", &snapshot.membership)
            .map_err(|error| ReplayError(error.to_string()))?;
        let base = (snapshot.position, Term(u64::from_le_bytes(term)));
        Ok(RaftState { base, snapshot: base, snapshot_members: Some(members), replay, ..RaftState::default() })
    }

    /// All records were replayed: what must be appended so that the next start finds the same.
    pub(crate) fn complete(&mut self) -> Result<Completion<RaftRecord>, ReplayError> {
        let (base, base_term) = self.base;
        let snapshot = self.replay.snapshot;
        if base != snapshot {
            return Err(ReplayError(format!(
                "the log was reset to {base}, and the metadata names a snapshot at {snapshot}"
            )));
        }
        let mut completion = Completion::default();
        match self.next() {
            // The install named its snapshot and was cut off before the log was reset: that is done now.
            Some(next) if next <= base || self.contradicts(base, base_term) => {
                self.reset(base, base_term);
                completion.records.push(RaftRecord::Reset { position: base, term: base_term });
            }
            Some(next) if self.entries.is_empty() && next > base.next() => {
                return Err(ReplayError(format!("entries {} to {} are missing", base.next(), next.0 - 1)));
            }
            _ => {}
        }
        self.snapshot = (base, base_term);
        self.begin_below_the_snapshot()?;
        self.replay = ReplayCursor::default();
        let highest = self.entries.last().map_or(Ok(base_term), term_of)?.max(base_term);
        if highest > self.hard_state.term {
            completion.anomalies.push(format!(
                "the log knows term {highest}, the metadata only term {}: term {highest} is taken",
                self.hard_state.term
            ));
            // The core takes the larger term at its start, and votes for nobody else in it: which vote it gave is not known.
        }
        Ok(completion)
    }

    /// Index of the first entry held.
    fn first(&self) -> Option<Position> {
        let entry = self.entries.first()?;
        read_entry_head(entry.head()).ok().map(|(_, index)| index)
    }

    /// The index that must come next; none if nothing was replayed yet.
    fn next(&self) -> Option<Position> {
        match self.first() {
            Some(first) => Some(Position(first.0 + self.entries.len() as u64)),
            None => self.replay.next,
        }
    }

    /// Place of an index in `entries`.
    fn place_of(&self, index: Position) -> Option<usize> {
        let place = index.0.checked_sub(self.first()?.0)? as usize;
        (place < self.entries.len()).then_some(place)
    }

    /// Whether the log holds an entry at this index with another term.
    fn contradicts(&self, index: Position, term: Term) -> bool {
        self.place_of(index).is_some_and(|place| term_of(&self.entries[place]) != Ok(term))
    }

    pub(crate) fn append(&mut self, entry: Entry) -> Result<(), ReplayError> {
        let (_, index) = read_entry_head(entry.head()).map_err(|error| ReplayError(error.to_string()))?;
        let highest = self.base.0.next();
        match self.next() {
            Some(expected) if index != expected => {
                return Err(ReplayError(format!("entry {index} where {expected} is next")));
            }
            None if index > highest || index == Position::ZERO => {
                return Err(ReplayError(format!("entry {index} where {highest} is next")));
            }
            _ => self.entries.push(entry),
        }
        Ok(())
    }

    pub(crate) fn truncate(&mut self, from: Position) -> Result<(), ReplayError> {
        // What the snapshot holds was truncated, if ever, before the snapshot; but after a reset it never is.
        let floor =
            self.replay.reset.max(if self.replay.snapshot == Position::ZERO { self.base.0 } else { Position::ZERO });
        if from <= floor {
            return Err(ReplayError(format!("truncation from {from}, at or below the log's base {floor}")));
        }
        let end = self.next().unwrap_or(self.base.0.next());
        if from > end {
            return Err(ReplayError(format!("truncation from {from}, and the log ends before {end}")));
        }
        match self.first() {
            Some(first) if from > first => self.entries.truncate((from.0 - first.0) as usize),
            _ => {
                self.entries.clear();
                self.replay.next = Some(from);
            }
        }
        Ok(())
    }

    pub(crate) fn reset(&mut self, position: Position, term: Term) {
        let stays = self.place_of(position).is_some_and(|place| term_of(&self.entries[place]) == Ok(term));
        if !stays {
            self.entries.clear();
            self.replay.next = Some(position.next());
        }
        self.replay.reset = self.replay.reset.max(position);
        if position > self.base.0 {
            self.base = (position, term);
            self.drop_up_to(position);
        }
    }

    /// Entries that the snapshot covers stay; the first of them becomes the base, since the term before it is not known.
    fn begin_below_the_snapshot(&mut self) -> Result<(), ReplayError> {
        if let Some(first) = self.first().filter(|first| *first <= self.base.0) {
            self.base = (first, term_of(&self.entries[0])?);
            self.entries.remove(0);
        }
        Ok(())
    }

    fn drop_up_to(&mut self, position: Position) {
        let Some(first) = self.first().filter(|first| *first <= position) else { return };
        let next = self.next();
        self.entries.drain(..((position.0 - first.0 + 1) as usize).min(self.entries.len()));
        if self.entries.is_empty() {
            self.replay.next = next;
        }
    }
}

fn term_of(entry: &Entry) -> Result<Term, ReplayError> {
    read_entry_head(entry.head()).map(|(term, _)| term).map_err(|error| ReplayError(error.to_string()))
}

#[cfg(test)]
#[path = "replay_tests.rs"]
pub(crate) mod tests;
