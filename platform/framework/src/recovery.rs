//! What a protocol makes durable: its records, and the state they rebuild.

use crate::ids::Position;
use crate::wire::{Decoder, Encoder, WireError};
use std::fmt::Debug;
use std::hash::Hash;
use thiserror::Error;

/// Where a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordPlace {
    /// The log: many of them, grouped under one sync.
    Log,
    /// The metadata file: latest wins; a barrier in the ticket order.
    Metadata,
}

/// A record that cannot follow what was replayed before it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("replay: {0}")]
pub struct ReplayError(pub String);

/// A protocol's records. The log knows nothing else of the protocol.
pub trait RecoverySpec: Sized + Debug {
    /// What replaying all records rebuilds. The default is a first start.
    type State: Clone + Debug + Default + PartialEq + Eq + Hash;

    /// Where the record goes.
    fn place(&self) -> RecordPlace;

    /// The highest position the record covers, if it has one; a log may be cut below a position.
    fn position(&self) -> Option<Position>;

    /// Writes the record.
    fn encode(&self, encoder: &mut Encoder);

    /// Reads a record back.
    ///
    /// # Errors
    /// [`WireError`] on anything that `encode` would not have written.
    fn decode(decoder: Decoder<'_>) -> Result<Self, WireError>;

    /// Replays the record.
    ///
    /// # Errors
    /// [`ReplayError`] if it cannot follow what was replayed before.
    fn replay(self, state: &mut Self::State) -> Result<(), ReplayError>;

    /// The records without a position that a new segment must begin with, so that older ones can go.
    fn carry_forward(state: &Self::State) -> Vec<Self>;
}
