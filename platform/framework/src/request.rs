//! A client's request as it travels and as it is logged: one frame, whose header alone a leader reads.
//!
//! ```text
//! 0      1       2                  4       8                  16              20         24         32
//! | kind | flags | signature length | count | session position | session offset | reserved | sequence | acknowledged |
//! 40
//! | signature ... | body: `count` commands, the executor's business ... |
//! ```
//! Numbers are little-endian. A frame with session 0 opens a session; its `sequence` and `acknowledged` together are then the
//! client's random nonce, and its body is empty.

use crate::ids::{Position, Sequence, SessionId};
use crate::limits;
use crate::wire::{WireError, check_limit};
use bytes::{BufMut, Bytes};

/// Bytes of a request header.
pub const REQUEST_HEADER_BYTES: usize = 40;
const KIND_REQUEST: u8 = 1;
const FLAG_ORDERED: u8 = 1;

/// The header of a client's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestHeader {
    /// The session, or none for a frame that opens one.
    pub session: SessionId,
    /// The frame's number in its session; half of the nonce when it opens one.
    pub sequence: Sequence,
    /// All sequences up to this one were answered and will not be asked again; half of the nonce when it opens one.
    pub acknowledged: Sequence,
    /// Commands in the body.
    pub count: u32,
    /// Bytes of the signature.
    pub signature_length: u16,
    /// Whether the opened session is ordered: a sequence that is not the next one is answered `Gap`.
    pub ordered: bool,
}

impl RequestHeader {
    /// The nonce of a frame that opens a session.
    #[must_use]
    pub fn nonce(&self) -> u128 {
        u128::from(self.sequence.0) | (u128::from(self.acknowledged.0) << 64)
    }

    /// The header of a frame that opens a session.
    #[must_use]
    pub fn open(nonce: u128, ordered: bool) -> RequestHeader {
        RequestHeader {
            session: SessionId::NONE,
            sequence: Sequence(nonce as u64),
            acknowledged: Sequence((nonce >> 64) as u64),
            count: 0,
            signature_length: 0,
            ordered,
        }
    }

    /// The header of an unsigned frame of one command, with no answer acknowledged yet.
    #[must_use]
    pub fn in_session(session: SessionId, sequence: Sequence) -> RequestHeader {
        RequestHeader { session, sequence, acknowledged: Sequence(0), count: 1, signature_length: 0, ordered: false }
    }

    /// Appends the header's bytes.
    pub fn encode(&self, output: &mut impl BufMut) {
        output.put_u8(KIND_REQUEST);
        output.put_u8(if self.ordered { FLAG_ORDERED } else { 0 });
        output.put_u16_le(self.signature_length);
        output.put_u32_le(self.count);
        output.put_u64_le(self.session.position.0);
        output.put_u32_le(self.session.offset);
        output.put_u32_le(0);
        output.put_u64_le(self.sequence.0);
        output.put_u64_le(self.acknowledged.0);
    }

    fn decode(bytes: &[u8]) -> Result<RequestHeader, WireError> {
        let Some(header) = bytes.first_chunk::<REQUEST_HEADER_BYTES>() else {
            return Err(WireError::Short {
                what: "request header",
                needed: REQUEST_HEADER_BYTES,
                present: bytes.len(),
            });
        };
        if header[0] != KIND_REQUEST {
            return Err(WireError::Meaningless { what: "request kind", value: u64::from(header[0]) });
        }
        if header[1] & !FLAG_ORDERED != 0 || header[20..24] != [0; 4] {
            return Err(WireError::Meaningless { what: "request flags", value: u64::from(header[1]) });
        }
        let u32_at = |offset: usize| header[offset..].first_chunk::<4>().map_or(0, |chunk| u32::from_le_bytes(*chunk));
        let u64_at = |offset: usize| header[offset..].first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        let count = u32_at(4);
        check_limit("command count", u64::from(count), limits::COMMANDS_PER_FRAME)?;
        Ok(RequestHeader {
            session: SessionId { position: Position(u64_at(8)), offset: u32_at(16) },
            sequence: Sequence(u64_at(24)),
            acknowledged: Sequence(u64_at(32)),
            count,
            signature_length: u16::from_le_bytes([header[2], header[3]]),
            ordered: header[1] & FLAG_ORDERED != 0,
        })
    }
}

