//! The group: the unit on disk, what one sync covers.

use crate::format::{BLOCK, BLOCK_BYTES, padded, u32_at, u64_at};
use bytes::Bytes;
use quorate_framework::{Encoded, WireError};

/// Bytes of a group's header.
pub(crate) const GROUP_HEADER_BYTES: usize = 64;
/// Bytes before the head of a record.
pub(crate) const RECORD_FRAME_BYTES: usize = 12;
const MAGIC: &[u8; 4] = b"QGRP";
/// A buffer that grew beyond this for one long record gives its memory back.
const KEPT_BUFFER_BYTES: usize = 8 << 20;

/// What a record on disk is. Kind 0 is illegal, so that zeroed storage is never a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// A record of the protocol.
    Protocol = 1,
    /// A record of the protocol, written again at the head of a new segment.
    Carried = 2,
    /// The end of a segment, naming the next.
    Seal = 3,
}

impl RecordKind {
    fn from_disk(byte: u8) -> Result<RecordKind, WireError> {
        match byte {
            1 => Ok(RecordKind::Protocol),
            2 => Ok(RecordKind::Carried),
            3 => Ok(RecordKind::Seal),
            other => Err(WireError::Meaningless { what: "record kind", value: u64::from(other) }),
        }
    }
}

/// The header of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    /// One more than that of the group before.
    pub(crate) sequence: u64,
    /// That of the segment's life.
    pub(crate) salt: u64,
    /// The highest sequence known to be synced when this group was written.
    pub(crate) synced_upto: u64,
    /// Bytes of the records.
    pub(crate) length: u64,
    /// CRC of the group before.
    pub(crate) previous: u32,
    /// How many records.
    pub(crate) count: u32,
    /// CRC of all that follows the header, padding included.
    pub(crate) body_checksum: u32,
}

