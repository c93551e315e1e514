//! The frame: the unit in which everything travels over a connection.
//!
//! ```text
//! 0        4             8              12     13      14      15        16       20
//! | length | head length | total length | lane | class | flags | version | CRC-32 | head ... | body ... |
//! ```
//! Numbers are little-endian. `length` counts what follows the header. `total length` is the length of the body of the whole message:
//! the same as this frame's body, unless the message travels in parts. The CRC covers the 16 bytes before it and the head; the
//! entries in a body carry CRCs of their own. Of handshake, client and snapshot frames, which have no head, it covers the whole payload.
//!
//! A frame is at most [`limits::FRAME_BYTES`] long. A longer message travels as consecutive parts of one lane: the first part has the
//! head, `MORE` says that another part follows, `CONTINUED` that one came before. Frames of other lanes may pass between parts.

use crate::transfer::{CHUNK_HEADER_BYTES, FETCH_BYTES};
use quorate_framework::wire::check_limit;
use quorate_framework::{FrameClass, Lane, WireError, limits};

/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 20;
/// Bytes that follow a frame's header, at most.
pub const FRAME_CONTENT_BYTES: usize = limits::FRAME_BYTES - FRAME_HEADER_BYTES;
/// Bytes of a message's head, at most; what may be longer belongs in the body.
pub const MESSAGE_HEAD_BYTES: usize = 64 << 10;
/// Bytes of a message's body, at most: one payload of the largest size and what is wrapped around it.
pub const MESSAGE_BODY_BYTES: usize = limits::PAYLOAD_BYTES + (4 << 10);
/// Bytes of a handshake frame, at most.
pub const HANDSHAKE_BYTES: usize = 64 << 10;
/// The version of this format.
pub const FRAME_VERSION: u8 = 1;

const CHECKSUM_OFFSET: usize = 16;
const FLAG_MORE: u8 = 1;
const FLAG_CONTINUED: u8 = 2;

// Header, head and the largest piece that waits in the read buffer must fit it together.
const _: () = assert!(FRAME_HEADER_BYTES + 2 * MESSAGE_HEAD_BYTES <= limits::READ_BUFFER_BYTES / 4 * 3);
const _: () = assert!(HANDSHAKE_BYTES <= FRAME_CONTENT_BYTES && MESSAGE_HEAD_BYTES < FRAME_CONTENT_BYTES);
// A part of a snapshot is one frame.
const _: () = assert!(CHUNK_HEADER_BYTES + limits::SNAPSHOT_CHUNK_BYTES <= FRAME_CONTENT_BYTES);

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A protocol's message, between replicas.
    Message = FrameClass::Message as u8,
    /// A protocol's promise, between replicas.
    Promise = FrameClass::Promise as u8,
    /// The forming machine's traffic, between replicas.
    Forming = FrameClass::Forming as u8,
    /// A client's request.
    Request = 16,
    /// An answer to a client.
    Reply = 17,
    /// How far a peer has written a snapshot and how much more may be sent to it.
    Fetch = 24,
    /// A part of a snapshot.
    Chunk = 25,
    /// The dialler's first words.
    Hello = 32,
    /// The acceptor's welcome or refusal.
    Answer = 33,
    /// The dialler has read the welcome and keeps the connection.
    Confirm = 34,
}

impl FrameKind {
    fn from_wire(byte: u8) -> Result<FrameKind, WireError> {
        const ALL: [FrameKind; 10] = [
            FrameKind::Message,
            FrameKind::Promise,
            FrameKind::Forming,
            FrameKind::Request,
            FrameKind::Reply,
            FrameKind::Fetch,
            FrameKind::Chunk,
            FrameKind::Hello,
            FrameKind::Answer,
            FrameKind::Confirm,
        ];
        let found = ALL.into_iter().find(|kind| *kind as u8 == byte);
        found.ok_or(WireError::Meaningless { what: "frame class", value: u64::from(byte) })
    }

    /// The class of a frame between replicas; none for handshake and client frames.
    #[must_use]
    pub fn peer_class(self) -> Option<FrameClass> {
        match self {
            FrameKind::Message => Some(FrameClass::Message),
            FrameKind::Promise => Some(FrameClass::Promise),
            FrameKind::Forming => Some(FrameClass::Forming),
            _ => None,
        }
    }

    /// Whether it is part of a handshake.
    #[must_use]
    pub fn is_handshake(self) -> bool {
        matches!(self, FrameKind::Hello | FrameKind::Answer | FrameKind::Confirm)
    }

    /// Whether a long one may travel in parts.
    fn may_have_parts(self) -> bool {
        !self.is_handshake() && !matches!(self, FrameKind::Fetch | FrameKind::Chunk)
    }

    /// Whether the CRC covers the body as well.
    #[must_use]
    pub fn covers_body(self) -> bool {
        self.peer_class().is_none()
    }

