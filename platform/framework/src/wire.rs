//! How a message becomes bytes: a small head that is its own, then a body of shared chunks that are never copied.
//!
//! A body handed to [`Wire::decode`] pins exactly its own length in memory (the communicator sees to that), so what a log keeps of
//! it can be counted.

use crate::limits;
use bytes::Bytes;
use thiserror::Error;

/// The lanes of traffic, in the order in which they are handled. A full lane never delays one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Votes and heartbeats.
    Control = 0,
    /// Answers to replication.
    Acknowledgement = 1,
    /// Entries on their way.
    Replication = 2,
    /// Client requests and their answers.
    Client = 3,
    /// Snapshots and other bulk transfers.
    Snapshot = 4,
}

impl Lane {
    /// All lanes, first to be handled first.
    pub const ALL: [Lane; 5] = [Lane::Control, Lane::Acknowledgement, Lane::Replication, Lane::Client, Lane::Snapshot];

    /// The lane of a byte on the wire.
    #[must_use]
    pub fn from_wire(byte: u8) -> Option<Lane> {
        Lane::ALL.get(usize::from(byte)).copied()
    }
}

/// Why bytes from the wire or from a file are not what they should be. The sender is at fault; the receiver drops the connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Fewer bytes than announced.
    #[error("{what} is cut short: {needed} bytes are needed, {present} are there")]
    Short {
        /// What was being read.
        what: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes present.
        present: usize,
    },
    /// A length or a count above its limit.
    #[error("{what} is {value}, above the limit of {limit}")]
    TooLarge {
        /// What was being read.
        what: &'static str,
        /// The value found.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// A tag or a value that has no meaning.
    #[error("{what} has no meaning: {value}")]
    Meaningless {
        /// What was being read.
        what: &'static str,
        /// The value found.
        value: u64,
    },
    /// Bytes left over after the end.
    #[error("{what} has {count} bytes too many")]
    Trailing {
        /// What was being read.
        what: &'static str,
        /// How many bytes are left.
        count: usize,
    },
    /// A checksum that does not match its bytes.
    #[error("{what} is damaged: its checksum does not match")]
    Checksum {
        /// What was being read.
        what: &'static str,
    },
    /// Something that cannot be decoded.
    #[error("{what} cannot be decoded: {reason}")]
    Undecodable {
        /// What was being read.
        what: &'static str,
        /// The decoder's reason.
        reason: String,
    },
}

/// Something that travels between replicas.
pub trait Wire: Sized {
    /// The lane it travels in.
    fn lane(&self) -> Lane;

    /// Writes it. Payloads go in as shared chunks.
    fn encode(&self, encoder: &mut Encoder);

    /// Reads it back. Must read all of head and body, and allocate nothing for a length it has not checked.
    ///
    /// # Errors
    /// [`WireError`] on anything that `encode` would not have written.
    fn decode(decoder: Decoder<'_>) -> Result<Self, WireError>;
}

/// An encoded message: cloning it copies no payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The message's own bytes.
    pub head: Bytes,
    /// Shared chunks that follow the head.
    pub body: Vec<Bytes>,
}

impl Encoded {
    /// Bytes of the body.
    #[must_use]
    pub fn body_length(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }

    /// Bytes of head and body.
    #[must_use]
    pub fn length(&self) -> usize {
        self.head.len() + self.body_length()
    }
}

/// Takes the bytes of one message.
#[derive(Debug, Default)]
pub struct Encoder {
    head: Vec<u8>,
    body: Vec<Bytes>,
}

impl Encoder {
    /// An empty encoder.
    #[must_use]
    pub fn new() -> Encoder {
        Encoder { head: Vec::with_capacity(64), body: Vec::new() }
    }

    /// Appends one byte to the head.
    pub fn put_u8(&mut self, value: u8) {
        self.head.push(value);
    }

    /// Appends a fixed-width little-endian number to the head.
    pub fn put_u32(&mut self, value: u32) {
        self.head.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a fixed-width little-endian number to the head.
    pub fn put_u64(&mut self, value: u64) {
        self.head.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends bytes to the head.
    pub fn put_slice(&mut self, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }

    /// The head, for a codec that appends to a `Vec`.
    pub fn head_mut(&mut self) -> &mut Vec<u8> {
        &mut self.head
    }

    /// Appends a shared chunk to the body; nothing is copied.
    pub fn put_shared(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.body.push(chunk);
        }
    }

    /// Forgets what was put in; its memory is kept.
    pub fn clear(&mut self) {
        self.head.clear();
        self.body.clear();
    }

    /// The head so far.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The shared chunks so far.
    #[must_use]
    pub fn body(&self) -> &[Bytes] {
        &self.body
    }

    /// Bytes of head and body so far.
    #[must_use]
    pub fn length(&self) -> usize {
        self.head.len() + self.body.iter().map(Bytes::len).sum::<usize>()
    }

    /// A copy of what was put in so far; its chunks stay shared.
    #[must_use]
    pub fn to_encoded(&self) -> Encoded {
        Encoded { head: Bytes::copy_from_slice(&self.head), body: self.body.clone() }
    }

    /// The encoded message.
    #[must_use]
    pub fn finish(self) -> Encoded {
        Encoded { head: Bytes::from(self.head), body: self.body }
    }
}

/// Gives the bytes of one message; every read is checked against what is there.
#[derive(Debug)]
pub struct Decoder<'a> {
    head: &'a [u8],
    body: Bytes,
}

impl<'a> Decoder<'a> {
    /// A decoder over a head and a body that pins exactly its own length.
    #[must_use]
    pub fn new(head: &'a [u8], body: Bytes) -> Decoder<'a> {
        Decoder { head, body }
    }

    /// Takes `count` bytes from the head.
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn take(&mut self, what: &'static str, count: usize) -> Result<&'a [u8], WireError> {
        let Some((taken, rest)) = self.head.split_at_checked(count) else {
            return Err(WireError::Short { what, needed: count, present: self.head.len() });
        };
        self.head = rest;
        Ok(taken)
    }

    /// Takes one byte from the head.
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn u8(&mut self, what: &'static str) -> Result<u8, WireError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// Takes a fixed-width little-endian number from the head.
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn u32(&mut self, what: &'static str) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// Takes a fixed-width little-endian number from the head.
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn u64(&mut self, what: &'static str) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Takes a fixed number of bytes from the head.
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        let Some((taken, rest)) = self.head.split_first_chunk::<N>() else {
            return Err(WireError::Short { what, needed: N, present: self.head.len() });
        };
        self.head = rest;
        Ok(*taken)
    }

    /// What is left of the head.
    #[must_use]
    pub fn rest_of_head(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.head)
    }

    /// The whole body; pins exactly its own length.
    #[must_use]
    pub fn take_body(&mut self) -> Bytes {
        std::mem::take(&mut self.body)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`WireError::Trailing`] if anything was not read.
    pub fn finish(self, what: &'static str) -> Result<(), WireError> {
        match self.head.len() + self.body.len() {
            0 => Ok(()),
            count => Err(WireError::Trailing { what, count }),
        }
    }
}

/// Checks a length or count from the wire against a limit before anything is allocated for it.
///
/// # Errors
/// [`WireError::TooLarge`].
pub fn check_limit(what: &'static str, value: u64, limit: usize) -> Result<usize, WireError> {
    if value > limit as u64 {
        return Err(WireError::TooLarge { what, value, limit: limit as u64 });
    }
    // The value is at most `limit`, which is a usize.
    Ok(value as usize)
}

// Lengths inside a frame are 32 bits wide.
const _: () = assert!(limits::PAYLOAD_BYTES < u32::MAX as usize);
