//! Identities as types of their own, so that an index, a count and a ticket cannot be mixed up.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}", self.0)
            }
        }
    };
}

number!(
    /// A replica's id as the cluster file names it; 0 is no replica.
    ReplicaId(u32)
);
number!(
    /// A place in the replicated order, contiguous from 1; 0 is before the first. Raft calls it index, PBFT sequence, HotStuff
    /// height.
    Position(u64)
);
number!(
    /// The number of a frame within its session, from 1.
    Sequence(u64)
);
number!(
    /// A connection of a client at this replica, unique for the life of the process.
    ConnectionId(u64)
);

number!(
    /// A connection to a peer, unique for the life of the process. Whatever a peer says names the link it came by, so that it is
    /// never taken for what another link of the same replica id, perhaps of another incarnation, has said.
    LinkId(u64)
);

impl Position {
    /// Before the first position.
    pub const ZERO: Position = Position(0);

    /// The position after this one.
    #[must_use]
    pub fn next(self) -> Position {
        Position(self.0 + 1)
    }
}

/// Which life of a replica's data this is: drawn at random when a data directory is made, or per process with recovery off.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

impl fmt::Debug for Incarnation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// The cluster's identity, drawn once when its file is made. Messages of another cluster are refused.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClusterId(pub [u8; 16]);

/// The identity of what stands at a position: for Raft its term and index, for a BFT protocol a hash.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockId(pub [u8; 32]);

/// A digest of state or of payloads.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

macro_rules! hexadecimal {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{self}")
            }
        }
    };
}
hexadecimal!(ClusterId);
hexadecimal!(BlockId);
hexadecimal!(Digest);

/// A client's session: where the frame that opened it stands in the replicated order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    /// Position of the frame that opened the session.
    pub position: Position,
    /// Offset within that frame.
    pub offset: u32,
}

impl SessionId {
    /// No session: the session of a frame that opens one.
    pub const NONE: SessionId = SessionId { position: Position::ZERO, offset: 0 };

    /// Whether this is no session.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.position, self.offset)
    }
}
