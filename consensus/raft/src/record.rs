//! What Raft makes durable, and the state that replaying it rebuilds.

use crate::term::{Term, read_entry_head};
use bytes::Bytes;
use quorate_framework::entry::{Entry, decode_group, share_entries};
use quorate_framework::{
    Decoder, Encoder, Position, RecordPlace, RecoverySpec, ReplayError, ReplicaId, WireError, control,
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

/// What Raft starts from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RaftState {
    /// Term and vote.
    pub hard_state: HardState,
    /// The entry before the first one in the log: index and term.
    pub base: (Position, Term),
    /// The log above the base.
    pub entries: Vec<Entry>,
}

const ENTRIES: u8 = 1;
const TRUNCATE: u8 = 2;
const HARD_STATE: u8 = 3;

impl RecoverySpec for RaftRecord {
    type State = RaftState;

    fn place(&self) -> RecordPlace {
        match self {
            RaftRecord::Entries { .. } | RaftRecord::Truncate { .. } => RecordPlace::Log,
            RaftRecord::HardState(_) => RecordPlace::Metadata,
        }
    }

    fn position(&self) -> Option<Position> {
        match self {
            RaftRecord::Entries { last, .. } => Some(*last),
            RaftRecord::Truncate { from } => Some(*from),
            RaftRecord::HardState(_) => None,
        }
    }

    fn encode(&self, encoder: &mut Encoder) {
        match self {
            RaftRecord::Entries { count, last, chunks } => {
                encoder.put_u8(ENTRIES);
                encoder.put_u32(*count);
                encoder.put_u64(last.0);
                chunks.iter().for_each(|chunk| encoder.put_shared(chunk.clone()));
            }
            RaftRecord::Truncate { from } => {
                encoder.put_u8(TRUNCATE);
                encoder.put_u64(from.0);
            }
            RaftRecord::HardState(state) => {
                encoder.put_u8(HARD_STATE);
                control::encode(state, encoder.head_mut());
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
            other => return Err(WireError::Meaningless { what: "record tag", value: u64::from(other) }),
        };
        decoder.finish("record")?;
        Ok(record)
    }

    fn replay(self, state: &mut RaftState) -> Result<(), ReplayError> {
        match self {
            RaftRecord::HardState(hard_state) => state.hard_state = hard_state,
            RaftRecord::Truncate { from } => {
                let kept = from.0.checked_sub(state.base.0.0 + 1).ok_or_else(|| {
                    ReplayError(format!("truncation from {from}, at or below the log's base {}", state.base.0))
                })?;
                state.entries.truncate(kept as usize);
            }
            RaftRecord::Entries { count, chunks, .. } => {
                let group = Bytes::from(chunks.concat());
                let entries = decode_group(group, count).map_err(|error| ReplayError(error.to_string()))?;
                for entry in entries {
                    let (_, index) = read_entry_head(entry.head()).map_err(|error| ReplayError(error.to_string()))?;
                    let expected = state.base.0.0 + state.entries.len() as u64 + 1;
                    if index.0 != expected {
                        return Err(ReplayError(format!("entry {index} where {expected} is next")));
                    }
                    state.entries.push(entry);
                }
            }
        }
        Ok(())
    }

    fn carry_forward(_state: &RaftState) -> Vec<RaftRecord> {
        // Term and vote live in the metadata file; entries have positions. Nothing is without a position in the log.
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::entry_head;
    use quorate_framework::entry::{EntryKind, GroupBuilder};

    fn entries(range: std::ops::RangeInclusive<u64>, term: u64) -> Vec<Entry> {
        let mut builder = GroupBuilder::new();
        for index in range {
            builder.push(EntryKind::NoOperation, &entry_head(Term(term), Position(index)), &Bytes::new());
        }
        builder.finish()
    }

    fn record(entries: &[Entry], last: u64) -> RaftRecord {
        RaftRecord::entries(entries.len(), Position(last), entries)
    }

    #[test]
    fn records_read_back_and_replay_to_the_log_they_describe() {
        let (old, new) = (entries(1..=4, 1), entries(3..=3, 2));
        let vote = HardState { term: Term(2), voted_for: Some(ReplicaId(3)) };
        let records =
            [record(&old, 4), RaftRecord::HardState(vote), RaftRecord::Truncate { from: Position(3) }, record(&new, 3)];
        let mut state = RaftState::default();
        for record in records {
            let mut encoder = Encoder::new();
            record.encode(&mut encoder);
            let encoded = encoder.finish();
            let read = RaftRecord::decode(Decoder::new(&encoded.head, Bytes::from(encoded.body.concat())));
            assert_eq!(read.as_ref().map(RecoverySpec::position), Ok(record.position()));
            read.expect("what was written reads back").replay(&mut state).expect("records in order");
        }
        assert_eq!(state.hard_state, vote);
        assert_eq!(state.entries, [old[0].clone(), old[1].clone(), new[0].clone()]);
    }

    #[test]
    fn an_entry_after_a_hole_is_never_taken_for_the_next_one() {
        let mut state = RaftState::default();
        let hole = record(&entries(2..=2, 1), 2).replay(&mut state);
        assert_eq!(hole, Err(ReplayError("entry 2 where 1 is next".to_owned())));
    }
}
