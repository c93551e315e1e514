//! The entry: what is replicated, encoded once. The same bytes go on the wire and into the log.
//!
//! ```text
//! 0        4        8      9             10                    10 + head
//! | length | CRC-32 | kind | head length | protocol head ...   | payload ...            |
//! ```
//! `length` counts everything after the CRC; the CRC covers the same bytes. Numbers are little-endian. Kind 0 is illegal, so that
//! zeroed storage is never an entry. The payload of a client entry is the client's frame, unchanged.

use crate::limits;
use crate::wire::{WireError, check_limit};
use bytes::{Bytes, BytesMut};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Bytes before the protocol head.
pub const ENTRY_PREFIX_BYTES: usize = 10;
/// Bytes of an entry's length and CRC.
const LENGTH_AND_CHECKSUM: usize = 8;
/// Bytes of a protocol head at most.
pub const ENTRY_HEAD_BYTES: usize = 64;

/// What an entry's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// A client's frame.
    Request = 1,
    /// Nothing: a leader's first entry of its term, or a filler.
    NoOperation = 2,
    /// The member list, as the protocol encodes it.
    Membership = 3,
}

impl EntryKind {
    fn from_wire(byte: u8) -> Result<EntryKind, WireError> {
        match byte {
            1 => Ok(EntryKind::Request),
            2 => Ok(EntryKind::NoOperation),
            3 => Ok(EntryKind::Membership),
            other => Err(WireError::Meaningless { what: "entry kind", value: u64::from(other) }),
        }
    }
}

/// One encoded entry: a range of the group it was built or received in, plus, for a large payload at its builder, the payload as a
/// slice of its own.
///
/// Cloning shares memory. Equality is over the encoded bytes. The whole group stays in memory while any of its entries lives:
/// [`Entry::group`] lets a log count that.
#[derive(Clone, Debug)]
pub struct Entry {
    group: Bytes,
    start: u32,
    end: u32,
    tail: Bytes,
}

impl Entry {
    /// The bytes in the group: all of the entry, or all but the tail.
    fn front(&self) -> &[u8] {
        &self.group[self.start as usize..self.end as usize]
    }

    /// The shared buffer that holds this entry: identity for counting pinned memory, and its size.
    #[must_use]
    pub fn group(&self) -> GroupIdentity {
        GroupIdentity { address: self.group.as_ptr() as usize, bytes: self.group.len() }
    }

    /// Bytes that this entry alone pins beside its group (a payload that travels as a slice).
    #[must_use]
    pub fn tail_bytes(&self) -> usize {
        self.tail.len()
    }

    /// Bytes of the encoded entry.
    #[must_use]
    pub fn encoded_length(&self) -> usize {
        (self.end - self.start) as usize + self.tail.len()
    }

    /// What the payload is.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        EntryKind::from_wire(self.front()[8]).expect("an entry is only made from a checked kind")
    }

    /// The protocol's head.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        let front = self.front();
        &front[ENTRY_PREFIX_BYTES..ENTRY_PREFIX_BYTES + usize::from(front[9])]
    }

    /// The payload; shares memory.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        if self.tail.is_empty() {
            let start = self.start as usize + ENTRY_PREFIX_BYTES + usize::from(self.front()[9]);
            self.group.slice(start..self.end as usize)
        } else {
            self.tail.clone()
        }
    }

    /// The entry's CRC.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        read_u32(self.front(), 4)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.encoded_length() == other.encoded_length()
            && self.front().iter().chain(&*self.tail).eq(other.front().iter().chain(&*other.tail))
    }
}

impl Eq for Entry {}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal bytes have equal length and CRC; that is enough for a hash.
        (self.encoded_length(), self.checksum()).hash(state);
    }
}

/// Which buffer an entry lives in, and how many bytes that buffer pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupIdentity {
    address: usize,
    /// Bytes of the whole buffer.
    pub bytes: usize,
}

/// Builds the entries of one turn into one shared buffer.
#[derive(Debug, Default)]
pub struct GroupBuilder {
    buffer: BytesMut,
    entries: Vec<(u32, u32, Bytes)>,
}

impl GroupBuilder {
    /// An empty group.
    #[must_use]
    pub fn new() -> GroupBuilder {
        GroupBuilder::default()
    }

    /// An empty group with room for `bytes`.
    #[must_use]
    pub fn with_capacity(bytes: usize, entries: usize) -> GroupBuilder {
        GroupBuilder { buffer: BytesMut::with_capacity(bytes), entries: Vec::with_capacity(entries) }
    }