    /// Bytes of a whole message's body, at most.
    #[must_use]
    pub fn body_limit(self) -> usize {
        match self {
            FrameKind::Request => limits::PAYLOAD_BYTES,
            FrameKind::Fetch => FETCH_BYTES,
            FrameKind::Chunk => CHUNK_HEADER_BYTES + limits::SNAPSHOT_CHUNK_BYTES,
            FrameKind::Hello | FrameKind::Answer | FrameKind::Confirm => HANDSHAKE_BYTES,
            _ => MESSAGE_BODY_BYTES,
        }
    }

    fn check_lane(self, lane: Lane) -> Result<(), WireError> {
        let right = match self {
            FrameKind::Request | FrameKind::Reply => lane == Lane::Client,
            FrameKind::Fetch | FrameKind::Chunk => lane == Lane::Snapshot,
            FrameKind::Hello | FrameKind::Answer | FrameKind::Confirm => lane == Lane::Control,
            FrameKind::Message | FrameKind::Promise | FrameKind::Forming => true,
        };
        if right { Ok(()) } else { Err(WireError::Meaningless { what: "lane of this class", value: lane as u64 }) }
    }
}

impl From<FrameClass> for FrameKind {
    fn from(class: FrameClass) -> FrameKind {
        match class {
            FrameClass::Message => FrameKind::Message,
            FrameClass::Promise => FrameKind::Promise,
            FrameClass::Forming => FrameKind::Forming,
        }
    }
}

/// The header of a frame, all its fields consistent with each other and within limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The lane it travels in.
    pub lane: Lane,
    /// What it is.
    pub kind: FrameKind,
    /// Whether another part of the same message follows.
    pub more: bool,
    /// Whether a part of the same message came before.
    pub continued: bool,
    /// Bytes of the head.
    pub head_length: usize,
    /// Bytes of this frame's body.
    pub body_length: usize,
    /// Bytes of the whole message's body.
    pub total_length: usize,
}

impl FrameHeader {
    /// The header's bytes, with the CRC over them and `covered`: the head, then (of handshake and client frames) the body.
    pub fn encode<'a>(&self, covered: impl IntoIterator<Item = &'a [u8]>) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&((self.head_length + self.body_length) as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.head_length as u32).to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.total_length as u32).to_le_bytes());
        bytes[12] = self.lane as u8;
        bytes[13] = self.kind as u8;
        bytes[14] = if self.more { FLAG_MORE } else { 0 } | if self.continued { FLAG_CONTINUED } else { 0 };
        bytes[15] = FRAME_VERSION;
        let checksum = checksum(&bytes, covered);
        bytes[CHECKSUM_OFFSET..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header and checks every field against limits and the others. The CRC is checked by [`verify`], when all that it
    /// covers is there.
    ///
    /// # Errors
    /// [`WireError`] on anything that [`FrameHeader::encode`] would not have written for a message within limits.
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<FrameHeader, WireError> {
        let meaningless = |what, value: usize| WireError::Meaningless { what, value: value as u64 };
        if bytes[15] != FRAME_VERSION {
            return Err(meaningless("frame version", usize::from(bytes[15])));
        }
        let kind = FrameKind::from_wire(bytes[13])?;
        let lane = Lane::from_wire(bytes[12]).ok_or(meaningless("lane", usize::from(bytes[12])))?;
        kind.check_lane(lane)?;
        let flags = bytes[14];
        if flags & !(FLAG_MORE | FLAG_CONTINUED) != 0 || (flags != 0 && !kind.may_have_parts()) {
            return Err(meaningless("frame flags", usize::from(flags)));
        }
        let (more, continued) = (flags & FLAG_MORE != 0, flags & FLAG_CONTINUED != 0);
        let length = check_limit("frame length", u64::from(read_u32(bytes, 0)), FRAME_CONTENT_BYTES)?;
        let head_limit = if kind.covers_body() || continued { 0 } else { MESSAGE_HEAD_BYTES.min(length) };
        let head_length = check_limit("head length", u64::from(read_u32(bytes, 4)), head_limit)?;
        let total_length = check_limit("message length", u64::from(read_u32(bytes, 8)), kind.body_limit())?;
        let body_length = length - head_length;
        let fits = match (more, continued) {
            (false, false) => length > 0 && body_length == total_length,
            (false, true) => body_length > 0 && body_length <= total_length,
            (true, _) => body_length > 0 && body_length < total_length,
        };
        if !fits {
            return Err(meaningless("frame length beside its message's", length));
        }
        Ok(FrameHeader { lane, kind, more, continued, head_length, body_length, total_length })
    }

    /// Whether the frame is a part of a longer message.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.more || self.continued
    }
}

/// Checks the CRC of a header over `covered`.
///
/// # Errors
/// [`WireError::Checksum`].
pub fn verify<'a>(
    bytes: &[u8; FRAME_HEADER_BYTES],
    covered: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(), WireError> {
    if checksum(bytes, covered) == read_u32(bytes, CHECKSUM_OFFSET) {
        Ok(())
    } else {
        Err(WireError::Checksum { what: "frame" })
    }
}

