//! What Raft makes durable, and the state that replaying it rebuilds.

use crate::term::{Term, read_entry_head};
use bytes::Bytes;
use quorate_framework::entry::{Entry, decode_group, share_entries};
use quorate_framework::{
    Completion, Decoder, Encoder, MemberVector, Position, RecordPlace, RecoverySpec, ReplayError, ReplicaId,
    SnapshotBase, WireError, control,
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

/// What the metadata file says of a Raft snapshot: the members are those as of its position.
#[must_use]
pub fn snapshot_base(position: Position, term: Term, members: &MemberVector) -> SnapshotBase {
    let mut membership = Vec::new();
    control::encode(members, &mut membership);
    SnapshotBase { position, protocol: term.0.to_le_bytes().to_vec(), membership }
}

/// What Raft starts from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RaftState {
    /// Term and vote.
    pub hard_state: HardState,
    /// The entry before the first one in the log: index and term. After a start, entries that the snapshot covers stay in the log as
    /// far as it holds them: they serve followers that are only a little behind.
    pub base: (Position, Term),
    /// The last entry the snapshot covers: index and term; zero without a snapshot. All up to it is committed. Not below the base.
    pub snapshot: (Position, Term),
    /// The member list as of the snapshot, if there is one.
    pub snapshot_members: Option<MemberVector>,
    /// The log above the base.
    pub entries: Vec<Entry>,
    /// Where replay stands; the default before and after it.
    pub replay: ReplayCursor,
}

/// What only the replay needs to know. While it runs, [`RaftState::entries`] may begin below the base: a log is cut by whole segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReplayCursor {
    /// The snapshot the metadata names.
    snapshot: Position,
    /// The index that must come next while the log is empty; none if any index up to the one after the base may.
    next: Option<Position>,
    /// The latest reset: nothing at or below it may be truncated after it.
    reset: Position,
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
        let Some(snapshot) = snapshot else { return Ok(RaftState::default()) };
        let term: [u8; 8] = snapshot
            .protocol
            .as_slice()
            .try_into()
            .map_err(|_| ReplayError(format!("the snapshot at {} names no term", snapshot.position)))?;
        let replay = ReplayCursor { snapshot: snapshot.position, ..ReplayCursor::default() };
        let members = control::decode("member list of the snapshot", &snapshot.membership)
            .map_err(|error| ReplayError(error.to_string()))?;
        let base = (snapshot.position, Term(u64::from_le_bytes(term)));
        Ok(RaftState { base, snapshot: base, snapshot_members: Some(members), replay, ..RaftState::default() })
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
        let (base, base_term) = state.base;
        let snapshot = state.replay.snapshot;
        if base != snapshot {
            return Err(ReplayError(format!(
                "the log was reset to {base}, and the metadata names a snapshot at {snapshot}"
            )));
        }
        let mut completion = Completion::default();
        match state.next() {
            // The install named its snapshot and was cut off before the log was reset: that is done now.
            Some(next) if next <= base || state.contradicts(base, base_term) => {
                state.reset(base, base_term);
                completion.records.push(RaftRecord::Reset { position: base, term: base_term });
            }
            Some(next) if state.entries.is_empty() && next > base.next() => {
                return Err(ReplayError(format!("entries {} to {} are missing", base.next(), next.0 - 1)));
            }
            _ => {}
        }
        state.snapshot = (base, base_term);
        state.begin_below_the_snapshot()?;
        state.replay = ReplayCursor::default();
        let highest = state.entries.last().map_or(Ok(base_term), term_of)?.max(base_term);
        if highest > state.hard_state.term {
            completion.anomalies.push(format!(
                "the log knows term {highest}, the metadata only term {}: term {highest} is taken",
                state.hard_state.term
            ));
            // The core takes the larger term at its start, and votes for nobody else in it: which vote it gave is not known.
        }
        Ok(completion)
    }
}

fn term_of(entry: &Entry) -> Result<Term, ReplayError> {
    read_entry_head(entry.head()).map(|(term, _)| term).map_err(|error| ReplayError(error.to_string()))
}

impl RaftState {
    /// Index of the first entry held.
    fn first(&self) -> Option<Position> {
        let entry = self.entries.first()?;
        read_entry_head(entry.head()).ok().map(|(_, index)| index)
    }

    /// The index that must come next; none if nothing was replayed yet.
    fn next(&self) -> Option<Position> {
        match self.first() {
            Some(first) => Some(Position(first.0 + self.entries.len() as u64)),
            None => self.replay.next,
        }
    }

    /// Place of an index in `entries`.
    fn place_of(&self, index: Position) -> Option<usize> {
        let place = index.0.checked_sub(self.first()?.0)? as usize;
        (place < self.entries.len()).then_some(place)
    }

