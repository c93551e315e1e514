//! Answers as the session table keeps them.

use bytes::Bytes;
use quorate_framework::Status;

/// Memory of a stored answer beside its body, in bytes: its slot of 40 in a ring that is at least a quarter full, and the
/// allocator's and the sharing's headers of the body. An upper bound, so that the table's bound holds for real memory.
pub const ANSWER_OVERHEAD_BYTES: u64 = 256;

/// The answer of nothing but puts needs no memory of its own, up to this many.
const PLAIN_BYTES: usize = 1_024;
static PLAIN: [u8; PLAIN_BYTES] = [0; PLAIN_BYTES];

/// What a frame was answered; a repetition of the frame is answered with the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The outcome of the frame as a whole.
    pub status: Status,
    /// One result a command.
    pub body: Bytes,
}

impl StoredAnswer {
    /// An answer with a copy of `body`, which is shared by all its holders.
    #[must_use]
    pub fn new(status: Status, body: &[u8]) -> StoredAnswer {
        let plain = body.len() <= PLAIN_BYTES && body.iter().fold(0, |seen, byte| seen | byte) == 0;
        let body = if plain { Bytes::from_static(&PLAIN[..body.len()]) } else { Bytes::copy_from_slice(body) };
        StoredAnswer { status, body }
    }

    /// Memory this answer is counted with, in bytes; the same on every replica.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.body.len() as u64 + ANSWER_OVERHEAD_BYTES
    }
}
