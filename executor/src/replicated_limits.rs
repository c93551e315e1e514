//! The limits that decide at apply. They are part of the replicated state, so that replicas of different builds decide alike.

use quorate_framework::limits;

/// Limits by which commands and sessions are judged when they are applied.
///
/// Every replica of a cluster holds equal ones; they are part of the state's digest. A change is a change of the replicated state,
/// never of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplicatedLimits {
    /// Size of a key at most, in bytes; the least is 1.
    pub key_bytes: u32,
    /// Size of a value at most, in bytes.
    pub value_bytes: u32,
    /// Commands in a frame at most.
    pub commands_per_frame: u32,
    /// Size of the results of a frame at most, in bytes; a get that does not fit is `Invalid`.
    pub answer_bytes: u32,
    /// Sequences above the low mark that a session holds.
    pub session_window_frames: u32,
    /// Sessions at most; the least recently applied goes first.
    pub sessions: u32,
    /// Memory of stored answers over all sessions at most, in bytes.
    pub session_answer_bytes: u64,
}

impl Default for ReplicatedLimits {
    fn default() -> ReplicatedLimits {
        ReplicatedLimits {
            key_bytes: limits::KEY_BYTES as u32,
            value_bytes: limits::VALUE_BYTES as u32,
            commands_per_frame: limits::COMMANDS_PER_FRAME as u32,
            answer_bytes: limits::PAYLOAD_BYTES as u32 - ANSWER_ENVELOPE_BYTES,
            session_window_frames: limits::SESSION_WINDOW_FRAMES as u32,
            sessions: limits::SESSIONS as u32,
            session_answer_bytes: limits::SESSION_ANSWER_BYTES as u64,
        }
    }
}

/// Room for headers around the results, so that an answer travels like any payload.
const ANSWER_ENVELOPE_BYTES: u32 = 4 << 10;

// One value of the greatest size can always be read.
const _: () = assert!(limits::VALUE_BYTES + 16 + limits::COMMANDS_PER_FRAME * 9 < limits::PAYLOAD_BYTES - (4 << 10));

impl ReplicatedLimits {
    /// Bytes of [`ReplicatedLimits::to_bytes`].
    pub const ENCODED_BYTES: usize = 32;

    /// The limits as bytes, for digests and snapshots: the fields in their order, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::ENCODED_BYTES] {
        let mut bytes = [0; Self::ENCODED_BYTES];
        let words = [
            self.key_bytes,
            self.value_bytes,
            self.commands_per_frame,
            self.answer_bytes,
            self.session_window_frames,
            self.sessions,
        ];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..].copy_from_slice(&self.session_answer_bytes.to_le_bytes());
        bytes
    }

    /// The limits of bytes that [`ReplicatedLimits::to_bytes`] made.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::ENCODED_BYTES]) -> ReplicatedLimits {
        let word = |at: usize| bytes[at..].first_chunk::<4>().map_or(0, |chunk| u32::from_le_bytes(*chunk));
        ReplicatedLimits {
            key_bytes: word(0),
            value_bytes: word(4),
            commands_per_frame: word(8),
            answer_bytes: word(12),
            session_window_frames: word(16),
            sessions: word(20),
            session_answer_bytes: bytes[24..].first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_back_field_by_field() {
        let limits = ReplicatedLimits {
            key_bytes: 1,
            value_bytes: 2,
            commands_per_frame: 3,
            answer_bytes: 4,
            session_window_frames: 5,
            sessions: 6,
            session_answer_bytes: 7 << 40,
        };
        assert_eq!(ReplicatedLimits::from_bytes(&limits.to_bytes()), limits);
    }
}