/// A client's frame with its header read; the body is not looked at before the executor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientFrame {
    /// The header.
    pub header: RequestHeader,
    /// The whole frame, header included, unchanged.
    pub bytes: Bytes,
}

impl ClientFrame {
    /// A frame of this header, which has no signature, and a body.
    ///
    /// # Errors
    /// [`WireError`] if no replica would accept it.
    pub fn new(header: &RequestHeader, body: &[u8]) -> Result<ClientFrame, WireError> {
        let mut bytes = Vec::with_capacity(REQUEST_HEADER_BYTES + body.len());
        header.encode(&mut bytes);
        bytes.extend_from_slice(body);
        ClientFrame::parse(Bytes::from(bytes))
    }

    /// Reads the header of a frame.
    ///
    /// # Errors
    /// [`WireError`] on anything that is not a request frame within limits.
    pub fn parse(bytes: Bytes) -> Result<ClientFrame, WireError> {
        let (header, _) = ClientFrame::read(&bytes)?;
        Ok(ClientFrame { header, bytes })
    }

    /// Reads the header of a frame that stays where it is, and gives the commands, as the executor encodes them.
    ///
    /// # Errors
    /// [`WireError`] on anything that is not a request frame within limits.
    pub fn read(bytes: &[u8]) -> Result<(RequestHeader, &[u8]), WireError> {
        check_limit("request length", bytes.len() as u64, limits::PAYLOAD_BYTES)?;
        let header = RequestHeader::decode(bytes)?;
        let needed = REQUEST_HEADER_BYTES + usize::from(header.signature_length);
        match bytes.get(needed..) {
            Some(body) => Ok((header, body)),
            None => Err(WireError::Short { what: "request signature", needed, present: bytes.len() }),
        }
    }

    /// The commands, as the executor encodes them.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.bytes[REQUEST_HEADER_BYTES + usize::from(self.header.signature_length)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_keeps_the_frame_unchanged() {
        let header = RequestHeader {
            session: SessionId { position: Position(9), offset: 3 },
            sequence: Sequence(77),
            acknowledged: Sequence(70),
            count: 2,
            signature_length: 4,
            ordered: true,
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        bytes.extend_from_slice(b"SIGNbody");
        let frame = ClientFrame::parse(Bytes::from(bytes.clone())).expect("a frame within limits");
        assert_eq!((frame.header, frame.body(), &frame.bytes[..]), (header, &b"body"[..], &bytes[..]));
    }

    #[test]
    fn a_new_frame_is_what_a_replica_reads() {
        let header = RequestHeader::in_session(SessionId { position: Position(9), offset: 3 }, Sequence(77));
        let frame = ClientFrame::new(&header, b"body").expect("a frame within limits");
        assert_eq!(ClientFrame::parse(frame.bytes.clone()), Ok(frame.clone()));
        assert_eq!((frame.header, frame.body()), (header, &b"body"[..]));
        let too_long = vec![0; limits::PAYLOAD_BYTES];
        assert!(matches!(ClientFrame::new(&header, &too_long), Err(WireError::TooLarge { .. })));
    }

    #[test]
    fn a_nonce_survives_the_header() {
        let nonce = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210;
        assert_eq!(RequestHeader::open(nonce, false).nonce(), nonce);
    }

    #[test]
    fn a_frame_shorter_than_it_says_or_with_unknown_flags_is_refused() {
        let mut bytes = Vec::new();
        RequestHeader { signature_length: 9, ..RequestHeader::open(1, false) }.encode(&mut bytes);
        assert!(matches!(ClientFrame::parse(Bytes::from(bytes.clone())), Err(WireError::Short { .. })));
        bytes[1] = 0x80;
        assert!(matches!(ClientFrame::parse(Bytes::from(bytes)), Err(WireError::Meaningless { .. })));
    }
}
