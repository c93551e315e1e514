//! The record that says which moment the store holds.
//!
//! ```text
//! | version: 4 | position: 8 | block: 32 | limits: 32 | next stamp: 8 | next long number: 8 |
//! ```

use crate::replicated_limits::ReplicatedLimits;
use quorate_framework::{BlockId, Position};

const VERSION: u32 = 1;
pub(super) const MARK_BYTES: usize = 92;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) position: Position,
    pub(super) block: BlockId,
    pub(super) limits: ReplicatedLimits,
    /// The stamp that the next session to become the most recent one gets.
    pub(super) next_stamp: u64,
    /// The number that the next head of long keys gets.
    pub(super) next_long: u64,
}

impl Mark {
    pub(super) fn encode(&self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..4].copy_from_slice(&VERSION.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.position.0.to_le_bytes());
        bytes[12..44].copy_from_slice(&self.block.0);
        bytes[44..76].copy_from_slice(&self.limits.to_bytes());
        bytes[76..84].copy_from_slice(&self.next_stamp.to_le_bytes());
        bytes[84..].copy_from_slice(&self.next_long.to_le_bytes());
        bytes
    }

    /// None if this is not a mark of this version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Mark> {
        let bytes: &[u8; MARK_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        if bytes[..4] != VERSION.to_le_bytes() {
            return None;
        }
        Some(Mark {
            position: Position(number(4)),
            block: BlockId(*bytes[12..].first_chunk()?),
            limits: ReplicatedLimits::from_bytes(bytes[44..].first_chunk()?),
            next_stamp: number(76),
            next_long: number(84),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_and_one_of_another_version_or_length_is_none() {
        let mark = Mark {
            position: Position(3),
            block: BlockId([4; 32]),
            limits: ReplicatedLimits { key_bytes: 77, ..ReplicatedLimits::default() },
            next_stamp: 5,
            next_long: 6,
        };
        let mut bytes = mark.encode();
        assert_eq!(Mark::decode(&bytes), Some(mark));
        assert_eq!(Mark::decode(&bytes[..91]), None);
        bytes[0] = 2;
        assert_eq!(Mark::decode(&bytes), None);
    }
}
