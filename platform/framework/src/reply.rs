//! Answers to clients: one frame for each request frame.
//!
//! ```text
//! 0        1      2          4                  8                  16               20         28                     36
//! | status | kind | reserved | hint: replica id | session position | session offset | sequence | executed at position | body ... |
//! ```
//! Session and sequence echo the request (a frame that opened a session is answered with the new session and the low half of its
//! nonce). With status `Ok` the body holds one result a command, as the executor encodes them; otherwise it is empty or a text.

use crate::ids::{Position, ReplicaId, Sequence, SessionId};
use crate::wire::WireError;
use bytes::{BufMut, Bytes};

/// Bytes of a reply header.
pub const REPLY_HEADER_BYTES: usize = 36;

/// The typed outcome of a request or of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// The key is not there; not an error of the command.
    NotFound = 1,
    /// A condition did not hold; nothing was changed.
    Conflict = 2,
    /// Certainly not done here: ask the hinted replica.
    NotLeader = 3,
    /// Certainly not done: too much is in flight; try again later.
    Busy = 4,
    /// May have happened. Only the same sequence in the same session may be sent again.
    Unknown = 5,
    /// The session or the sequence is no longer known; it may have happened.
    Expired = 6,
    /// Certainly not done and never will be: the request is wrong.
    Invalid = 7,
    /// Certainly not done: this protocol or version does not have it.
    Unsupported = 8,
    /// Certainly not done: the replica is stopping.
    Stopped = 9,
    /// Certainly not done: an ordered session got a sequence that is not the next one.
    Gap = 10,
}

impl Status {
    /// The status of a byte on the wire.
    ///
    /// # Errors
    /// [`WireError::Meaningless`].
    pub fn from_wire(byte: u8) -> Result<Status, WireError> {
        const ALL: [Status; 11] = [
            Status::Ok,
            Status::NotFound,
            Status::Conflict,
            Status::NotLeader,
            Status::Busy,
            Status::Unknown,
            Status::Expired,
            Status::Invalid,
            Status::Unsupported,
            Status::Stopped,
            Status::Gap,
        ];
        ALL.get(usize::from(byte)).copied().ok_or(WireError::Meaningless { what: "status", value: u64::from(byte) })
    }
}

/// How final the executed result is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReplyKind {
    /// The position is committed.
    #[default]
    Committed = 0,
    /// Executed ahead of its commit: counts only together with the replies of other replicas.
    Speculative = 1,
}

/// The header of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyHeader {
    /// The outcome of the request as a whole.
    pub status: Status,
    /// How final it is.
    pub kind: ReplyKind,
    /// With `NotLeader`: who may lead.
    pub hint: Option<ReplicaId>,
    /// The session of the request, or the one it opened.
    pub session: SessionId,
    /// The sequence of the request.
    pub sequence: Sequence,
    /// Where it was executed; zero if it was not.
    pub position: Position,
}

impl ReplyHeader {
    /// Appends the header's bytes.
    pub fn encode(&self, output: &mut impl BufMut) {
        output.put_u8(self.status as u8);
        output.put_u8(self.kind as u8);
        output.put_u16_le(0);
        output.put_u32_le(self.hint.map_or(0, |replica| replica.0));
        output.put_u64_le(self.session.position.0);
        output.put_u32_le(self.session.offset);
        output.put_u64_le(self.sequence.0);
        output.put_u64_le(self.position.0);
    }

    /// Reads a header and gives the body behind it.
    ///
    /// # Errors
    /// [`WireError`] on anything that `encode` would not have written.
    pub fn decode(mut bytes: Bytes) -> Result<(ReplyHeader, Bytes), WireError> {
        let Some(header) = bytes.first_chunk::<REPLY_HEADER_BYTES>().copied() else {
            return Err(WireError::Short { what: "reply header", needed: REPLY_HEADER_BYTES, present: bytes.len() });
        };
        let u32_at = |offset: usize| header[offset..].first_chunk::<4>().map_or(0, |chunk| u32::from_le_bytes(*chunk));
        let u64_at = |offset: usize| header[offset..].first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        let kind = match header[1] {
            0 => ReplyKind::Committed,
            1 => ReplyKind::Speculative,
            other => return Err(WireError::Meaningless { what: "reply kind", value: u64::from(other) }),
        };
        let reply = ReplyHeader {
            status: Status::from_wire(header[0])?,
            kind,
            hint: Some(ReplicaId(u32_at(4))).filter(|replica| replica.0 != 0),
            session: SessionId { position: Position(u64_at(8)), offset: u32_at(16) },
            sequence: Sequence(u64_at(20)),
            position: Position(u64_at(28)),
        };
        Ok((reply, bytes.split_off(REPLY_HEADER_BYTES)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_header_reads_back() {
        let header = ReplyHeader {
            status: Status::NotLeader,
            kind: ReplyKind::Speculative,
            hint: Some(ReplicaId(3)),
            session: SessionId { position: Position(5), offset: 1 },
            sequence: Sequence(8),
            position: Position(13),
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(bytes.len(), REPLY_HEADER_BYTES);
        bytes.extend_from_slice(b"text");
        assert_eq!(ReplyHeader::decode(Bytes::from(bytes)), Ok((header, Bytes::from_static(b"text"))));
    }
}