    /// Whether the log holds an entry at this index with another term.
    fn contradicts(&self, index: Position, term: Term) -> bool {
        self.place_of(index).is_some_and(|place| term_of(&self.entries[place]) != Ok(term))
    }

    fn append(&mut self, entry: Entry) -> Result<(), ReplayError> {
        let (_, index) = read_entry_head(entry.head()).map_err(|error| ReplayError(error.to_string()))?;
        let highest = self.base.0.next();
        match self.next() {
            Some(expected) if index != expected => {
                return Err(ReplayError(format!("entry {index} where {expected} is next")));
            }
            None if index > highest || index == Position::ZERO => {
                return Err(ReplayError(format!("entry {index} where {highest} is next")));
            }
            _ => self.entries.push(entry),
        }
        Ok(())
    }

    fn truncate(&mut self, from: Position) -> Result<(), ReplayError> {
        // What the snapshot holds was truncated, if ever, before the snapshot; but after a reset it never is.
        let floor =
            self.replay.reset.max(if self.replay.snapshot == Position::ZERO { self.base.0 } else { Position::ZERO });
        if from <= floor {
            return Err(ReplayError(format!("truncation from {from}, at or below the log's base {floor}")));
        }
        let end = self.next().unwrap_or(self.base.0.next());
        if from > end {
            return Err(ReplayError(format!("truncation from {from}, and the log ends before {end}")));
        }
        match self.first() {
            Some(first) if from > first => self.entries.truncate((from.0 - first.0) as usize),
            _ => {
                self.entries.clear();
                self.replay.next = Some(from);
            }
        }
        Ok(())
    }

    fn reset(&mut self, position: Position, term: Term) {
        let stays = self.place_of(position).is_some_and(|place| term_of(&self.entries[place]) == Ok(term));
        if !stays {
            self.entries.clear();
            self.replay.next = Some(position.next());
        }
        self.replay.reset = self.replay.reset.max(position);
        if position > self.base.0 {
            self.base = (position, term);
            self.drop_up_to(position);
        }
    }

    /// Entries that the snapshot covers stay; the first of them becomes the base, since the term before it is not known.
    fn begin_below_the_snapshot(&mut self) -> Result<(), ReplayError> {
        if let Some(first) = self.first().filter(|first| *first <= self.base.0) {
            self.base = (first, term_of(&self.entries[0])?);
            self.entries.remove(0);
        }
        Ok(())
    }

