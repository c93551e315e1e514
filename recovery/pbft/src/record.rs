//! PBFT's records and their coding.

use crate::state::PbftState;
use bytes::Bytes;
use quorate_framework::wire::check_limit;
use quorate_framework::{
    Completion, Decoder, Digest, Encoder, Position, RecordPlace, RecoverySpec, ReplayError, ReplicaId, SnapshotBase,
    WireError, limits,
};
use std::collections::BTreeMap;

/// A signature as it was received.
pub type Signature = [u8; 64];

/// Who signed.
pub type Signatures = BTreeMap<ReplicaId, Signature>;

/// Whether a replica takes part in its view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ViewMode {
    /// It does.
    #[default]
    Normal,
    /// It has left it for another one.
    Changing {
        /// The view it asks for.
        to: u64,
    },
}

/// What a PBFT replica makes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PbftRecord {
    /// The view and whether the replica takes part in it.
    ViewState {
        /// The active or last active view.
        view: u64,
        /// Whether it is active.
        mode: ViewMode,
    },
    /// A proposal was accepted, or made.
    PrePrepare {
        /// Its view.
        view: u64,
        /// Its sequence.
        position: Position,
        /// Digest of the body.
        digest: Digest,
        /// The batch.
        body: Bytes,
    },
    /// A slot is prepared here.
    Prepared {
        /// The view it prepared in.
        view: u64,
        /// Its sequence.
        position: Position,
        /// Digest of the body.
        digest: Digest,
        /// The proof.
        signatures: Signatures,
    },
    /// A slot is committed. May be lazy.
    Committed {
        /// The view it committed in.
        view: u64,
        /// Its sequence.
        position: Position,
        /// Digest of the body.
        digest: Digest,
    },
    /// A checkpoint is stable: what is below may be forgotten by all.
    StableCheckpoint {
        /// Its sequence.
        position: Position,
        /// Digest of the state there.
        digest: Digest,
        /// The proof.
        signatures: Signatures,
    },
    /// A VIEW-CHANGE is about to be sent; the same one is sent again after a restart.
    ViewChangeSent {
        /// The view it asks for.
        to: u64,
        /// The encoded message.
        message: Bytes,
    },
    /// A view begins.
    NewView {
        /// The view.
        view: u64,
        /// The encoded message.
        message: Bytes,
    },
}

const VIEW_STATE: u8 = 1;
const PRE_PREPARE: u8 = 2;
const PREPARED: u8 = 3;
const COMMITTED: u8 = 4;
const STABLE_CHECKPOINT: u8 = 5;
const VIEW_CHANGE_SENT: u8 = 6;
const NEW_VIEW: u8 = 7;
const NORMAL: u8 = 1;
const CHANGING: u8 = 2;
/// Bytes of the fixed parts of the longest record.
const FIXED_BYTES: usize = 64;

fn put_slot(encoder: &mut Encoder, tag: u8, view: u64, position: Position, digest: &Digest) {
    encoder.put_u8(tag);
    encoder.put_u64(view);
    encoder.put_u64(position.0);
    encoder.put_slice(&digest.0);
}

fn put_signatures(encoder: &mut Encoder, signatures: &Signatures) {
    encoder.put_u32(signatures.len() as u32);
    for (replica, signature) in signatures {
        encoder.put_u32(replica.0);
        encoder.put_slice(signature);
    }
}

fn take_slot(decoder: &mut Decoder<'_>) -> Result<(u64, Position, Digest), WireError> {
    let (view, position) = (decoder.u64("view")?, decoder.u64("sequence")?);
    Ok((view, Position(position), Digest(decoder.array("digest")?)))
}

fn take_signatures(decoder: &mut Decoder<'_>) -> Result<Signatures, WireError> {
    let count = check_limit("signatures", u64::from(decoder.u32("signature count")?), limits::REPLICAS)?;
    let mut signatures = Signatures::new();
    for _ in 0..count {
        let replica = ReplicaId(decoder.u32("signer")?);
        // Ascending, each once: there is one way to write a set.
        if signatures.last_key_value().is_some_and(|(last, _)| *last >= replica) {
            return Err(WireError::Meaningless { what: "order of signers", value: u64::from(replica.0) });
        }
        signatures.insert(replica, decoder.array("signature")?);
    }
    Ok(signatures)
}

impl RecoverySpec for PbftRecord {
    type State = PbftState;

    fn place(&self) -> RecordPlace {
        RecordPlace::Log
    }

    fn position(&self) -> Option<Position> {
        match self {
            PbftRecord::PrePrepare { position, .. }
            | PbftRecord::Prepared { position, .. }
            | PbftRecord::Committed { position, .. } => Some(*position),
            // It outlives what it covers.
            PbftRecord::StableCheckpoint { .. } => None,
            PbftRecord::ViewState { .. } | PbftRecord::ViewChangeSent { .. } | PbftRecord::NewView { .. } => None,
        }
    }

