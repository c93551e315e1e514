//! The rules of sessions, one sentence each.

use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use quorate_framework::Position;

fn id(position: u64) -> SessionId {
    SessionId { position: Position(position), offset: 0 }
}

fn limits() -> ReplicatedLimits {
    ReplicatedLimits {
        session_window_frames: 8,
        sessions: 3,
        session_answer_bytes: 10_000,
        ..ReplicatedLimits::default()
    }
}

fn bytes(table: &SessionTable) -> Vec<u8> {
    let mut bytes = Vec::new();
    table.encode(|piece| bytes.extend_from_slice(piece));
    bytes
}

/// Sends a frame; gives what it was answered and whether it was applied now.
fn send(
    table: &mut SessionTable,
    session: u64,
    sequence: u64,
    acknowledged: u64,
    body: &[u8],
) -> (Status, Bytes, bool) {
    match table.admit(id(session), Sequence(sequence), Sequence(acknowledged), &limits()) {
        Admission::Apply(admitted) => {
            let answer = StoredAnswer::new(Status::Ok, body);
            table.record(admitted, answer.clone(), &limits());
            (answer.status, answer.body, true)
        }
        Admission::Replay(answer) => (answer.status, answer.body, false),
        Admission::Refuse(status) => (status, Bytes::new(), false),
    }
}

fn status(table: &mut SessionTable, session: u64, sequence: u64, acknowledged: u64) -> Status {
    send(table, session, sequence, acknowledged, b"answer").0
}

fn with_sessions(sessions: &[u64], ordered: bool) -> SessionTable {
    let mut table = SessionTable::new();
    for session in sessions {
        table.open(id(*session), u128::from(*session) << 70, ordered, &limits());
    }
    table
}

#[test]
fn an_open_with_a_known_nonce_gives_the_session_it_opened_before() {
    let mut table = SessionTable::new();
    assert_eq!(table.open(id(5), 77, false, &limits()), id(5));
    assert_eq!(table.open(id(6), 77, false, &limits()), id(5));
    assert_eq!(table.open(id(7), 78, false, &limits()), id(7));
    assert_eq!(table.len(), 2);
}

#[test]
fn an_unknown_session_is_expired_and_never_made() {
    let mut table = SessionTable::new();
    assert_eq!(status(&mut table, 9, 1, 0), Status::Expired);
    assert!(table.is_empty());
}

#[test]
fn a_repeated_sequence_gets_the_stored_bytes_and_is_not_applied_again() {
    let mut table = with_sessions(&[1], false);
    assert_eq!(send(&mut table, 1, 3, 0, b"first"), (Status::Ok, Bytes::from_static(b"first"), true));
    let before = bytes(&table);
    assert_eq!(send(&mut table, 1, 3, 0, b"second"), (Status::Ok, Bytes::from_static(b"first"), false));
    assert_eq!(bytes(&table), before);
}

#[test]
fn a_sequence_at_or_below_the_low_mark_is_expired_and_one_beyond_the_window_invalid() {
    let mut table = with_sessions(&[1], false);
    assert_eq!(status(&mut table, 1, 0, 0), Status::Expired);
    assert_eq!(status(&mut table, 1, 9, 0), Status::Invalid);
    assert_eq!(status(&mut table, 1, 8, 0), Status::Ok);
    assert_eq!(status(&mut table, 1, 9, 2), Status::Ok);
    assert_eq!(status(&mut table, 1, 2, 0), Status::Expired);
    assert_eq!(status(&mut table, 1, 3, 0), Status::Ok);
    assert_eq!(status(&mut table, 1, u64::MAX, u64::MAX - 8), Status::Ok);
}

#[test]
fn a_low_mark_never_falls() {
    let mut table = with_sessions(&[1], false);
    assert_eq!(status(&mut table, 1, 6, 5), Status::Ok);
    assert_eq!(status(&mut table, 1, 7, 1), Status::Ok);
    assert_eq!(status(&mut table, 1, 5, 1), Status::Expired);
}

#[test]
fn an_acknowledged_answer_is_no_longer_kept() {
    let mut table = with_sessions(&[1], false);
    (1..=4).for_each(|sequence| assert_eq!(status(&mut table, 1, sequence, 0), Status::Ok));
    let kept = table.answer_bytes();
    assert_eq!(status(&mut table, 1, 5, 4), Status::Ok);
    assert_eq!(table.answer_bytes(), kept / 4);
}

#[test]
fn an_unordered_session_takes_its_window_in_any_order() {
    let mut table = with_sessions(&[1], false);
    for sequence in [4, 1, 3, 2] {
        assert_eq!(
            send(&mut table, 1, sequence, 0, &[sequence as u8]),
            (Status::Ok, Bytes::from(vec![sequence as u8]), true)
        );
    }
    for sequence in 1..=4 {
        assert_eq!(send(&mut table, 1, sequence, 0, b""), (Status::Ok, Bytes::from(vec![sequence as u8]), false));
    }
}