    /// Appends an entry. A payload of [`limits::SHARED_PAYLOAD_BYTES`] or more is kept as a slice, a smaller one is copied.
    ///
    /// # Panics
    /// If the head is longer than [`ENTRY_HEAD_BYTES`] or the payload than [`limits::PAYLOAD_BYTES`]: callers check both.
    pub fn push(&mut self, kind: EntryKind, head: &[u8], payload: &Bytes) {
        assert!(head.len() <= ENTRY_HEAD_BYTES && payload.len() <= limits::PAYLOAD_BYTES, "an entry within limits");
        let start = self.buffer.len();
        let length = 2 + head.len() + payload.len();
        let tags = [kind as u8, head.len() as u8];
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&tags);
        hasher.update(head);
        hasher.update(payload);
        self.buffer.extend_from_slice(&(length as u32).to_le_bytes());
        self.buffer.extend_from_slice(&hasher.finalize().to_le_bytes());
        self.buffer.extend_from_slice(&tags);
        self.buffer.extend_from_slice(head);
        let tail = if payload.len() >= limits::SHARED_PAYLOAD_BYTES {
            payload.clone()
        } else {
            self.buffer.extend_from_slice(payload);
            Bytes::new()
        };
        self.entries.push((start as u32, self.buffer.len() as u32, tail));
    }

    /// The entries, all sharing one buffer.
    #[must_use]
    pub fn finish(self) -> Vec<Entry> {
        let group = self.buffer.freeze();
        self.entries.into_iter().map(|(start, end, tail)| Entry { group: group.clone(), start, end, tail }).collect()
    }
}

/// Consecutive entries on their way to several receivers, with their group checksum: made once, then shared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SharedEntries {
    entries: Arc<Vec<Entry>>,
    checksum: u32,
}

impl SharedEntries {
    /// [`group_checksum`] of the entries.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// The entries, without a copy if nobody else holds them.
    #[must_use]
    pub fn into_entries(self) -> Vec<Entry> {
        Arc::unwrap_or_clone(self.entries)
    }
}

impl From<Vec<Entry>> for SharedEntries {
    fn from(entries: Vec<Entry>) -> SharedEntries {
        let checksum = group_checksum(&entries);
        SharedEntries { entries: Arc::new(entries), checksum }
    }
}

impl Deref for SharedEntries {
    type Target = [Entry];

    fn deref(&self) -> &[Entry] {
        &self.entries
    }
}

/// Appends the encoded form of consecutive entries as shared chunks, neighbours of one group as one chunk.
pub fn share_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>, mut put: impl FnMut(Bytes)) {
    let mut run: Option<(&Bytes, u32, u32)> = None;
    for entry in entries {
        run = match run {
            Some((group, start, end)) if group.as_ptr() == entry.group.as_ptr() && end == entry.start => {
                Some((group, start, entry.end))
            }
            other => {
                if let Some((group, start, end)) = other {
                    put(group.slice(start as usize..end as usize));
                }
                Some((&entry.group, entry.start, entry.end))
            }
        };
        if !entry.tail.is_empty() {
            if let Some((group, start, end)) = run.take() {
                put(group.slice(start as usize..end as usize));
            }
            put(entry.tail.clone());
        }
    }
    if let Some((group, start, end)) = run {
        put(group.slice(start as usize..end as usize));
    }
}

/// A checksum over the lengths and CRCs of a group's entries: with it, a missing, added or exchanged entry shows.
#[must_use]
pub fn group_checksum<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for entry in entries {
        hasher.update(&entry.front()[..LENGTH_AND_CHECKSUM]);
    }
    hasher.finalize()
}

/// Reads back `count` entries that take up all of `group`, checking every CRC once. The entries share `group`.
///
/// # Errors
/// [`WireError`] on anything that a builder would not have written.
pub fn decode_group(group: Bytes, count: u32) -> Result<Vec<Entry>, WireError> {
    // The least entry is a prefix, so a count can be checked against the bytes before a list is allocated.
    let count = check_limit("entry count", u64::from(count), group.len() / ENTRY_PREFIX_BYTES)?;
    let mut entries = Vec::with_capacity(count);
    let mut start = 0;
    for _ in 0..count {
        let end = start + checked_entry(&group[start..])?;
        entries.push(Entry { group: group.clone(), start: start as u32, end: end as u32, tail: Bytes::new() });
        start = end;
    }
    match group.len() - start {
        0 => Ok(entries),
        rest => Err(WireError::Trailing { what: "group", count: rest }),
    }
}

