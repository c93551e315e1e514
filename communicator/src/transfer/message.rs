//! The words of a transfer. Numbers are little-endian.
//!
//! ```text
//! Fetch  0             8          16       24        32      40
//!        | snapshot id | position | length | written | until |
//! Chunk  0             8        16       24        25
//!        | snapshot id | length | offset | outcome | bytes ... |
//! ```
//! A chunk has bytes exactly if its outcome is [`Outcome::Data`]; any other outcome is the last word on its connection.

use bytes::Bytes;
use quorate_framework::wire::check_limit;
use quorate_framework::{Position, ServedSnapshot, SnapshotId, WireError, limits};

/// Bytes of a [`Fetch`].
pub const FETCH_BYTES: usize = 40;
/// Bytes of a [`Chunk`] before its part of the snapshot.
pub const CHUNK_HEADER_BYTES: usize = 25;
/// Bytes of a snapshot that may be under way and not yet written.
pub const WINDOW_BYTES: u64 = 2 * limits::SNAPSHOT_CHUNK_BYTES as u64;

/// What the puller says: it has written so much, and so much more may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Which snapshot, as it was announced.
    pub snapshot: ServedSnapshot,
    /// Bytes from the beginning that are written.
    pub written: u64,
    /// The end of what may be sent, above `written` by at most [`WINDOW_BYTES`].
    pub until: u64,
}

/// What the source says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Which snapshot.
    pub id: SnapshotId,
    /// The length of the whole, in bytes.
    pub length_bytes: u64,
    /// Where this part begins.
    pub offset: u64,
    /// Whether there is a part.
    pub outcome: Outcome,
    /// The part.
    pub bytes: Bytes,
}

/// Whether the source gives what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// It does.
    Data = 0,
    /// It has no such snapshot for this peer, or no longer.
    Gone = 1,
    /// Its snapshot of this name has another position or length.
    Different = 2,
    /// It could not read its snapshot.
    Failed = 3,
}

fn number(bytes: &[u8], offset: usize) -> u64 {
    bytes[offset..].first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

impl Fetch {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; FETCH_BYTES] {
        let mut bytes = [0; FETCH_BYTES];
        let ServedSnapshot { id, position, length_bytes } = self.snapshot;
        let numbers = [id.0, position.0, length_bytes, self.written, self.until];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads one and checks its numbers against each other.
    ///
    /// # Errors
    /// [`WireError`] on anything that a puller within its limits would not have said.
    pub fn decode(bytes: &[u8]) -> Result<Fetch, WireError> {
        if bytes.len() != FETCH_BYTES {
            return Err(WireError::Short { what: "fetch", needed: FETCH_BYTES, present: bytes.len() });
        }
        let snapshot = ServedSnapshot {
            id: SnapshotId(number(bytes, 0)),
            position: Position(number(bytes, 8)),
            length_bytes: number(bytes, 16),
        };
        let (written, until) = (number(bytes, 24), number(bytes, 32));
        let limit = limits::SNAPSHOT_BYTES;
        if snapshot.length_bytes > limit {
            return Err(WireError::TooLarge { what: "snapshot length", value: snapshot.length_bytes, limit });
        }
        if until > snapshot.length_bytes {
            return Err(WireError::TooLarge { what: "end of a fetch", value: until, limit: snapshot.length_bytes });
        }
        match until.checked_sub(written) {
            Some(1..=WINDOW_BYTES) => Ok(Fetch { snapshot, written, until }),
            _ => Err(WireError::Meaningless { what: "window of a fetch", value: written }),
        }
    }
}

impl Chunk {
    /// The bytes before its part of the snapshot.
    #[must_use]
    pub fn encode_header(id: SnapshotId, length_bytes: u64, offset: u64, outcome: Outcome) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        for (place, number) in bytes.chunks_exact_mut(8).zip([id.0, length_bytes, offset]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[24] = outcome as u8;
        bytes
    }

    /// Reads one. Whether it is the one that was asked for is the puller's to check.
    ///
    /// # Errors
    /// [`WireError`] on anything that a source within its limits would not have said.
    pub fn decode(mut bytes: Bytes) -> Result<Chunk, WireError> {
        if bytes.len() < CHUNK_HEADER_BYTES {
            return Err(WireError::Short { what: "chunk", needed: CHUNK_HEADER_BYTES, present: bytes.len() });
        }
        let header = bytes.split_to(CHUNK_HEADER_BYTES);
        check_limit("chunk length", bytes.len() as u64, limits::SNAPSHOT_CHUNK_BYTES)?;
        let outcome = match header[24] {
            0 => Outcome::Data,
            1 => Outcome::Gone,
            2 => Outcome::Different,
            3 => Outcome::Failed,
            other => return Err(WireError::Meaningless { what: "outcome of a chunk", value: u64::from(other) }),
        };
        if (outcome == Outcome::Data) == bytes.is_empty() {
            return Err(WireError::Meaningless { what: "chunk length", value: bytes.len() as u64 });
        }
        let id = SnapshotId(number(&header, 0));
        Ok(Chunk { id, length_bytes: number(&header, 8), offset: number(&header, 16), outcome, bytes })
    }

    /// Whether it goes on where the snapshot was written to, and no further than it may. `until` is the end of what was asked for.
    ///
    /// # Errors
    /// [`WireError`] that names what does not belong.
    pub fn check(&self, snapshot: &ServedSnapshot, written: u64, until: u64) -> Result<(), WireError> {
        let meaningless = |what, value| Err(WireError::Meaningless { what, value });
        if self.id != snapshot.id {
            return meaningless("snapshot id of a chunk", self.id.0);
        }
        if self.outcome != Outcome::Data {
            return Ok(());
        }
        if self.length_bytes != snapshot.length_bytes {
            return meaningless("snapshot length of a chunk", self.length_bytes);
        }
        if self.offset != written {
            return meaningless("offset of a chunk", self.offset);
        }
        if self.bytes.len() as u64 > until - written {
            return meaningless("length of a chunk beside what was asked for", self.bytes.len() as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