    fn carry_key(&self) -> Option<u64> {
        match self {
            PbftRecord::ViewState { .. } => Some(u64::from(VIEW_STATE)),
            PbftRecord::StableCheckpoint { .. } => Some(u64::from(STABLE_CHECKPOINT)),
            PbftRecord::ViewChangeSent { .. } => Some(u64::from(VIEW_CHANGE_SENT)),
            PbftRecord::NewView { .. } => Some(u64::from(NEW_VIEW)),
            PbftRecord::PrePrepare { .. } | PbftRecord::Prepared { .. } | PbftRecord::Committed { .. } => None,
        }
    }

    fn weight(&self) -> usize {
        FIXED_BYTES
            + match self {
                PbftRecord::PrePrepare { body, .. } => body.len(),
                PbftRecord::Prepared { signatures, .. } | PbftRecord::StableCheckpoint { signatures, .. } => {
                    signatures.len() * (size_of::<Signature>() + size_of::<u32>())
                }
                PbftRecord::ViewChangeSent { message, .. } | PbftRecord::NewView { message, .. } => message.len(),
                PbftRecord::ViewState { .. } | PbftRecord::Committed { .. } => 0,
            }
    }

    fn encode(self, encoder: &mut Encoder) {
        match &self {
            PbftRecord::ViewState { view, mode } => {
                encoder.put_u8(VIEW_STATE);
                encoder.put_u64(*view);
                match mode {
                    ViewMode::Normal => encoder.put_u8(NORMAL),
                    ViewMode::Changing { to } => {
                        encoder.put_u8(CHANGING);
                        encoder.put_u64(*to);
                    }
                }
            }
            PbftRecord::PrePrepare { view, position, digest, body } => {
                put_slot(encoder, PRE_PREPARE, *view, *position, digest);
                encoder.put_shared(body.clone());
            }
            PbftRecord::Prepared { view, position, digest, signatures } => {
                put_slot(encoder, PREPARED, *view, *position, digest);
                put_signatures(encoder, signatures);
            }
            PbftRecord::Committed { view, position, digest } => {
                put_slot(encoder, COMMITTED, *view, *position, digest);
            }
            PbftRecord::StableCheckpoint { position, digest, signatures } => {
                encoder.put_u8(STABLE_CHECKPOINT);
                encoder.put_u64(position.0);
                encoder.put_slice(&digest.0);
                put_signatures(encoder, signatures);
            }
            PbftRecord::ViewChangeSent { to, message } => {
                encoder.put_u8(VIEW_CHANGE_SENT);
                encoder.put_u64(*to);
                encoder.put_shared(message.clone());
            }
            PbftRecord::NewView { view, message } => {
                encoder.put_u8(NEW_VIEW);
                encoder.put_u64(*view);
                encoder.put_shared(message.clone());
            }
        }
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<PbftRecord, WireError> {
        let record = match decoder.u8("record tag")? {
            VIEW_STATE => {
                let view = decoder.u64("view")?;
                let mode = match decoder.u8("view mode")? {
                    NORMAL => ViewMode::Normal,
                    CHANGING => ViewMode::Changing { to: decoder.u64("view asked for")? },
                    other => return Err(WireError::Meaningless { what: "view mode", value: u64::from(other) }),
                };
                PbftRecord::ViewState { view, mode }
            }
            PRE_PREPARE => {
                let (view, position, digest) = take_slot(&mut decoder)?;
                PbftRecord::PrePrepare { view, position, digest, body: decoder.take_body() }
            }
            PREPARED => {
                let (view, position, digest) = take_slot(&mut decoder)?;
                PbftRecord::Prepared { view, position, digest, signatures: take_signatures(&mut decoder)? }
            }
            COMMITTED => {
                let (view, position, digest) = take_slot(&mut decoder)?;
                PbftRecord::Committed { view, position, digest }
            }
            STABLE_CHECKPOINT => PbftRecord::StableCheckpoint {
                position: Position(decoder.u64("sequence")?),
                digest: Digest(decoder.array("digest")?),
                signatures: take_signatures(&mut decoder)?,
            },
            VIEW_CHANGE_SENT => PbftRecord::ViewChangeSent { to: decoder.u64("view")?, message: decoder.take_body() },
            NEW_VIEW => PbftRecord::NewView { view: decoder.u64("view")?, message: decoder.take_body() },
            other => return Err(WireError::Meaningless { what: "record tag", value: u64::from(other) }),
        };
        decoder.finish("record")?;
        Ok(record)
    }

    fn start_from(snapshot: Option<&SnapshotBase>) -> Result<PbftState, ReplayError> {
        PbftState::from_snapshot(snapshot)
    }

    fn replay(self, state: &mut PbftState) -> Result<(), ReplayError> {
        state.replay(self)
    }

    fn complete(state: &mut PbftState) -> Result<Completion<PbftRecord>, ReplayError> {
        Ok(Completion { records: Vec::new(), anomalies: state.anomalies() })
    }
}
