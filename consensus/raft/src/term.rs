//! Terms, and where an entry says which term and index it has.

use quorate_framework::{BlockId, Position, WireError};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A term: at most one leader each (Raft §5.1). 0 is before the first election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(pub u64);

impl Term {
    /// Before the first election.
    pub const ZERO: Term = Term(0);

    /// The term after this one.
    #[must_use]
    pub fn next(self) -> Term {
        Term(self.0 + 1)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// Bytes of Raft's head of an entry: term, then index, little-endian.
pub(crate) const ENTRY_HEAD_BYTES: usize = 16;

pub(crate) fn entry_head(term: Term, index: Position) -> [u8; ENTRY_HEAD_BYTES] {
    let mut head = [0; ENTRY_HEAD_BYTES];
    head[..8].copy_from_slice(&term.0.to_le_bytes());
    head[8..].copy_from_slice(&index.0.to_le_bytes());
    head
}

/// Reads the head of an entry that came from a peer or from the log.
pub(crate) fn read_entry_head(head: &[u8]) -> Result<(Term, Position), WireError> {
    let (Some((term, rest)), ENTRY_HEAD_BYTES) = (head.split_first_chunk::<8>(), head.len()) else {
        return Err(WireError::Meaningless { what: "length of an entry's Raft head", value: head.len() as u64 });
    };
    let index = rest.first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk));
    Ok((Term(u64::from_le_bytes(*term)), Position(index)))
}

/// The block at an index: its term and index, not hashed.
#[must_use]
pub fn block_of(term: Term, index: Position) -> BlockId {
    let mut block = [0; 32];
    block[..8].copy_from_slice(&term.0.to_be_bytes());
    block[8..16].copy_from_slice(&index.0.to_be_bytes());
    BlockId(block)
}

/// The term of a block that stands at this index; none if it is no block of Raft at that index.
pub(crate) fn term_of(block: BlockId, index: Position) -> Option<Term> {
    let term = Term(block.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)));
    (block_of(term, index) == block).then_some(term)
}