#[test]
fn an_ordered_session_answers_gap_to_any_but_the_next_sequence_and_does_not_use_it_up() {
    let mut table = with_sessions(&[1], true);
    assert_eq!(status(&mut table, 1, 2, 0), Status::Gap);
    assert_eq!(status(&mut table, 1, 1, 0), Status::Ok);
    assert_eq!(status(&mut table, 1, 3, 0), Status::Gap);
    assert_eq!(status(&mut table, 1, 2, 1), Status::Ok);
    assert_eq!(status(&mut table, 1, 3, 2), Status::Ok);
    assert_eq!(send(&mut table, 1, 3, 2, b"other"), (Status::Ok, Bytes::from_static(b"answer"), false));
}

#[test]
fn beyond_the_number_of_sessions_the_least_recently_applied_goes_and_its_client_is_told_expired() {
    let mut table = with_sessions(&[1, 2, 3], false);
    assert_eq!(status(&mut table, 1, 1, 0), Status::Ok);
    table.open(id(4), 4, false, &limits());
    assert_eq!((table.len(), table.contains(id(2))), (3, false));
    assert_eq!(status(&mut table, 2, 1, 0), Status::Expired);
    assert_eq!(status(&mut table, 1, 1, 0), Status::Ok);
}

#[test]
fn neither_a_repetition_nor_a_refusal_nor_a_second_open_makes_a_session_recent() {
    let mut table = with_sessions(&[1, 2, 3], false);
    for session in 1..=3 {
        assert_eq!(status(&mut table, session, 1, 0), Status::Ok);
    }
    assert!(!send(&mut table, 1, 1, 0, b"").2);
    assert_eq!(status(&mut table, 1, 99, 0), Status::Invalid);
    assert_eq!(table.open(id(9), 1 << 70, false, &limits()), id(1));
    table.open(id(4), 4, false, &limits());
    assert!(!table.contains(id(1)));
}

#[test]
fn beyond_the_memory_of_answers_the_least_recently_applied_session_goes_whole() {
    let mut table = with_sessions(&[1, 2, 3], false);
    assert_eq!(send(&mut table, 1, 1, 0, &[1; 4_000]).0, Status::Ok);
    assert_eq!(send(&mut table, 2, 1, 0, &[1; 4_000]).0, Status::Ok);
    assert_eq!(table.answer_bytes(), 2 * (4_000 + ANSWER_OVERHEAD_BYTES));
    assert_eq!(send(&mut table, 3, 1, 0, &[1; 4_000]).0, Status::Ok);
    assert!(!table.contains(id(1)) && table.contains(id(2)) && table.contains(id(3)));
    assert_eq!(table.answer_bytes(), 2 * (4_000 + ANSWER_OVERHEAD_BYTES));
}

#[test]
fn a_session_that_never_acknowledges_costs_its_own_answers_and_no_other_session() {
    let mut table = with_sessions(&[1, 2], false);
    assert_eq!(send(&mut table, 1, 1, 0, &[1; 4_000]).0, Status::Ok);
    for sequence in 1..=8 {
        assert_eq!(send(&mut table, 2, sequence, 0, &[2; 1_500]).0, Status::Ok);
        assert!(table.answer_bytes() <= limits().session_answer_bytes);
    }
    assert_eq!(send(&mut table, 1, 1, 0, b""), (Status::Ok, Bytes::from(vec![1; 4_000]), false), "the other's is kept");
    assert_eq!(status(&mut table, 2, 1, 0), Status::Expired, "its own oldest are gone");
    assert_eq!(send(&mut table, 2, 8, 0, b"").1, vec![2; 1_500]);
}

#[test]
fn a_session_alone_beyond_the_memory_stays_and_loses_its_oldest_answers() {
    let mut table = with_sessions(&[1], false);
    for sequence in 1..=3 {
        assert_eq!(send(&mut table, 1, sequence, 0, &[1; 4_000]).0, Status::Ok);
    }
    assert_eq!(table.answer_bytes(), 2 * (4_000 + ANSWER_OVERHEAD_BYTES));
    assert_eq!(status(&mut table, 1, 1, 0), Status::Expired);
    assert_eq!(send(&mut table, 1, 3, 0, b"").1, vec![1; 4_000]);
}

#[test]
fn empty_answers_count_against_the_memory_too() {
    let mut table = with_sessions(&[1], false);
    for sequence in 1..=1_000 {
        assert_eq!(send(&mut table, 1, sequence, sequence.saturating_sub(8), b"").0, Status::Ok);
    }
    assert_eq!(table.answer_bytes(), 8 * ANSWER_OVERHEAD_BYTES);
    let capacity = table.recency.get(0).answers.capacity();
    assert!(capacity <= 4 * 8, "the ring does not outgrow what is counted: {capacity}");
}

