//! What scripted peers say, promise and persist: numbers.

use bytes::Bytes;
use quorate_framework::{
    Decoder, Encoder, Incoming, Lane, Position, RecordPlace, RecoverySpec, Rejected, ReplayError, ReplicaId, Verifier,
    Wire, WireError,
};

/// Something scripted peers say: a number, a lane and a payload that is shared, not copied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScriptedMessage {
    /// Its lane.
    pub lane: Lane,
    /// Its number.
    pub number: u64,
    /// Its payload.
    pub payload: Bytes,
}

impl ScriptedMessage {
    /// A message without a payload.
    #[must_use]
    pub fn new(lane: Lane, number: u64) -> ScriptedMessage {
        ScriptedMessage { lane, number, payload: Bytes::new() }
    }
}

impl Wire for ScriptedMessage {
    fn lane(&self) -> Lane {
        self.lane
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder.put_u8(self.lane as u8);
        encoder.put_u64(self.number);
        encoder.put_shared(self.payload.clone());
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<ScriptedMessage, WireError> {
        let byte = decoder.u8("lane")?;
        let lane = Lane::from_wire(byte).ok_or(WireError::Meaningless { what: "lane", value: u64::from(byte) })?;
        let message = ScriptedMessage { lane, number: decoder.u64("number")?, payload: decoder.take_body() };
        decoder.finish("scripted message")?;
        Ok(message)
    }
}

/// Something scripted peers may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScriptedPromise(pub u64);

impl Wire for ScriptedPromise {
    fn lane(&self) -> Lane {
        Lane::Acknowledgement
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder.put_u64(self.0);
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<ScriptedPromise, WireError> {
        let promise = ScriptedPromise(decoder.u64("number")?);
        decoder.finish("scripted promise")?;
        Ok(promise)
    }
}

/// A record: a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScriptedRecord(pub u64);

impl RecoverySpec for ScriptedRecord {
    type State = Vec<u64>;

    fn place(&self) -> RecordPlace {
        RecordPlace::Log
    }

    fn position(&self) -> Option<Position> {
        None
    }

    fn carry_key(&self) -> Option<u64> {
        Some(self.0)
    }

    fn weight(&self) -> usize {
        size_of::<u64>()
    }

    fn encode(self, encoder: &mut Encoder) {
        encoder.put_u64(self.0);
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<ScriptedRecord, WireError> {
        let record = ScriptedRecord(decoder.u64("number")?);
        decoder.finish("scripted record")?;
        Ok(record)
    }

    fn replay(self, state: &mut Vec<u64>) -> Result<(), ReplayError> {
        state.push(self.0);
        Ok(())
    }
}

/// Lets messages through but for two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScriptedVerifier {
    /// Messages of this number are forged.
    pub forged: Option<u64>,
    /// Messages of this number are useless.
    pub useless: Option<u64>,
}

impl Verifier<Incoming<ScriptedMessage, ScriptedPromise>> for ScriptedVerifier {
    fn checks(&self, _from: ReplicaId, incoming: &Incoming<ScriptedMessage, ScriptedPromise>) -> Result<(), Rejected> {
        let number = match incoming {
            Incoming::Message(message) => message.number,
            Incoming::Promise(promise) => promise.0,
        };
        match Some(number) {
            number if number == self.forged => Err(Rejected::Forged("scripted")),
            number if number == self.useless => Err(Rejected::Useless),
            _ => Ok(()),
        }
    }
}
