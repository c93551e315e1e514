//! Headers, sections and the end of a snapshot file, as `docs/SNAPSHOT-FORMAT.md` draws them.

use crate::replicated_limits::ReplicatedLimits;
use crate::snapshot::error::SnapshotError;
use quorate_framework::{BlockId, ClusterId, Position, SnapshotBase, WireError, limits};

/// A section is closed by the item with which its body reaches this size, in bytes.
pub const SECTION_BYTES: usize = 128 << 10;
/// The body of a section at most, in bytes: the largest item stands behind what does not close the section.
pub const SECTION_BYTES_MAX: usize = SECTION_BYTES + limits::PAYLOAD_BYTES;
/// The body of a header at most, in bytes.
pub const HEADER_BYTES_MAX: usize = 256 << 10;

pub(super) const MAGIC: [u8; 8] = *b"QUORSNAP";
pub(super) const VERSION: u32 = 1;
pub(super) const PREFIX_BYTES: usize = 20;
pub(super) const SECTION_HEAD_BYTES: usize = 16;
const END_MARK: [u8; 8] = *b"QUORDONE";
const END_BYTES: usize = 88;
const HEADER_FIXED_BYTES: usize = 96;
/// Bytes of an entry's two lengths.
pub(super) const ENTRY_HEAD_BYTES: usize = 8;

/// What stands before the state itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The cluster whose state it is.
    pub cluster: ClusterId,
    /// The position, and what the protocol knows of it: its part and the membership as of there.
    pub base: SnapshotBase,
    /// The block that stands at the position.
    pub block: BlockId,
    /// The limits of the replicated state.
    pub limits: ReplicatedLimits,
}

/// What a snapshot file holds, from its end section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// The last position whose effects it holds.
    pub position: Position,
    /// Sessions.
    pub sessions: u64,
    /// Stored answers of all sessions.
    pub answers: u64,
    /// Keys.
    pub entries: u64,
    /// Bytes of keys and values.
    pub content_bytes: u64,
    /// Sections before the end.
    pub sections: u64,
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// The blake3 hash of everything before the end section.
    pub hash: [u8; 32],
}

/// Kinds of sections, in the order in which they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SectionKind {
    Sessions = 1,
    Entries = 2,
    End = 3,
}

/// The first bytes of a section, checked as far as they can be alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectionHead {
    pub(super) kind: SectionKind,
    pub(super) items: u32,
    pub(super) length: usize,
    crc: u32,
    /// The CRC of the first twelve bytes, to be continued over the body.
    crc_begun: u32,
}

pub(super) fn meaningless(what: &'static str, value: u64) -> WireError {
    WireError::Meaningless { what, value }
}

/// Takes an array off the front of bytes whose length was checked.
fn array<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (taken, behind) = rest.split_first_chunk::<N>().expect("the caller checked the length");
    *rest = behind;
    *taken
}

fn crc_of(pieces: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    hasher.finalize()
}

impl SnapshotHeader {
    /// Appends the header's bytes.
    pub(super) fn encode(&self, output: &mut Vec<u8>) -> Result<(), SnapshotError> {
        let (protocol, membership) = (&self.base.protocol, &self.base.membership);
        let length = HEADER_FIXED_BYTES + protocol.len() + membership.len();
        if length > HEADER_BYTES_MAX {
            let reason =
                WireError::TooLarge { what: "snapshot header", value: length as u64, limit: HEADER_BYTES_MAX as u64 };
            return Err(SnapshotError::Damaged { offset: 0, reason });
        }
        let mut body = Vec::with_capacity(length);
        body.extend_from_slice(&self.cluster.0);
        body.extend_from_slice(&self.base.position.0.to_le_bytes());
        body.extend_from_slice(&self.block.0);
        body.extend_from_slice(&self.limits.to_bytes());
        body.extend_from_slice(&(protocol.len() as u32).to_le_bytes());
        body.extend_from_slice(&(membership.len() as u32).to_le_bytes());
        body.extend_from_slice(protocol);
        body.extend_from_slice(membership);
        let start = output.len();
        output.extend_from_slice(&MAGIC);
        output.extend_from_slice(&VERSION.to_le_bytes());
        output.extend_from_slice(&(length as u32).to_le_bytes());
        let crc = crc_of(&[&output[start..], &body]);
        output.extend_from_slice(&crc.to_le_bytes());
        output.extend_from_slice(&body);
        Ok(())
    }

    /// The length of the body that follows these first bytes.
    pub(super) fn body_bytes(prefix: &[u8; PREFIX_BYTES]) -> Result<usize, SnapshotError> {
        let mut rest = &prefix[..];
        let damaged = |reason| SnapshotError::Damaged { offset: 0, reason };
        if array::<8>(&mut rest) != MAGIC {
            let reason = "it does not begin as every snapshot does".to_owned();
            return Err(damaged(WireError::Undecodable { what: "snapshot", reason }));
        }
        let found = u32::from_le_bytes(array(&mut rest));
        if found != VERSION {
            return Err(SnapshotError::UnknownVersion { found, known: VERSION });
        }
        let length = u32::from_le_bytes(array(&mut rest)) as usize;
        if !(HEADER_FIXED_BYTES..=HEADER_BYTES_MAX).contains(&length) {
            return Err(damaged(meaningless("snapshot header length", length as u64)));
        }
        Ok(length)
    }

