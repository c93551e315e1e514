//! Where things lie in the one keyspace: the first byte of a key says what it is.
//!
//! The tree holds keys of fewer than 65,536 bytes, the state longer ones. A key of [`LONG_KEY_BYTES`] or more is kept in two steps: under
//! its first bytes stands a number, and under number and rest the value. The order stays: nothing but long keys begins with all of
//! their first bytes.

use quorate_framework::{Position, SessionId};
use std::ops::Bound;

/// Keys from this length on are long, in bytes.
pub(super) const LONG_KEY_BYTES: usize = 65_000;
/// A key at most, in bytes: the rest of a long one must still be a key of the tree.
pub(super) const KEY_BYTES_MAX: usize = LONG_KEY_BYTES + 65_000;

pub(super) const MARK: [u8; 1] = [0x00];
pub(super) const SESSIONS: u8 = 0x01;
pub(super) const ANSWERS: u8 = 0x02;
pub(super) const ENTRIES: u8 = 0x10;
const LONG: u8 = 0x11;

fn prefixed(prefix: u8, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + rest.len());
    key.push(prefix);
    key.extend_from_slice(rest);
    key
}

fn put_session(key: &mut Vec<u8>, id: SessionId) {
    key.extend_from_slice(&id.position.0.to_be_bytes());
    key.extend_from_slice(&id.offset.to_be_bytes());
}

pub(super) fn session(id: SessionId) -> Vec<u8> {
    let mut key = vec![SESSIONS];
    put_session(&mut key, id);
    key
}

pub(super) fn answer(id: SessionId, sequence: u64) -> Vec<u8> {
    let mut key = vec![ANSWERS];
    put_session(&mut key, id);
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}

/// The session that a key behind its first byte names, and what follows it.
pub(super) fn read_session(rest: &[u8]) -> Option<(SessionId, &[u8])> {
    let (position, rest) = rest.split_first_chunk()?;
    let (offset, rest) = rest.split_first_chunk()?;
    let position = Position(u64::from_be_bytes(*position));
    Some((SessionId { position, offset: u32::from_be_bytes(*offset) }, rest))
}

/// Where the value of an entry's key lies, or, for a long one, where its number does; then also the rest of it.
pub(super) fn entry(key: &[u8]) -> (Vec<u8>, Option<&[u8]>) {
    match key.split_at_checked(LONG_KEY_BYTES) {
        Some((head, rest)) => (prefixed(ENTRIES, head), Some(rest)),
        None => (prefixed(ENTRIES, key), None),
    }
}

/// Whether a key among the entries is the head of long ones.
pub(super) fn is_long_head(physical: &[u8]) -> bool {
    physical.len() == 1 + LONG_KEY_BYTES
}

/// Where the value of a long key lies.
pub(super) fn long(number: u64, rest: &[u8]) -> Vec<u8> {
    let mut key = prefixed(LONG, &number.to_be_bytes());
    key.extend_from_slice(rest);
    key
}

/// All keys of a kind.
pub(super) fn all(prefix: u8) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (Bound::Included(vec![prefix]), Bound::Excluded(vec![prefix + 1]))
}

/// All long keys of a number.
pub(super) fn all_long(number: u64) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (Bound::Included(long(number, &[])), Bound::Excluded(long(number + 1, &[])))
}

/// The keys that hold everything between two bounds of entries' keys; heads of long keys at the bounds are among them.
pub(super) fn entries_between(from: Bound<&[u8]>, to: Bound<&[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bound = |bound: Bound<&[u8]>, open: u8| match bound {
        Bound::Unbounded => Bound::Included(vec![open]),
        Bound::Included(key) => Bound::Included(entry(key).0),
        Bound::Excluded(key) => match entry(key) {
            (physical, None) => Bound::Excluded(physical),
            (head, Some(_)) => Bound::Included(head),
        },
    };
    let from = bound(from, ENTRIES);
    // Nothing lies at the bare first byte of what follows the entries.
    let to = bound(to, ENTRIES + 1);
    (from, to)
}
