//! Why a connection ended.

use crate::outgoing::OutgoingFull;
use quorate_framework::{Lane, WireError};
use std::io;
use thiserror::Error;

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DisconnectReason {
    /// The other side closed it between two messages.
    #[error("closed by the other side")]
    Closed,
    /// The other side closed it in the middle of a message.
    #[error("closed by the other side in the middle of a message")]
    Cut,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Failed(String),
    /// What came was not what a replica or client sends.
    #[error("not understood: {0}")]
    Wire(#[from] WireError),
    /// More came than the protocol's windows allow.
    #[error("the peer sent more than its window: the lane {0:?} is full")]
    InboundFull(Lane),
    /// The other side takes too slowly what is sent to it.
    #[error("the other side is too slow: {0}")]
    OutboxFull(#[from] OutgoingFull),
    /// Too much waits for all clients together, and most of it for this one.
    #[error("the other side is too slow: {0} bytes wait for it, and too much for all clients together")]
    AnswersFull(usize),
    /// A newer connection to the same peer took its place.
    #[error("replaced by a newer connection")]
    Replaced,
    /// This side's own wish.
    #[error("closed by this side")]
    Requested,
    /// A large request did not arrive in time.
    #[error("a request did not arrive in time")]
    RequestTimeout,
    /// The communicator was dropped.
    #[error("this replica is stopping")]
    Stopping,
}

impl From<io::Error> for DisconnectReason {
    fn from(error: io::Error) -> DisconnectReason {
        DisconnectReason::Failed(error.to_string())
    }
}