    /// Reads the header.
    pub(super) fn decode(prefix: &[u8; PREFIX_BYTES], body: &[u8]) -> Result<SnapshotHeader, WireError> {
        let (covered, crc) = prefix.split_at(16);
        if crc != crc_of(&[covered, body]).to_le_bytes() {
            return Err(WireError::Checksum { what: "snapshot header" });
        }
        let mut rest = body;
        if rest.len() < HEADER_FIXED_BYTES {
            let (needed, present) = (HEADER_FIXED_BYTES, rest.len());
            return Err(WireError::Short { what: "snapshot header", needed, present });
        }
        let cluster = ClusterId(array(&mut rest));
        let position = Position(u64::from_le_bytes(array(&mut rest)));
        let block = BlockId(array(&mut rest));
        let limits = ReplicatedLimits::from_bytes(&array(&mut rest));
        let protocol_bytes = u32::from_le_bytes(array(&mut rest)) as usize;
        let membership_bytes = u32::from_le_bytes(array(&mut rest)) as usize;
        if protocol_bytes.checked_add(membership_bytes) != Some(rest.len()) {
            return Err(meaningless("lengths in the snapshot header", protocol_bytes as u64));
        }
        let (protocol, membership) = rest.split_at(protocol_bytes);
        let base = SnapshotBase { position, protocol: protocol.to_vec(), membership: membership.to_vec() };
        Ok(SnapshotHeader { cluster, base, block, limits })
    }
}

/// Appends a section.
pub(super) fn put_section(kind: SectionKind, items: u32, body: &[u8], output: &mut Vec<u8>) {
    let start = output.len();
    output.extend_from_slice(&(kind as u32).to_le_bytes());
    output.extend_from_slice(&items.to_le_bytes());
    output.extend_from_slice(&(body.len() as u32).to_le_bytes());
    let crc = crc_of(&[&output[start..], body]);
    output.extend_from_slice(&crc.to_le_bytes());
    output.extend_from_slice(body);
}

impl SectionHead {
    /// Reads a section's first bytes, of which `left` bytes of the file follow.
    pub(super) fn decode(bytes: &[u8; SECTION_HEAD_BYTES], left: u64) -> Result<SectionHead, WireError> {
        let mut rest = &bytes[..];
        let kind = match u32::from_le_bytes(array(&mut rest)) {
            1 => SectionKind::Sessions,
            2 => SectionKind::Entries,
            3 => SectionKind::End,
            other => return Err(meaningless("kind of section", u64::from(other))),
        };
        let items = u32::from_le_bytes(array(&mut rest));
        let length = u64::from(u32::from_le_bytes(array(&mut rest)));
        let crc = u32::from_le_bytes(array(&mut rest));
        if items == 0 || length == 0 {
            return Err(meaningless("empty section", length));
        }
        if length > SECTION_BYTES_MAX as u64 {
            return Err(WireError::TooLarge { what: "section", value: length, limit: SECTION_BYTES_MAX as u64 });
        }
        if length > left {
            return Err(WireError::Short { what: "section", needed: length as usize, present: left as usize });
        }
        let crc_begun = crc_of(&[&bytes[..12]]);
        Ok(SectionHead { kind, items, length: length as usize, crc, crc_begun })
    }

    /// Checks the body.
    pub(super) fn check(&self, body: &[u8]) -> Result<(), WireError> {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.crc_begun);
        hasher.update(body);
        if hasher.finalize() == self.crc { Ok(()) } else { Err(WireError::Checksum { what: "section" }) }
    }
}

impl SnapshotSummary {
    /// Appends the end section. The position stands in the header.
    pub(super) fn encode(&self, output: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(END_BYTES);
        for number in [self.sessions, self.answers, self.entries, self.content_bytes, self.sections, self.file_bytes] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.extend_from_slice(&self.hash);
        body.extend_from_slice(&END_MARK);
        put_section(SectionKind::End, 1, &body, output);
    }

    /// Bytes of the end section.
    pub(super) const END_SECTION_BYTES: usize = SECTION_HEAD_BYTES + END_BYTES;

    /// Reads the end section of a snapshot of `position`.
    pub(super) fn decode(body: &[u8], position: Position) -> Result<SnapshotSummary, WireError> {
        if body.len() != END_BYTES {
            return Err(meaningless("length of the end section", body.len() as u64));
        }
        let mut rest = body;
        let mut number = || u64::from_le_bytes(array(&mut rest));
        let [sessions, answers, entries, content_bytes, sections, file_bytes] = std::array::from_fn(|_| number());
        let hash = array(&mut rest);
        if array::<8>(&mut rest) != END_MARK {
            return Err(meaningless("end mark", u64::from(body[END_BYTES - 8])));
        }
        Ok(SnapshotSummary { position, sessions, answers, entries, content_bytes, sections, file_bytes, hash })
    }
}