impl GroupHeader {
    fn encode(&self) -> [u8; GROUP_HEADER_BYTES] {
        let mut bytes = [0; GROUP_HEADER_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.salt.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.synced_upto.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.length.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.previous.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.count.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.body_checksum.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header and gives it with its CRC, which stands for the whole group; none if it is not one. `bytes` holds at least
    /// [`GROUP_HEADER_BYTES`].
    pub(crate) fn decode(bytes: &[u8]) -> Option<(GroupHeader, u32)> {
        let bytes = bytes.first_chunk::<GROUP_HEADER_BYTES>()?;
        let checksum = u32_at(bytes, 4);
        if &bytes[..4] != MAGIC || crc32fast::hash(&bytes[8..]) != checksum {
            return None;
        }
        let header = GroupHeader {
            sequence: u64_at(bytes, 8),
            salt: u64_at(bytes, 16),
            synced_upto: u64_at(bytes, 24),
            length: u64_at(bytes, 32),
            previous: u32_at(bytes, 40),
            count: u32_at(bytes, 44),
            body_checksum: u32_at(bytes, 48),
        };
        Some((header, checksum))
    }

    /// Bytes of the group on disk; none if its length is beyond all reason.
    pub(crate) fn padded_length(&self) -> Option<u64> {
        let length = self.length.checked_add(GROUP_HEADER_BYTES as u64)?;
        (length < u64::MAX - BLOCK).then(|| padded(length))
    }
}

/// Gathers the records of one group, in the form in which they are written.
#[derive(Debug)]
pub(crate) struct GroupBuffer {
    bytes: Vec<u8>,
    count: u32,
}

impl GroupBuffer {
    pub(crate) fn new() -> GroupBuffer {
        GroupBuffer { bytes: vec![0; GROUP_HEADER_BYTES], count: 0 }
    }

    /// Forgets the records; their memory is kept for the next ones, within reason.
    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(GROUP_HEADER_BYTES);
        self.bytes.shrink_to(KEPT_BUFFER_BYTES);
        self.count = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a record whose length was checked against the limit of a record.
    pub(crate) fn push(&mut self, kind: RecordKind, record: &Encoded) {
        self.push_parts(kind, &record.head, &record.body);
    }

    /// The same, of a record whose parts lie elsewhere.
    pub(crate) fn push_parts(&mut self, kind: RecordKind, head: &[u8], body: &[Bytes]) {
        let length = head.len() + body.iter().map(Bytes::len).sum::<usize>();
        let mut frame = [0; RECORD_FRAME_BYTES];
        frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
        frame[4] = kind as u8;
        frame[8..].copy_from_slice(&(head.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&frame);
        self.bytes.extend_from_slice(head);
        body.iter().for_each(|chunk| self.bytes.extend_from_slice(chunk));
        self.count += 1;
    }

    /// Bytes it will take on disk.
    pub(crate) fn padded_length(&self) -> u64 {
        padded(self.bytes.len() as u64)
    }

    /// Completes the group and gives its bytes and its CRC. Length, count and body CRC are filled in.
    pub(crate) fn finish(&mut self, sequence: u64, salt: u64, synced_upto: u64, previous: u32) -> (&[u8], u32) {
        let length = (self.bytes.len() - GROUP_HEADER_BYTES) as u64;
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        let body_checksum = crc32fast::hash(&self.bytes[GROUP_HEADER_BYTES..]);
        let header = GroupHeader { sequence, salt, synced_upto, length, previous, count: self.count, body_checksum };
        let encoded = header.encode();
        self.bytes[..GROUP_HEADER_BYTES].copy_from_slice(&encoded);
        (&self.bytes, u32_at(&encoded, 4))
    }
}

/// One record as it lies in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordView<'a> {
    /// What it is.
    pub(crate) kind: RecordKind,
    /// Its head.
    pub(crate) head: &'a [u8],
    /// Its body.
    pub(crate) body: &'a [u8],
}

/// Reads the records of a group whose CRCs are right.
///
/// # Errors
/// [`WireError`] if the records do not fill `bytes` exactly or are not `count`.
pub(crate) fn records(bytes: &[u8], count: u32) -> Result<Vec<RecordView<'_>>, WireError> {
    let mut rest = bytes;
    let mut list = Vec::new();
    while !rest.is_empty() {
        let short = |needed| WireError::Short { what: "record", needed, present: rest.len() };
        if rest.len() < RECORD_FRAME_BYTES {
            return Err(short(RECORD_FRAME_BYTES));
        }
        let (length, head_length) = (u32_at(rest, 0) as usize, u32_at(rest, 8) as usize);
        let end = RECORD_FRAME_BYTES + length;
        if end > rest.len() || head_length > length {
            return Err(short(end.max(RECORD_FRAME_BYTES + head_length)));
        }
        let (head, body) = rest[RECORD_FRAME_BYTES..end].split_at(head_length);
        list.push(RecordView { kind: RecordKind::from_disk(rest[4])?, head, body });
        rest = &rest[end..];
    }
    if list.len() != count as usize {
        return Err(WireError::Meaningless { what: "record count", value: u64::from(count) });
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn encoded(head: &'static [u8], body: &'static [u8]) -> Encoded {
        Encoded { head: Bytes::from_static(head), body: vec![Bytes::from_static(body)] }
    }

    #[test]
    fn a_group_has_exactly_these_bytes() {
        let mut buffer = GroupBuffer::new();
        buffer.push(RecordKind::Protocol, &encoded(b"hd", b"body"));
        buffer.push(RecordKind::Carried, &encoded(b"x", b""));
        let (bytes, checksum) = buffer.finish(0x0a, 0x0b, 0x09, 0x0c);
        let mut body = vec![6, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0];
        body.extend(b"hdbody");
        body.extend([1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, b'x']);
        let length = body.len() as u8;
        body.resize(4096 - 64, 0);
        let mut covered = vec![0x0a, 0, 0, 0, 0, 0, 0, 0, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0x09, 0, 0, 0, 0, 0, 0, 0];
        covered.extend([length, 0, 0, 0, 0, 0, 0, 0, 0x0c, 0, 0, 0, 2, 0, 0, 0]);
        covered.extend(crc32fast::hash(&body).to_le_bytes());
        covered.extend([0; 12]);
        assert_eq!(checksum, crc32fast::hash(&covered));
        let expected = [b"QGRP".as_slice(), &checksum.to_le_bytes(), &covered, &body].concat();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn what_was_pushed_reads_back_and_a_wrong_count_or_kind_is_refused() {
        let mut buffer = GroupBuffer::new();
        buffer.push(RecordKind::Protocol, &encoded(b"hd", b"body"));
        buffer.push(RecordKind::Seal, &encoded(b"s", b""));
        let (bytes, checksum) = buffer.finish(1, 2, 0, 0);
        let bytes = bytes.to_vec();
        let (header, read) = GroupHeader::decode(&bytes).unwrap();
        assert_eq!((read, header.padded_length()), (checksum, Some(4096)));
        let body = &bytes[64..64 + header.length as usize];
        let list = records(body, header.count).unwrap();
        assert_eq!(list[0], RecordView { kind: RecordKind::Protocol, head: b"hd", body: b"body" });
        assert_eq!(list[1], RecordView { kind: RecordKind::Seal, head: b"s", body: b"" });
        assert!(records(body, 1).is_err() && records(body, 3).is_err());
        let mut zeroed = body.to_vec();
        zeroed[4] = 0;
        assert!(records(&zeroed, 2).is_err(), "kind 0 is illegal");
        for end in 1..body.len() {
            assert!(records(&body[..end], 2).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_length_beyond_all_reason_is_not_a_length() {
        let mut buffer = GroupBuffer::new();
        let (bytes, _) = buffer.finish(1, 1, 0, 0);
        let (header, _) = GroupHeader::decode(bytes).unwrap();
        assert_eq!(GroupHeader { length: u64::MAX - 3, ..header }.padded_length(), None);
    }
}
