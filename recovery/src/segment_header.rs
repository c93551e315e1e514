//! The first block of a segment.

use crate::format::{BLOCK_BYTES, SEGMENT_VERSION, u32_at, u64_at};
use quorate_framework::{ClusterId, ReplicaId};

const LIVE: &[u8; 8] = b"QUORLIVE";
const FREE: &[u8; 8] = b"QUORFREE";
/// Where the CRC stands; it covers all before it.
const CHECKSUM_OFFSET: usize = 60;

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentUse {
    /// Part of the log, or about to be.
    Live,
    /// May be used again.
    Free,
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// What the segment is.
    pub(crate) usage: SegmentUse,
    /// The replica whose it is.
    pub(crate) replica: ReplicaId,
    /// The cluster whose it is.
    pub(crate) cluster: ClusterId,
    /// Of this life of the segment; 0 in a free one.
    pub(crate) salt: u64,
    /// Sequence of the first group; 0 in a free one.
    pub(crate) first_group: u64,
    /// Length of the file in bytes.
    pub(crate) capacity: u64,
}

/// What block 0 of a segment file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderBlock {
    /// A header.
    Header(SegmentHeader),
    /// A header of another version of the format.
    OtherVersion(u32),
    /// No header: a segment that was never finished.
    Blank,
}

impl SegmentHeader {
    /// The whole block.
    pub(crate) fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        block[..8].copy_from_slice(match self.usage {
            SegmentUse::Live => LIVE,
            SegmentUse::Free => FREE,
        });
        block[8..12].copy_from_slice(&SEGMENT_VERSION.to_le_bytes());
        block[12..16].copy_from_slice(&self.replica.0.to_le_bytes());
        block[16..32].copy_from_slice(&self.cluster.0);
        block[32..40].copy_from_slice(&self.salt.to_le_bytes());
        block[40..48].copy_from_slice(&self.first_group.to_le_bytes());
        block[48..56].copy_from_slice(&self.capacity.to_le_bytes());
        let checksum = crc32fast::hash(&block[..CHECKSUM_OFFSET]);
        block[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 4].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    /// Reads a block.
    pub(crate) fn decode(block: &[u8; BLOCK_BYTES]) -> HeaderBlock {
        let usage = match block.first_chunk::<8>() {
            Some(LIVE) => SegmentUse::Live,
            Some(FREE) => SegmentUse::Free,
            _ => return HeaderBlock::Blank,
        };
        // Whatever the version, the CRC stands where it stands in version 1; otherwise the version itself may be damage.
        if u32_at(block, CHECKSUM_OFFSET) != crc32fast::hash(&block[..CHECKSUM_OFFSET]) {
            return HeaderBlock::Blank;
        }
        let version = u32_at(block, 8);
        if version != SEGMENT_VERSION {
            return HeaderBlock::OtherVersion(version);
        }
        let cluster = block[16..].first_chunk::<16>().copied().unwrap_or_default();
        HeaderBlock::Header(SegmentHeader {
            usage,
            replica: ReplicaId(u32_at(block, 12)),
            cluster: ClusterId(cluster),
            salt: u64_at(block, 32),
            first_group: u64_at(block, 40),
            capacity: u64_at(block, 48),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            usage: SegmentUse::Live,
            replica: ReplicaId(3),
            cluster: ClusterId([7; 16]),
            salt: 0x0102_0304_0506_0708,
            first_group: 9,
            capacity: 65_536,
        }
    }

    #[test]
    fn a_header_has_exactly_these_bytes() {
        let block = header().encode();
        let mut expected = b"QUORLIVE\x01\0\0\0\x03\0\0\0".to_vec();
        expected.extend([7; 16]);
        expected.extend([8, 7, 6, 5, 4, 3, 2, 1]);
        expected.extend([9, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0, 0, 1, 0, 0, 0, 0, 0]);
        expected.extend([0; 4]);
        expected.extend(crc32fast::hash(&expected).to_le_bytes());
        assert_eq!(block[..64], expected);
        assert_eq!(block[64..], [0; 4032]);
        assert_eq!(SegmentHeader::decode(&block), HeaderBlock::Header(header()));
        let free = SegmentHeader { usage: SegmentUse::Free, ..header() }.encode();
        assert_eq!(&free[..8], b"QUORFREE");
    }

    #[test]
    fn any_flipped_bit_makes_a_header_blank() {
        for bit in 0..64 * 8 {
            let mut block = header().encode();
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&block), HeaderBlock::Blank, "bit {bit}");
        }
    }

    #[test]
    fn a_sound_header_of_another_version_is_told_from_damage() {
        let mut block = header().encode();
        block[8] = 2;
        let checksum = crc32fast::hash(&block[..60]);
        block[60..64].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&block), HeaderBlock::OtherVersion(2));
    }
}
