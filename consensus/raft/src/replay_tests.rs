use super::*;
use crate::term::entry_head;
use bytes::Bytes;
use quorate_framework::RecoverySpec;
use quorate_framework::entry::{EntryKind, GroupBuilder};

pub(crate) fn entries(range: std::ops::RangeInclusive<u64>, term: u64) -> Vec<Entry> {
    let mut builder = GroupBuilder::new();
    for index in range {
        builder.push(EntryKind::NoOperation, &entry_head(Term(term), Position(index)), &Bytes::new());
    }
    builder.finish()
}

pub(crate) fn record(entries: &[Entry], last: u64) -> RaftRecord {
    RaftRecord::entries(entries.len(), Position(last), entries)
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
    assert_eq!((state.base.0, indexes(&state), completion), (Position(4), (5..=8).collect(), Completion::default()));
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
    assert_eq!(refused, Err(ReplayError("the log was reset to 9, and the metadata names a snapshot at 4".to_owned())));
}

#[test]
fn a_log_term_above_the_metadatas_is_counted_as_an_anomaly() {
    let (state, completion) = recover(0, vec![record(&entries(1..=2, 12), 2)]).expect("a log ahead of its metadata");
    // The core, not the replay, takes the larger one: it alone knows which vote it may still give.
    assert_eq!((state.hard_state.term, completion.records), (Term(9), vec![]));
    assert_eq!(completion.anomalies, ["the log knows term 12, the metadata only term 9: term 12 is taken"]);
}