fn checksum<'a>(header: &[u8; FRAME_HEADER_BYTES], covered: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..CHECKSUM_OFFSET]);
    covered.into_iter().for_each(|bytes| hasher.update(bytes));
    hasher.finalize()
}

fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    bytes[offset..].first_chunk::<4>().map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> FrameHeader {
        FrameHeader {
            lane: Lane::Replication,
            kind: FrameKind::Message,
            more: false,
            continued: false,
            head_length: 3,
            body_length: 5,
            total_length: 5,
        }
    }

    /// A valid header with four bytes overwritten.
    fn with(offset: usize, value: u32) -> Result<FrameHeader, WireError> {
        let mut bytes = message().encode([]);
        bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        FrameHeader::decode(&bytes)
    }

    #[test]
    fn a_header_has_exactly_these_bytes() {
        let bytes = message().encode([&b"abc"[..]]);
        assert_eq!(bytes[..16], [8, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 2, 1, 0, 1]);
        let covered = [&bytes[..16], b"abc"].concat();
        assert_eq!(bytes[16..], crc32fast::hash(&covered).to_le_bytes());
        assert_eq!(FrameHeader::decode(&bytes), Ok(message()));
        assert_eq!(verify(&bytes, [&b"abc"[..]]), Ok(()));
        assert_eq!(verify(&bytes, [&b"abd"[..]]), Err(WireError::Checksum { what: "frame" }));
    }

    #[test]
    fn every_hostile_length_is_refused() {
        let content = FRAME_CONTENT_BYTES as u64;
        for hostile in [u32::MAX, i32::MIN as u32, FRAME_CONTENT_BYTES as u32 + 1] {
            let value = u64::from(hostile);
            assert_eq!(with(0, hostile), Err(WireError::TooLarge { what: "frame length", value, limit: content }));
            assert_eq!(with(4, hostile), Err(WireError::TooLarge { what: "head length", value, limit: 8 }));
        }
        let limit = MESSAGE_BODY_BYTES as u64;
        let too_large = WireError::TooLarge { what: "message length", value: u64::from(u32::MAX), limit };
        assert_eq!(with(8, u32::MAX), Err(too_large));
        let inconsistent = "frame length beside its message's";
        assert_eq!(with(8, 6), Err(WireError::Meaningless { what: inconsistent, value: 8 }));
        assert!(with(0, 0).is_err(), "a head longer than its frame");
        let mut empty = FrameHeader { head_length: 0, body_length: 0, total_length: 0, ..message() };
        assert_eq!(
            FrameHeader::decode(&empty.encode([])),
            Err(WireError::Meaningless { what: inconsistent, value: 0 }),
            "a frame of no bytes"
        );
        empty.continued = true;
        assert!(FrameHeader::decode(&empty.encode([])).is_err(), "a part that brings nothing forward");
    }

    #[test]
    fn a_kind_in_a_lane_or_with_flags_it_does_not_have_is_refused() {
        let refused = |change: fn(&mut FrameHeader)| {
            let mut header = message();
            change(&mut header);
            FrameHeader::decode(&header.encode([])).is_err()
        };
        assert!(
            refused(|header| header.kind = FrameKind::Request),
            "requests travel in the client lane, without a head"
        );
        assert!(refused(|header| {
            (header.kind, header.lane, header.head_length) = (FrameKind::Hello, Lane::Replication, 0);
        }));
        assert!(refused(|header| {
            (header.kind, header.lane, header.head_length) = (FrameKind::Hello, Lane::Control, 0);
            (header.more, header.total_length) = (true, 9);
        }));
        assert!(refused(|header| header.continued = true), "only a first part has a head");
        for (kind, lane, more) in [
            (FrameKind::Chunk, Lane::Replication, false),
            (FrameKind::Fetch, Lane::Control, false),
            (FrameKind::Chunk, Lane::Snapshot, true),
        ] {
            let (head_length, total_length) = (0, if more { 9 } else { 5 });
            let header = FrameHeader { kind, lane, more, head_length, total_length, ..message() };
            assert!(FrameHeader::decode(&header.encode([])).is_err(), "{kind:?} in {lane:?}, part: {more}");
        }
        for (offset, byte) in [(12, 5), (13, 0), (13, 99), (14, 4), (15, 0), (15, 2)] {
            let mut bytes = message().encode([]);
            bytes[offset] = byte;
            assert!(FrameHeader::decode(&bytes).is_err(), "byte {offset} = {byte}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_decoded_encodes_to_the_same_bytes(bytes in proptest::array::uniform20(0u8..)) {
            if let Ok(header) = FrameHeader::decode(&bytes) {
                proptest::prop_assert_eq!(&header.encode([])[..16], &bytes[..16]);
                proptest::prop_assert!(header.head_length + header.body_length <= FRAME_CONTENT_BYTES);
                proptest::prop_assert!(header.total_length <= MESSAGE_BODY_BYTES);
            }
        }
    }
}