    fn drop_up_to(&mut self, position: Position) {
        let Some(first) = self.first().filter(|first| *first <= position) else { return };
        let next = self.next();
        self.entries.drain(..((position.0 - first.0 + 1) as usize).min(self.entries.len()));
        if self.entries.is_empty() {
            self.replay.next = next;
        }
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
    fn an_entry_after_a_hole_is_never_taken_for_the_next_one() {
        let mut state = RaftState::default();
        let hole = record(&entries(2..=2, 1), 2).replay(&mut state);
        assert_eq!(hole, Err(ReplayError("entry 2 where 1 is next".to_owned())));
    }

    /// Replays records as recovery does, from a snapshot the metadata names (none at position 0).
    fn recover(snapshot: u64, records: Vec<RaftRecord>) -> Result<(RaftState, Completion<RaftRecord>), ReplayError> {
        let base = snapshot_base(Position(snapshot), Term(2), &MemberVector::new());
        let mut state = RaftRecord::start_from(Some(&base).filter(|base| base.position > Position::ZERO))?;
        for record in records {
            record.replay(&mut state)?;
        }
        RaftRecord::HardState(HardState { term: Term(9), voted_for: None }).replay(&mut state)?;
        let completion = RaftRecord::complete(&mut state)?;
        Ok((state, completion))
    }

    fn indexes(state: &RaftState) -> Vec<u64> {
        state.entries.iter().map(|entry| read_entry_head(entry.head()).map_or(0, |(_, index)| index.0)).collect()
    }

    #[test]
    fn a_log_is_continued_after_the_snapshot_and_what_that_holds_stays_above_a_known_base() {
        let log = vec![record(&entries(3..=6, 2), 6), record(&entries(7..=9, 2), 9)];
        let (state, completion) = recover(7, log).expect("a log around its snapshot");
        assert_eq!((state.base, indexes(&state)), ((Position(3), Term(2)), (4..=9).collect()));
        assert_eq!(state.snapshot, (Position(7), Term(2)));
        assert_eq!((completion, state.replay), (Completion::default(), ReplayCursor::default()));
        let (state, _) = recover(9, vec![record(&entries(9..=9, 2), 9)]).expect("a log up to its snapshot");
        assert_eq!((state.base, indexes(&state)), ((Position(9), Term(2)), vec![]));
        let (state, _) = recover(9, vec![record(&entries(10..=10, 2), 10)]).expect("a log after its snapshot");
        assert_eq!((state.base, indexes(&state)), ((Position(9), Term(2)), vec![10]));
    }

    #[test]
    fn a_hole_between_snapshot_and_log_is_refused() {
        let hole = recover(7, vec![record(&entries(9..=9, 2), 9)]);
        assert_eq!(hole, Err(ReplayError("entry 9 where 8 is next".to_owned())));
        let emptied = recover(7, vec![RaftRecord::Truncate { from: Position(9) }]);
        assert_eq!(emptied, Err(ReplayError("truncation from 9, and the log ends before 8".to_owned())));
    }

    #[test]
    fn a_truncation_of_long_ago_below_the_snapshot_is_replayed() {
        let log = vec![
            RaftRecord::Truncate { from: Position(4) },
            record(&entries(4..=6, 2), 6),
            RaftRecord::Truncate { from: Position(6) },
            record(&entries(6..=8, 2), 8),
        ];
        let (state, completion) = recover(7, log).expect("a log that was cut below where its snapshot is now");
        assert_eq!(
            (state.base.0, indexes(&state), completion),
            (Position(4), (5..=8).collect(), Completion::default())
        );
    }

    #[test]
    fn an_install_without_its_reset_record_is_finished_by_the_same_rule() {
        let reset = RaftRecord::Reset { position: Position(7), term: Term(2) };
        for (log, left) in [
            (vec![record(&entries(1..=5, 2), 5)], vec![]),
            (vec![record(&entries(1..=9, 1), 9)], vec![]),
            (vec![RaftRecord::Truncate { from: Position(3) }], vec![]),
        ] {
            let (state, completion) = recover(7, log.clone()).expect("an install that was cut off");
            assert_eq!((indexes(&state), &completion.records), (left, &vec![reset.clone()]), "{log:?}");
            // With the record in the log the next start finds nothing to do.
            let (again, completion) = recover(7, [log, vec![reset.clone()]].concat()).expect("an install");
            assert_eq!((again.entries, completion.records), (state.entries, vec![]));
        }
        let same_term = recover(7, vec![record(&entries(1..=9, 2), 9)]).expect("the log has the snapshot's entry");
        assert_eq!((indexes(&same_term.0), same_term.1.records), ((2..=9).collect(), vec![]));
    }

    #[test]
    fn after_a_reset_the_log_begins_anew_unless_it_has_the_snapshots_entry() {
        let reset = RaftRecord::Reset { position: Position(4), term: Term(2) };
        for (term, above) in [(1, vec![5, 6]), (2, vec![5, 6, 7])] {
            let mut log = vec![record(&entries(1..=6, term), 6), reset.clone()];
            let next = if term == 1 { 5..=6 } else { 7..=7 };
            log.push(record(&entries(next.clone(), 2), *next.end()));
            let (state, _) = recover(4, log.clone()).expect("a log after an install");
            let below: Vec<u64> = if term == 1 { vec![] } else { vec![2, 3, 4] };
            assert_eq!((state.snapshot.0, indexes(&state)), (Position(4), [below, above.clone()].concat()));
            // The same without metadata, as a replica without files keeps it.
            let mut state = RaftState::default();
            log.into_iter().for_each(|record| record.replay(&mut state).expect("records in order"));
            assert_eq!((state.base, indexes(&state)), ((Position(4), Term(2)), above));
        }
    }

    #[test]
    fn truncation_at_or_below_a_reset_is_refused() {
        let reset = RaftRecord::Reset { position: Position(4), term: Term(2) };
        for from in [1, 4] {
            let refused = recover(4, vec![reset.clone(), RaftRecord::Truncate { from: Position(from) }]);
            let text = format!("truncation from {from}, at or below the log's base 4");
            assert_eq!(refused, Err(ReplayError(text)));
        }
    }

    #[test]
    fn a_reset_beyond_the_metadatas_snapshot_is_refused() {
        let refused = recover(4, vec![RaftRecord::Reset { position: Position(9), term: Term(2) }]);
        assert_eq!(
            refused,
            Err(ReplayError("the log was reset to 9, and the metadata names a snapshot at 4".to_owned()))
        );
    }

    #[test]
    fn a_log_term_above_the_metadatas_is_counted_as_an_anomaly() {
        let (state, completion) =
            recover(0, vec![record(&entries(1..=2, 12), 2)]).expect("a log ahead of its metadata");
        // The core, not the replay, takes the larger one: it alone knows which vote it may still give.
        assert_eq!((state.hard_state.term, completion.records), (Term(9), vec![]));
        assert_eq!(completion.anomalies, ["the log knows term 12, the metadata only term 9: term 12 is taken"]);
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