/// Bytes of the checked entry at the front of `bytes`.
fn checked_entry(bytes: &[u8]) -> Result<usize, WireError> {
    if bytes.len() < ENTRY_PREFIX_BYTES {
        return Err(WireError::Short { what: "entry", needed: ENTRY_PREFIX_BYTES, present: bytes.len() });
    }
    let length =
        check_limit("entry length", u64::from(read_u32(bytes, 0)), limits::PAYLOAD_BYTES + ENTRY_HEAD_BYTES + 2)?;
    let head_length = usize::from(bytes[9]);
    check_limit("entry head length", head_length as u64, ENTRY_HEAD_BYTES)?;
    if length < 2 + head_length {
        return Err(WireError::Short { what: "entry head", needed: 2 + head_length, present: length });
    }
    let end = LENGTH_AND_CHECKSUM + length;
    let Some(covered) = bytes.get(LENGTH_AND_CHECKSUM..end) else {
        return Err(WireError::Short { what: "entry", needed: end, present: bytes.len() });
    };
    if crc32fast::hash(covered) != read_u32(bytes, 4) {
        return Err(WireError::Checksum { what: "entry" });
    }
    EntryKind::from_wire(covered[0])?;
    Ok(end)
}

fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    bytes[offset..].first_chunk::<4>().map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(payloads: &[&[u8]]) -> Vec<Entry> {
        let mut builder = GroupBuilder::new();
        for payload in payloads {
            builder.push(EntryKind::Request, b"head", &Bytes::copy_from_slice(payload));
        }
        builder.finish()
    }

    fn encoded(entries: &[Entry]) -> Vec<Bytes> {
        let mut chunks = Vec::new();
        share_entries(entries, |chunk| chunks.push(chunk));
        chunks
    }

    #[test]
    fn an_entry_has_exactly_these_bytes() {
        let entries = group(&[b"ab"]);
        let bytes = encoded(&entries).concat();
        assert_eq!(bytes[..4], [8, 0, 0, 0]);
        assert_eq!(bytes[4..8], crc32fast::hash(&bytes[8..]).to_le_bytes());
        assert_eq!(&bytes[8..], b"\x01\x04headab");
    }

    #[test]
    fn neighbours_of_one_group_leave_as_one_chunk_that_is_not_copied() {
        let entries = group(&[b"one", b"two", b"three"]);
        let chunks = encoded(&entries[1..]);
        assert_eq!(chunks.len(), 1);
        let inside = entries[0].group.as_ptr_range();
        assert!(inside.contains(&chunks[0].as_ptr()), "the chunk lies in the group's own memory");
    }

    #[test]
    fn a_large_payload_is_shared_and_reads_back_equal() {
        let payload = Bytes::from(vec![7u8; limits::SHARED_PAYLOAD_BYTES]);
        let mut builder = GroupBuilder::new();
        builder.push(EntryKind::Request, b"h", &Bytes::from_static(b"small"));
        builder.push(EntryKind::Request, b"h", &payload);
        builder.push(EntryKind::NoOperation, b"h", &Bytes::new());
        let entries = builder.finish();
        let chunks = encoded(&entries);
        assert_eq!(chunks.len(), 3);
        assert_eq!(chunks[1].as_ptr(), payload.as_ptr(), "the payload is a slice of the sender's memory");
        let read = decode_group(Bytes::from(chunks.concat()), 3).expect("what was built reads back");
        assert_eq!(read, entries);
        assert_eq!(read[1].payload(), payload);
        assert_eq!(group_checksum(&read), group_checksum(&entries));
    }

    #[test]
    fn every_flipped_bit_of_a_group_is_noticed() {
        let entries = group(&[b"first", b"second"]);
        let bytes = encoded(&entries).concat();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_group(Bytes::from(damaged), 2).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_of_a_group_is_noticed() {
        let entries = group(&[b"first", b"second"]);
        let bytes = Bytes::from(encoded(&entries).concat());
        for end in 0..bytes.len() {
            assert!(decode_group(bytes.slice(..end), 2).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_count_larger_than_the_bytes_is_refused_before_a_list_is_made() {
        assert!(matches!(decode_group(Bytes::from_static(b"xx"), u32::MAX), Err(WireError::TooLarge { .. })));
    }
}
