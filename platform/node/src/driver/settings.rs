//! How a driver behaves.

use quorate_framework::limits;

/// Who makes records durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nobody: recovery is off, records are taken as durable at once and dropped.
    InMemory,
    /// The shell: records are handed out, and [`super::TurnInput::persisted`] says what is durable.
    External,
}

/// How a driver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverSettings {
    /// Who makes records durable.
    pub durability: Durability,
    /// Client frames that may be let in and unanswered.
    pub admission_frames: usize,
    /// Bytes of client frames that may be let in and unanswered.
    pub admission_bytes: usize,
    /// Whether the shell can take, serve, fetch and install snapshots. If not, wanting it halts the replica.
    pub snapshots: bool,
    /// Whether the protocol's invariants are checked after each event.
    pub validate: bool,
}

impl DriverSettings {
    /// The default limits; invariants are checked in debug builds.
    #[must_use]
    pub fn new(durability: Durability) -> DriverSettings {
        DriverSettings {
            durability,
            admission_frames: limits::CLIENT_ADMISSION_FRAMES,
            admission_bytes: limits::CLIENT_ADMISSION_BYTES,
            snapshots: false,
            validate: cfg!(debug_assertions),
        }
    }
}
