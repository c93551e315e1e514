//! What speculating replicas say, promise and persist.

use super::super::scripted::block;
use bytes::Bytes;
use quorate_framework::entry::EntryKind;
use quorate_framework::{
    Batch, BlockId, Decoder, Encoder, Lane, Position, RecordPlace, RecoverySpec, ReplayError, Wire, WireError,
};

/// A block: what stands at its position, in which fork. As a record, it replaces what stood there and everything after.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Its position.
    pub position: Position,
    /// Its fork: how often the leader had rolled back before.
    pub fork: u64,
    /// The request, or none for a block without an operation.
    pub payload: Option<Bytes>,
}

impl Block {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> BlockId {
        block(self.position.0, self.fork)
    }

    pub(super) fn batch(&self) -> Batch {
        let kind = if self.payload.is_some() { EntryKind::Request } else { EntryKind::NoOperation };
        Batch { block: self.id(), kind, payload: self.payload.clone().unwrap_or_default() }
    }

    fn put(&self, encoder: &mut Encoder) {
        encoder.put_u64(self.position.0);
        encoder.put_u64(self.fork);
        encoder.put_u8(u8::from(self.payload.is_some()));
        encoder.put_shared(self.payload.clone().unwrap_or_default());
    }

    fn get(decoder: &mut Decoder<'_>) -> Result<Block, WireError> {
        let (position, fork) = (Position(decoder.u64("position")?), decoder.u64("fork")?);
        let (request, body) = (decoder.u8("kind")?, decoder.take_body());
        match request {
            _ if position == Position::ZERO => Err(WireError::Meaningless { what: "position", value: 0 }),
            0 if body.is_empty() => Ok(Block { position, fork, payload: None }),
            1 => Ok(Block { position, fork, payload: Some(body) }),
            value => Err(WireError::Meaningless { what: "block kind", value: u64::from(value) }),
        }
    }
}

/// Bytes of a block beside its payload.
const FIXED_BYTES: usize = 17;

impl RecoverySpec for Block {
    type State = Vec<Block>;

    fn place(&self) -> RecordPlace {
        RecordPlace::Log
    }

    fn position(&self) -> Option<Position> {
        Some(self.position)
    }

    fn weight(&self) -> usize {
        FIXED_BYTES + self.payload.as_ref().map_or(0, Bytes::len)
    }

    fn encode(self, encoder: &mut Encoder) {
        self.put(encoder);
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<Block, WireError> {
        let block = Block::get(&mut decoder)?;
        decoder.finish("block")?;
        Ok(block)
    }

    fn replay(self, state: &mut Vec<Block>) -> Result<(), ReplayError> {
        let before = (self.position.0 - 1) as usize;
        if before > state.len() {
            return Err(ReplayError(format!("block {} after {} blocks", self.position, state.len())));
        }
        state.truncate(before);
        state.push(self);
        Ok(())
    }
}

/// What the leader says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SpeculatingMessage {
    /// A block, and the fork of the block before it.
    Append {
        /// The block.
        block: Block,
        /// The fork of the block before it.
        before: u64,
    },
    /// All blocks up to this one are committed.
    Commit {
        /// The last committed position.
        position: Position,
        /// The fork of the block there.
        fork: u64,
    },
}

impl Wire for SpeculatingMessage {
    fn lane(&self) -> Lane {
        Lane::Replication
    }

    fn encode(&self, encoder: &mut Encoder) {
        match self {
            SpeculatingMessage::Append { block, before } => {
                encoder.put_u8(1);
                encoder.put_u64(*before);
                block.put(encoder);
            }
            SpeculatingMessage::Commit { position, fork } => {
                encoder.put_u8(2);
                encoder.put_u64(*fork);
                encoder.put_u64(position.0);
            }
        }
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<SpeculatingMessage, WireError> {
        let (tag, fork) = (decoder.u8("tag")?, decoder.u64("fork")?);
        let message = match tag {
            1 => SpeculatingMessage::Append { block: Block::get(&mut decoder)?, before: fork },
            2 => SpeculatingMessage::Commit { position: Position(decoder.u64("position")?), fork },
            value => return Err(WireError::Meaningless { what: "tag", value: u64::from(value) }),
        };
        decoder.finish("speculating message")?;
        Ok(message)
    }
}

/// The sender holds all blocks up to this one durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Acknowledgement {
    /// The last position.
    pub position: Position,
    /// The fork of the block there.
    pub fork: u64,
}

impl Wire for Acknowledgement {
    fn lane(&self) -> Lane {
        Lane::Acknowledgement
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder.put_u64(self.position.0);
        encoder.put_u64(self.fork);
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<Acknowledgement, WireError> {
        let acknowledgement =
            Acknowledgement { position: Position(decoder.u64("position")?), fork: decoder.u64("fork")? };
        decoder.finish("acknowledgement")?;
        Ok(acknowledgement)
    }
}
