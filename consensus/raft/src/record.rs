//! What Raft makes durable.

use crate::replay::RaftState;
use crate::term::Term;
use bytes::Bytes;
use quorate_framework::entry::{Entry, decode_group, share_entries};
use quorate_framework::{
    Completion, Decoder, Encoder, Position, RecordPlace, RecoverySpec, ReplayError, ReplicaId, SnapshotBase, WireError,
    control,
};
use serde::{Deserialize, Serialize};

/// Term and vote: one durable record, so that neither can be newer than the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HardState {
    /// The current term.
    pub term: Term,
    /// Whom this replica voted for in it.
    pub voted_for: Option<ReplicaId>,
}

/// A Raft record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaftRecord {
    /// Entries appended after what was there: their encoded bytes, shared with the log and with what is sent.
    Entries {
        /// How many.
        count: u32,
        /// Index of the last.
        last: Position,
        /// The encoded entries.
        chunks: Vec<Bytes>,
    },
    /// All entries from this index on are dropped.
    Truncate {
        /// The first index dropped.
        from: Position,
    },
    /// Term and vote have changed.
    HardState(HardState),
    /// A snapshot from a peer was installed: the log begins anew after it, unless its entry at that index has the snapshot's term;
    /// then the entries above stay. Persisted after the metadata that names the snapshot and before anything that is built on it.
    Reset {
        /// Last index in the snapshot.
        position: Position,
        /// The term of the entry there.
        term: Term,
    },
}

impl RaftRecord {
    /// The record of appended entries; copies nothing.
    pub(crate) fn entries<'a>(
        count: usize,
        last: Position,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> RaftRecord {
        let mut chunks = Vec::new();
        share_entries(entries, |chunk| chunks.push(chunk));
        RaftRecord::Entries { count: count as u32, last, chunks }
    }
}

const ENTRIES: u8 = 1;
const TRUNCATE: u8 = 2;
const HARD_STATE: u8 = 3;
const RESET: u8 = 4;
/// Bytes of the head of an entries record, the longest there is but for a vote.
const HEAD_BYTES: usize = 32;

impl RecoverySpec for RaftRecord {
    type State = RaftState;

    fn place(&self) -> RecordPlace {
        match self {
            RaftRecord::Entries { .. } | RaftRecord::Truncate { .. } | RaftRecord::Reset { .. } => RecordPlace::Log,
            RaftRecord::HardState(_) => RecordPlace::Metadata,
        }
    }

    fn position(&self) -> Option<Position> {
        match self {
            RaftRecord::Entries { last, .. } => Some(*last),
            RaftRecord::Truncate { from } => Some(*from),
            RaftRecord::Reset { position, .. } => Some(*position),
            RaftRecord::HardState(_) => None,
        }
    }

    fn weight(&self) -> usize {
        match self {
            RaftRecord::Entries { chunks, .. } => HEAD_BYTES + chunks.iter().map(Bytes::len).sum::<usize>(),
            _ => HEAD_BYTES,
        }
    }

    fn encode(self, encoder: &mut Encoder) {
        match self {
            RaftRecord::Entries { count, last, chunks } => {
                encoder.put_u8(ENTRIES);
                encoder.put_u32(count);
                encoder.put_u64(last.0);
                chunks.into_iter().for_each(|chunk| encoder.put_shared(chunk));
            }
            RaftRecord::Truncate { from } => {
                encoder.put_u8(TRUNCATE);
                encoder.put_u64(from.0);
            }
            RaftRecord::HardState(state) => {
                encoder.put_u8(HARD_STATE);
                control::encode(&state, encoder.head_mut());
            }
            RaftRecord::Reset { position, term } => {
                encoder.put_u8(RESET);
                encoder.put_u64(position.0);
                encoder.put_u64(term.0);
            }
        }
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<RaftRecord, WireError> {
        let record = match decoder.u8("record tag")? {
            ENTRIES => {
                let (count, last) = (decoder.u32("entry count")?, Position(decoder.u64("last index")?));
                let group = decoder.take_body();
                decode_group(group.clone(), count)?;
                RaftRecord::Entries { count, last, chunks: vec![group] }
            }
            TRUNCATE => RaftRecord::Truncate { from: Position(decoder.u64("first index dropped")?) },
            HARD_STATE => RaftRecord::HardState(control::decode("term and vote", decoder.rest_of_head())?),
            RESET => RaftRecord::Reset {
                position: Position(decoder.u64("snapshot index")?),
                term: Term(decoder.u64("snapshot term")?),
            },
            other => return Err(WireError::Meaningless { what: "record tag", value: u64::from(other) }),
        };
        decoder.finish("record")?;
        Ok(record)
    }

    fn start_from(snapshot: Option<&SnapshotBase>) -> Result<RaftState, ReplayError> {
        RaftState::of_snapshot(snapshot)
    }

    fn replay(self, state: &mut RaftState) -> Result<(), ReplayError> {
        match self {
            RaftRecord::HardState(hard_state) => state.hard_state = hard_state,
            RaftRecord::Truncate { from } => state.truncate(from)?,
            RaftRecord::Reset { position, term } => state.reset(position, term),
            RaftRecord::Entries { count, chunks, .. } => {
                let group = match <[Bytes; 1]>::try_from(chunks) {
                    Ok([group]) => group,
                    Err(chunks) => Bytes::from(chunks.concat()),
                };
                let entries = decode_group(group, count).map_err(|error| ReplayError(error.to_string()))?;
                entries.into_iter().try_for_each(|entry| state.append(entry))?;
            }
        }
        Ok(())
    }

    fn complete(state: &mut RaftState) -> Result<Completion<RaftRecord>, ReplayError> {
        state.complete()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::tests::{entries, record};

    #[test]
    fn records_read_back_and_replay_to_the_log_they_describe() {
        let (old, new) = (entries(1..=4, 1), entries(3..=3, 2));
        let vote = HardState { term: Term(2), voted_for: Some(ReplicaId(3)) };
        let records =
            [record(&old, 4), RaftRecord::HardState(vote), RaftRecord::Truncate { from: Position(3) }, record(&new, 3)];
        let mut state = RaftState::default();
        for record in records {
            let mut encoder = Encoder::new();
            let position = record.position();
            record.encode(&mut encoder);
            let encoded = encoder.finish();
            let read = RaftRecord::decode(Decoder::new(&encoded.head, Bytes::from(encoded.body.concat())));
            assert_eq!(read.as_ref().map(RecoverySpec::position), Ok(position));
            read.expect("what was written reads back").replay(&mut state).expect("records in order");
        }
        assert_eq!(state.hard_state, vote);
        assert_eq!(state.entries, [old[0].clone(), old[1].clone(), new[0].clone()]);
    }

    #[test]
    fn a_reset_has_exactly_these_bytes_and_a_weight_is_never_below_the_encoded_length() {
        let reset = RaftRecord::Reset { position: Position(7), term: Term(2) };
        let mut encoder = Encoder::new();
        reset.clone().encode(&mut encoder);
        assert_eq!(&encoder.finish().head[..], [4, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let vote = RaftRecord::HardState(HardState { term: Term(1), voted_for: Some(ReplicaId(1)) });
        for record in [reset, vote, RaftRecord::Truncate { from: Position(1) }, record(&entries(1..=3, 1), 3)] {
            let mut encoder = Encoder::new();
            record.clone().encode(&mut encoder);
            let length = encoder.finish().length();
            assert!(record.weight() >= length && record.weight() < length + 32, "{record:?}");
        }
    }
}
