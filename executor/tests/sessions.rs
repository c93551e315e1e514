//! Sessions as a client meets them.
#![allow(missing_docs)]

mod support;

use quorate_executor::{
    Command, CommandResult, KeyValue, KvExecutor, MemoryStore, OrderedStore, ReplicatedLimits, SessionTable,
};
use quorate_framework::{ExecutorCommand, Sequence, SessionId, Status};
use std::ops::Bound;
use support::{NONCE, Replica, block, encoded, frame, open, range, raw, session};

const INCREMENT: Command<'_> = Command::Increment { key: b"counter", by: 1 };

#[test]
fn an_open_is_answered_with_its_position_and_the_low_half_of_its_nonce() {
    let mut replica = Replica::new();
    let answer = replica.execute(open(NONCE, false));
    assert_eq!((answer.status, answer.session), (Status::Ok, session(1)));
    assert_eq!(answer.sequence, Sequence(NONCE as u64));
    assert!(answer.body.is_empty());
}

#[test]
fn a_repeated_open_gives_the_same_session() {
    let mut replica = Replica::new();
    replica.execute(open(NONCE, false));
    assert_eq!(replica.execute(open(NONCE, false)).session, session(1));
    assert_eq!(replica.execute(open(NONCE + (1 << 64), false)).session, session(3));
}

#[test]
fn an_open_with_commands_is_invalid_and_opens_nothing() {
    let mut replica = Replica::new();
    let answer = replica.execute(raw(SessionId::NONE, 5, 6, 1, b"\x01\x01k"));
    assert_eq!((answer.status, answer.session), (Status::Invalid, SessionId::NONE));
    assert!(replica.executor.sessions().is_empty());
}

#[test]
fn a_repeated_frame_is_answered_with_the_same_bytes_and_not_applied_again() {
    let mut replica = Replica::with_session();
    let request = frame(session(1), 1, &[INCREMENT, Command::Get { key: b"counter" }]);
    let first = replica.execute(request.clone());
    let second = replica.execute(request.clone());
    assert_eq!((second.status, &second.body), (first.status, &first.body));
    assert_eq!(second.position.0, first.position.0 + 1, "the repetition is answered where it stands");
    assert_eq!(replica.execute_range(range(replica.next(), &[request])).transactions, 0);
    let read = replica.execute(frame(session(1), 2, &[Command::Get { key: b"counter" }]));
    assert_eq!(read.body, encoded(CommandResult::bytes(b"1")));
}

#[test]
fn an_answer_is_stored_also_where_nobody_wants_it() {
    let mut replica = Replica::with_session();
    let request = frame(session(1), 1, &[INCREMENT]);
    let unwanted = ExecutorCommand::Execute { range: range(2, std::slice::from_ref(&request)), answers: false };
    let outcome = replica.apply(vec![unwanted]).expect("a range in order");
    assert_eq!((outcome.answers.len(), outcome.transactions), (0, 1));
    assert_eq!(replica.execute(request).body, encoded(CommandResult::number(1)));
}

#[test]
fn an_idle_clients_next_command_is_expired_after_its_session_had_to_go() {
    let mut replica = Replica::with_limits(ReplicatedLimits { sessions: 2, ..ReplicatedLimits::default() });
    let request = frame(session(1), 1, &[INCREMENT]);
    replica.execute(open(1, false));
    assert_eq!(replica.execute(request.clone()).status, Status::Ok);
    replica.execute(open(2, false));
    replica.execute(open(3, false));
    for again in [request, frame(session(1), 2, &[INCREMENT])] {
        assert_eq!(replica.execute(again).status, Status::Expired);
    }
    let read = replica.execute(frame(session(3), 1, &[Command::Get { key: b"counter" }]));
    assert_eq!(read.body, encoded(CommandResult::bytes(b"1")), "what is expired is not applied");
    assert_eq!(replica.execute(open(1, false)).session, session(8), "the nonce went with its session");
}

#[test]
fn an_ordered_session_answers_gap_and_goes_on_with_the_missing_frame() {
    let mut replica = Replica::new();
    replica.execute(open(NONCE, true));
    assert_eq!(replica.execute(frame(session(1), 2, &[INCREMENT])).status, Status::Gap);
    assert_eq!(replica.execute(frame(session(1), 1, &[INCREMENT])).body, encoded(CommandResult::number(1)));
    assert_eq!(replica.execute(frame(session(1), 2, &[INCREMENT])).body, encoded(CommandResult::number(2)));
}

#[test]
fn a_sequence_below_the_acknowledged_is_expired_and_one_beyond_the_window_invalid() {
    let mut replica = Replica::with_session();
    let at = |sequence, acknowledged| raw(session(1), sequence, acknowledged, 0, b"");
    assert_eq!(replica.execute(at(1_025, 0)).status, Status::Invalid);
    assert_eq!(replica.execute(at(1_024, 0)).status, Status::Ok);
    assert_eq!(replica.execute(at(1_025, 1)).status, Status::Ok);
    assert_eq!(replica.execute(at(1, 0)).status, Status::Expired);
    assert_eq!(replica.execute(at(2, 0)).status, Status::Ok);
}

#[test]
fn stored_answers_stay_within_their_memory_whatever_clients_read() {
    let limits = ReplicatedLimits { session_answer_bytes: 200_000, ..ReplicatedLimits::default() };
    let mut replica = Replica::with_limits(limits);
    replica.execute(open(1, false));
    replica.execute(open(2, false));
    replica.execute(open(3, false));
    replica.execute(frame(session(1), 1, &[Command::Put { key: b"k", value: &[9; 10_000] }]));
    for sequence in 2..60 {
        for position in [1, 2, 3] {
            replica.execute(frame(session(position), sequence, &[Command::Get { key: b"k" }]));
            assert!(replica.executor.sessions().answer_bytes() <= 200_000);
        }
    }
    assert!(replica.executor.sessions().answer_bytes() > 180_000, "what is there is used");
    let known = [1, 2, 3].map(|position| replica.executor.sessions().contains(session(position)));
    assert_eq!(
        known,
        [true, true, false],
        "the one applied longest ago went; two that read for ever share what there is"
    );
    assert_eq!(replica.execute(frame(session(3), 60, &[INCREMENT])).status, Status::Expired);
}

#[test]
fn a_state_put_together_from_its_stored_parts_is_the_same_and_goes_on_alike() {
    let mut replica = Replica::with_session();
    for sequence in 1..20 {
        replica.execute(frame(session(1), sequence, &[INCREMENT]));
    }
    let mut stored = Vec::new();
    replica.executor.sessions().encode(|piece| stored.extend_from_slice(piece));
    let sessions = SessionTable::decode(&stored).expect("a stored table reads back");
    let mut store = MemoryStore::new();
    for (key, value) in replica.executor.store().range(Bound::Unbounded, Bound::Unbounded, usize::MAX).unwrap() {
        store.put(&key, &value).unwrap();
    }
    store.commit(replica.executor.executed()).unwrap();
    let mut restored = Replica::new();
    restored.executor = KvExecutor::restore(store, sessions, *replica.executor.limits(), block(20));
    assert_eq!(restored.digest(), replica.digest());
    for sequence in [19, 20] {
        let request = frame(session(1), sequence, &[INCREMENT]);
        assert_eq!(restored.execute(request.clone()), replica.execute(request));
    }
    assert_eq!(restored.digest(), replica.digest());
}