#[test]
fn one_acknowledgement_of_a_thousand_answers_gives_the_memory_of_the_ring_back() {
    let limits = ReplicatedLimits::default();
    let mut table = with_sessions(&[1], false);
    for sequence in 1..=1_001 {
        let acknowledged = Sequence(if sequence > 1_000 { 1_000 } else { 0 });
        let Admission::Apply(admitted) = table.admit(id(1), Sequence(sequence), acknowledged, &limits) else {
            panic!("{sequence} is new");
        };
        table.record(admitted, StoredAnswer::new(Status::Ok, b""), &limits);
    }
    assert!(table.recency.get(0).answers.capacity() <= 2 * answers::RING_SLOTS);
}

#[test]
fn a_table_reads_back_and_every_cut_of_it_is_refused() {
    let mut table = with_sessions(&[1, 2], true);
    assert_eq!(send(&mut table, 1, 1, 0, b"one").0, Status::Ok);
    assert_eq!(send(&mut table, 1, 2, 0, &[0; 10]).0, Status::Ok);
    let encoded = bytes(&table);
    let read = SessionTable::decode(&encoded).expect("what was encoded reads back");
    assert_eq!(bytes(&read), encoded);
    assert_eq!(read.answer_bytes(), table.answer_bytes());
    for end in 0..encoded.len() {
        assert!(SessionTable::decode(&encoded[..end]).is_err(), "cut at {end}");
    }
    assert!(matches!(
        SessionTable::decode(&[encoded, vec![0]].concat()),
        Err(quorate_framework::WireError::Trailing { .. })
    ));
}

/// One random call: an open or a frame.
#[derive(Clone, Debug)]
enum Call {
    Open { nonce: u8, ordered: bool },
    Send { session: u64, sequence: u64, acknowledged: u64, length: usize },
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let open = (0..6_u8, any::<bool>()).prop_map(|(nonce, ordered)| Call::Open { nonce, ordered });
    let send = (1..30_u64, 0..14_u64, 0..4_u64, 0..4_000_usize)
        .prop_map(|(session, sequence, acknowledged, length)| Call::Send { session, sequence, acknowledged, length });
    prop::collection::vec(prop_oneof![1 => open, 4 => send], 0..60)
}

fn run(table: &mut SessionTable, first: u64, calls: &[Call]) -> Vec<(Status, Bytes, bool)> {
    let mut answers = Vec::new();
    for (position, call) in (first..).zip(calls) {
        match call {
            Call::Open { nonce, ordered } => {
                table.open(id(position), u128::from(*nonce), *ordered, &limits());
            }
            Call::Send { session, sequence, acknowledged, length } => {
                answers.push(send(table, *session, *sequence, *acknowledged, &vec![7; *length]));
            }
        }
    }
    answers
}

proptest! {
    #[test]
    fn undone_changes_leave_the_table_as_it_was_and_kept_ones_as_if_never_journalled(
        before in calls(), ahead in calls(), after in calls(), keep in any::<bool>()
    ) {
        let (mut journalled, mut plain) = (SessionTable::new(), SessionTable::new());
        run(&mut journalled, 1, &before);
        run(&mut plain, 1, &before);
        journalled.open_journal();
        run(&mut journalled, 100, &ahead);
        if keep {
            journalled.keep_changes();
            run(&mut plain, 100, &ahead);
        } else {
            journalled.undo_changes();
        }
        prop_assert_eq!(bytes(&journalled), bytes(&plain));
        prop_assert_eq!(journalled.answer_bytes(), plain.answer_bytes());
        prop_assert_eq!(run(&mut journalled, 200, &after), run(&mut plain, 200, &after));
        prop_assert_eq!(bytes(&journalled), bytes(&plain));
    }

    #[test]
    fn a_table_read_back_goes_on_like_the_one_that_was_written(before in calls(), after in calls()) {
        let mut table = SessionTable::new();
        run(&mut table, 1, &before);
        let mut read = SessionTable::decode(&bytes(&table)).expect("what was encoded reads back");
        prop_assert_eq!(run(&mut table, 200, &after), run(&mut read, 200, &after));
        prop_assert_eq!(bytes(&table), bytes(&read));
        prop_assert!(table.answer_bytes() <= limits().session_answer_bytes && table.len() <= 3);
    }

    #[test]
    fn arbitrary_bytes_never_make_decoding_panic(encoded in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(table) = SessionTable::decode(&encoded) {
            prop_assert_eq!(bytes(&table), encoded);
        }
    }
}
