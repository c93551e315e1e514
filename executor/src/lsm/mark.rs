//! The record that says whose state the store holds, and which moment of it.
//!
//! ```text
//! | version: 4 | cluster: 16 | position: 8 | block: 32 | limits: 32 | next stamp: 8 | next long number: 8 |
//! ```

use crate::replicated_limits::ReplicatedLimits;
use quorate_framework::{BlockId, ClusterId, Position};

/// The version of the format of a store. 2: with the cluster.
pub(super) const VERSION: u32 = 2;
pub(super) const MARK_BYTES: usize = 108;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) cluster: ClusterId,
    pub(super) position: Position,
    pub(super) block: BlockId,
    pub(super) limits: ReplicatedLimits,
    /// The stamp that the next session to become the most recent one gets.
    pub(super) next_stamp: u64,
    /// The number that the next head of long keys gets.
    pub(super) next_long: u64,
}

impl Mark {
    /// That of an empty state.
    pub(super) fn first(cluster: ClusterId, limits: ReplicatedLimits) -> Mark {
        let (position, block) = (Position::ZERO, BlockId::default());
        Mark { cluster, position, block, limits, next_stamp: 0, next_long: 0 }
    }

    pub(super) fn encode(&self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..4].copy_from_slice(&VERSION.to_le_bytes());
        bytes[4..20].copy_from_slice(&self.cluster.0);
        bytes[20..28].copy_from_slice(&self.position.0.to_le_bytes());
        bytes[28..60].copy_from_slice(&self.block.0);
        bytes[60..92].copy_from_slice(&self.limits.to_bytes());
        bytes[92..100].copy_from_slice(&self.next_stamp.to_le_bytes());
        bytes[100..].copy_from_slice(&self.next_long.to_le_bytes());
        bytes
    }

    /// The version of a mark, of whatever version.
    pub(super) fn version(bytes: &[u8]) -> Option<u32> {
        bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// None if this is not a mark of this version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Mark> {
        let bytes: &[u8; MARK_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        if bytes[..4] != VERSION.to_le_bytes() {
            return None;
        }
        Some(Mark {
            cluster: ClusterId(*bytes[4..].first_chunk()?),
            position: Position(number(20)),
            block: BlockId(*bytes[28..].first_chunk()?),
            limits: ReplicatedLimits::from_bytes(bytes[60..].first_chunk()?),
            next_stamp: number(92),
            next_long: number(100),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsm::{LsmOptions, LsmStore, keys};

    #[test]
    fn a_mark_reads_back_and_one_of_another_version_or_length_is_none() {
        let mark = Mark {
            cluster: ClusterId([9; 16]),
            position: Position(3),
            block: BlockId([4; 32]),
            limits: ReplicatedLimits { key_bytes: 77, ..ReplicatedLimits::default() },
            next_stamp: 5,
            next_long: 6,
        };
        let mut bytes = mark.encode();
        assert_eq!(Mark::decode(&bytes), Some(mark));
        assert_eq!(Mark::decode(&bytes[..107]), None);
        bytes[0] = 1;
        assert_eq!((Mark::decode(&bytes), Mark::version(&bytes)), (None, Some(1)));
    }

    #[test]
    fn a_store_of_another_version_is_told_from_a_damaged_one_and_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let open = || LsmStore::open(directory.path(), 1, LsmOptions::default(), Position::ZERO).map(drop);
        let store = LsmStore::create(directory.path(), 1, LsmOptions::default(), ReplicatedLimits::default()).unwrap();
        let store = store.into_store();
        let mut mark = store.mark.encode();
        mark[..4].copy_from_slice(&7_u32.to_le_bytes());
        store.tree.keyspace.insert(keys::MARK, mark).unwrap();
        drop(store);
        for _ in 0..2 {
            let refused = open().unwrap_err();
            assert!(!refused.must_rebuild());
            let told = "the store has format version 7, this program reads version 2: use the version of this program that wrote it";
            assert_eq!(refused.to_string(), told);
        }
    }
}
