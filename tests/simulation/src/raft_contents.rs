//! What a start of a Raft replica must find, given what its disk was handed: the rules of an install included.

use crate::model::Contents;
use quorate_framework::Position;
use quorate_framework::entry::Entry;
use quorate_raft::{RaftRecord, RaftState, Term};

/// Whether a start that found `found` found exactly `expected`, but for what the log may forget and what an install that was cut off
/// leaves to be finished.
#[must_use]
pub fn is_same(expected: &Contents<RaftRecord>, found: &Contents<RaftRecord>) -> bool {
    expected.members == found.members
        && expected.snapshot == found.snapshot
        && expected.state.hard_state == found.state.hard_state
        && snapshot_of(expected).is_some_and(|snapshot| is_same_log(&expected.state, snapshot, &found.state))
}

/// Position and term of the named snapshot; none if its coding is wrong.
fn snapshot_of(contents: &Contents<RaftRecord>) -> Option<(Position, Term)> {
    let Some(base) = &contents.snapshot else { return Some((Position::ZERO, Term::ZERO)) };
    let term = base.protocol.as_slice().try_into().ok().map(u64::from_le_bytes)?;
    Some((base.position, Term(term)))
}

fn is_same_log(expected: &RaftState, snapshot: (Position, Term), found: &RaftState) -> bool {
    if found.snapshot != snapshot || found.base.0 > snapshot.0 {
        return false;
    }
    if term_at(expected, snapshot.0) != Some(snapshot.1) {
        // An install that did not come to its reset, or a log that it reset.
        return found.base == snapshot && found.entries.is_empty();
    }
    let (base, last) = (found.base.0.max(expected.base.0), last_of(expected));
    last == last_of(found)
        && term_at(expected, base) == term_at(found, base)
        && (base.0 + 1..=last.0).all(|index| entry_at(expected, Position(index)) == entry_at(found, Position(index)))
}

/// Index of the last entry.
#[must_use]
pub fn last_of(state: &RaftState) -> Position {
    Position(state.base.0.0 + state.entries.len() as u64)
}

fn entry_at(state: &RaftState, index: Position) -> Option<&Entry> {
    let place = index.0.checked_sub(state.base.0.0 + 1)?;
    state.entries.get(place as usize)
}

fn term_at(state: &RaftState, index: Position) -> Option<Term> {
    if index == state.base.0 {
        return Some(state.base.1);
    }
    // The head of an entry begins with its term.
    let head = entry_at(state, index)?.head();
    head.get(..8)?.try_into().ok().map(|bytes| Term(u64::from_le_bytes(bytes)))
}
