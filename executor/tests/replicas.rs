//! Replicas that execute the same order are in the same state, whatever each did ahead of it.
#![allow(missing_docs)]

mod support;

use bytes::Bytes;
use proptest::prelude::*;
use quorate_executor::{Command, KeyValue, OrderedStore, ReplicatedLimits};
use quorate_framework::entry::EntryKind;
use quorate_framework::{
    Batch, BlockId, ExecuteRange, ExecutorCommand, ExecutorError, Outcome, Position, ReplyKind, Status,
    TransactionExecutor,
};
use support::{NONCE, Replica, block, encoded, frame, open, range, raw, session};

const INCREMENT: Command<'_> = Command::Increment { key: b"counter", by: 1 };

fn increments(first: u64, sequences: std::ops::Range<u64>) -> ExecuteRange {
    let payloads: Vec<Bytes> = sequences.map(|sequence| frame(session(1), sequence, &[INCREMENT])).collect();
    range(first, &payloads)
}

fn speculate(base: u64, range: &ExecuteRange) -> ExecutorCommand {
    let base = if base == 0 { BlockId::default() } else { block(base) };
    ExecutorCommand::Speculate { base, range: range.clone() }
}

fn execute(range: &ExecuteRange, answers: bool) -> ExecutorCommand {
    ExecutorCommand::Execute { range: range.clone(), answers }
}

fn counter(replica: &Replica) -> Option<Vec<u8>> {
    replica.executor.store().get(b"counter").expect("a memory store does not fail").map(<[u8]>::to_vec)
}

#[test]
fn a_range_that_leaves_a_gap_or_repeats_a_position_is_refused_for_good() {
    for first in [1, 3] {
        let mut replica = Replica::with_session();
        let error = ExecutorError::OutOfOrder { expected: Position(2), given: Position(first) };
        assert_eq!(replica.apply(vec![execute(&increments(first, 1..2), true)]), Err(error.clone()));
        assert_eq!(replica.apply(vec![execute(&increments(2, 1..2), true)]), Err(error), "an error is final");
    }
}

#[test]
fn entries_without_a_request_move_the_position_and_are_not_answered() {
    let mut replica = Replica::with_session();
    let batch = |kind| Batch { block: block(9), kind, payload: Bytes::from_static(b"members") };
    let batches = vec![batch(EntryKind::NoOperation), batch(EntryKind::Membership)];
    let outcome = replica.execute_range(ExecuteRange { first: Position(2), batches });
    let expected = Outcome { executed: Position(3), ..Outcome::default() };
    assert_eq!(outcome, expected);
    assert_eq!(replica.executor.store().applied(), Position(3));
}

#[test]
fn a_group_is_carried_out_in_order_and_counted() {
    let mut replica = Replica::with_session();
    let group = vec![execute(&increments(2, 1..4), true), execute(&increments(5, 4..6), true), ExecutorCommand::Digest];
    let outcome = replica.apply(group).expect("ranges in order");
    assert_eq!((outcome.executed, outcome.transactions, outcome.answers.len()), (Position(6), 5, 5));
    let positions: Vec<u64> = outcome.answers.iter().map(|answer| answer.position.0).collect();
    assert_eq!(positions, [2, 3, 4, 5, 6]);
    assert!(outcome.answers.iter().all(|answer| answer.block == block(answer.position.0)));
    assert_eq!(outcome.digest, Some(replica.digest()));
}

#[test]
fn a_digest_shows_entries_sessions_limits_and_position() {
    let mut replica = Replica::with_session();
    let mut digests = vec![replica.digest()];
    replica.execute(frame(session(1), 1, &[INCREMENT]));
    digests.push(replica.digest());
    replica.execute(raw(session(1), 2, 0, 0, b""));
    digests.push(replica.digest());
    replica.execute_range(ExecuteRange {
        first: Position(4),
        batches: vec![Batch { block: block(4), kind: EntryKind::NoOperation, payload: Bytes::new() }],
    });
    digests.push(replica.digest());
    let mut limited = Replica::with_limits(ReplicatedLimits { value_bytes: 9, ..ReplicatedLimits::default() });
    limited.execute(open(NONCE, false));
    digests.push(limited.digest());
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 5);
}

#[test]
fn what_is_executed_ahead_is_answered_as_such_and_leaves_the_committed_state_alone() {
    let (mut replica, mut other) = (Replica::with_session(), Replica::with_session());
    let ahead = increments(2, 1..3);
    let outcome = replica.apply(vec![speculate(1, &ahead)]).expect("over the last block");
    assert_eq!((outcome.executed, outcome.transactions), (Position(1), 2));
    assert!(outcome.answers.iter().all(|answer| answer.kind == ReplyKind::Speculative));
    assert_eq!(outcome.answers[1].body, encoded(quorate_executor::CommandResult::number(2)));
    assert_eq!(counter(&replica), None);
    assert_eq!(replica.digest(), other.digest(), "a digest is of the committed state");
    assert!(replica.executor.is_ahead(), "what lies ahead outlives a digest");
}

#[test]
fn the_same_blocks_committed_are_promoted_without_being_executed_again() {
    let (mut replica, mut plain) = (Replica::with_session(), Replica::with_session());
    let ahead = increments(2, 1..3);
    let early = replica.apply(vec![speculate(1, &ahead)]).expect("over the last block").answers;
    let outcome = replica.apply(vec![execute(&ahead, true)]).expect("in order");
    assert_eq!((outcome.executed, outcome.transactions), (Position(3), 0), "promoted, not executed");
    assert!(outcome.answers.iter().all(|answer| answer.kind == ReplyKind::Committed));
    let bodies =
        |answers: &[quorate_framework::Answer]| answers.iter().map(|answer| answer.body.clone()).collect::<Vec<_>>();
    assert_eq!(bodies(&outcome.answers), bodies(&early));
    plain.execute_range(ahead);
    assert_eq!(replica.digest(), plain.digest());
    assert_eq!(counter(&replica), Some(b"2".to_vec()));
}

#[test]
fn a_longer_committed_range_promotes_its_beginning_and_executes_the_rest() {
    let (mut replica, mut plain) = (Replica::with_session(), Replica::with_session());
    replica.apply(vec![speculate(1, &increments(2, 1..3))]).expect("over the last block");
    let outcome = replica.apply(vec![execute(&increments(2, 1..6), true)]).expect("in order");
    assert_eq!((outcome.transactions, outcome.answers.len()), (3, 5));
    plain.execute_range(increments(2, 1..6));
    assert_eq!(replica.digest(), plain.digest());
}

#[test]
fn a_shorter_committed_range_leaves_the_rest_ahead() {
    let (mut replica, mut plain) = (Replica::with_session(), Replica::with_session());
    replica.apply(vec![speculate(1, &increments(2, 1..6))]).expect("over the last block");
    replica.execute_range(increments(2, 1..3));
    plain.execute_range(increments(2, 1..3));
    assert!(replica.executor.is_ahead());
    assert_eq!(replica.digest(), plain.digest());
    let outcome = replica.execute_range(increments(4, 3..6));
    assert_eq!((outcome.transactions, outcome.answers.len()), (0, 3), "the rest is promoted");
    plain.execute_range(increments(4, 3..6));
    assert_eq!(replica.digest(), plain.digest());
}

#[test]
fn other_blocks_committed_drop_what_was_ahead_and_its_frames_are_not_taken_for_applied() {
    let (mut replica, mut plain) = (Replica::with_session(), Replica::with_session());
    replica.apply(vec![speculate(1, &increments(2, 1..3))]).expect("over the last block");
    let mut other = increments(2, 2..4);
    other.batches[1].block = block(77);
    let outcome = replica.apply(vec![execute(&other, true)]).expect("in order");
    assert_eq!(outcome.transactions, 2);
    assert_eq!(outcome.answers[0].body, encoded(quorate_executor::CommandResult::number(1)));
    plain.execute_range(other);
    let late = replica.execute(frame(session(1), 1, &[INCREMENT]));
    assert_eq!(late.body, encoded(quorate_executor::CommandResult::number(3)));
    plain.execute(frame(session(1), 1, &[INCREMENT]));
    assert_eq!(replica.digest(), plain.digest());
}

#[test]
fn a_rollback_drops_what_is_above_it_and_never_what_is_committed() {
    let mut replica = Replica::with_session();
    let before = replica.digest();
    let ahead = increments(2, 1..4);
    replica
        .apply(vec![speculate(1, &ahead), ExecutorCommand::Rollback { to: Position(4) }])
        .expect("nothing is above 4");
    assert!(replica.executor.is_ahead());
    replica.apply(vec![ExecutorCommand::Rollback { to: Position(2) }]).expect("above the commit");
    let outcome = replica.execute_range(increments(2, 1..2));
    assert_eq!((outcome.transactions, outcome.answers.len()), (0, 1), "the part below the rollback stayed ahead");
    replica
        .apply(vec![speculate(2, &increments(3, 2..3)), ExecutorCommand::Rollback { to: Position(2) }])
        .expect("legal");
    assert!(!replica.executor.is_ahead());
    assert_ne!(replica.digest(), before);
    let error = ExecutorError::RollbackBelowCommit { to: Position(1), committed: Position(2) };
    assert_eq!(replica.apply(vec![ExecutorCommand::Rollback { to: Position(1) }]), Err(error));
}

#[test]
fn a_session_opened_ahead_is_gone_after_the_rollback() {
    let mut replica = Replica::new();
    let outcome = replica.apply(vec![speculate(0, &range(1, &[open(NONCE, false)]))]).expect("over the beginning");
    assert_eq!(outcome.answers[0].session, session(1));
    replica.apply(vec![ExecutorCommand::Rollback { to: Position(0) }]).expect("above the commit");
    let refused = frame(session(1), 1, &[INCREMENT]);
    assert_eq!(replica.execute(refused).status, Status::Expired);
    assert_eq!(replica.execute(open(NONCE, false)).session, session(2));
}

#[test]
fn speculation_over_a_block_that_is_not_the_last_or_at_a_position_that_is_not_the_next_is_refused() {
    let mut replica = Replica::with_session();
    assert_eq!(replica.apply(vec![speculate(9, &increments(2, 1..2))]), Err(ExecutorError::BadBase));
    let mut replica = Replica::with_session();
    let error = ExecutorError::OutOfOrder { expected: Position(2), given: Position(3) };
    assert_eq!(replica.apply(vec![speculate(1, &increments(3, 1..2))]), Err(error));
}

#[test]
fn reads_outside_the_log_are_refused_by_a_typed_error() {
    let refused = Replica::new().apply(vec![ExecutorCommand::Read(Vec::new())]);
    assert!(matches!(refused, Err(ExecutorError::Unsupported(_))));
}

#[test]
fn the_async_contract_does_what_the_direct_call_does() {
    let mut replica = Replica::with_session();
    let group = vec![execute(&increments(2, 1..3), true), ExecutorCommand::Digest];
    let direct = replica.apply(group).expect("in order");
    let mut other = Replica::with_session();
    let mut group = vec![execute(&increments(2, 1..3), true), ExecutorCommand::Digest];
    let future = other.executor.execute(&mut group);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(outcome) => assert_eq!(outcome, Ok(direct)),
        std::task::Poll::Pending => panic!("a memory store never waits"),
    }
    assert!(group.is_empty() && group.capacity() > 0, "the memory stays the caller's");
}

/// A frame of any kind: opens, good and malformed bodies, any session, any sequence.
fn payloads() -> impl Strategy<Value = Vec<Bytes>> {
    let commands = prop::collection::vec((0..7_u8, 0..4_u8, prop::collection::vec(any::<u8>(), 0..6)), 0..5);
    let good = (1..6_u64, 0..12_u64, 0..4_u64, commands).prop_map(|(position, sequence, acknowledged, commands)| {
        let mut body = Vec::new();
        for (kind, name, value) in &commands {
            let key = std::slice::from_ref(name);
            let command = match kind {
                0 => Command::Get { key },
                1 => Command::Put { key, value },
                2 => Command::Delete { key },
                3 => Command::Append { key, value },
                4 => Command::Increment { key, by: i64::from(*name) },
                5 => Command::CompareAndSet { key, expected: value.first().map(|_| &value[..1]), new: value },
                _ => Command::Exists { key },
            };
            command.encode(&mut body);
        }
        raw(session(position), sequence, acknowledged, commands.len() as u32, &body)
    });
    let tags = prop::collection::vec(prop_oneof![0..9_u8, any::<u8>()], 0..40);
    let wild = (1..6_u64, 0..12_u64, 0..6_u32, tags)
        .prop_map(|(position, sequence, count, body)| raw(session(position), sequence, 0, count, &body));
    let noise = prop::collection::vec(any::<u8>(), 0..80).prop_map(Bytes::from);
    let opens = (0..5_u128, any::<bool>()).prop_map(|(nonce, ordered)| open(nonce, ordered));
    prop::collection::vec(prop_oneof![6 => good, 3 => wild, 1 => noise, 2 => opens], 1..30)
}

fn tight() -> Replica {
    let limits = ReplicatedLimits {
        session_window_frames: 8,
        sessions: 3,
        session_answer_bytes: 2_000,
        value_bytes: 12,
        answer_bytes: 60,
        ..ReplicatedLimits::default()
    };
    let mut replica = Replica::with_limits(limits);
    replica.execute(open(NONCE, false));
    replica
}

proptest! {
    #[test]
    fn arbitrary_frames_never_panic_and_two_replicas_answer_them_alike(payloads in payloads()) {
        let (mut one, mut other) = (tight(), tight());
        let whole = one.execute_range(range(2, &payloads));
        let mut answers = Vec::new();
        for payload in &payloads {
            answers.push(other.execute(payload.clone()));
        }
        prop_assert_eq!(whole.answers, answers);
        prop_assert_eq!(one.digest(), other.digest());
    }

    #[test]
    fn replicas_agree_whether_answers_are_wanted_and_whatever_was_executed_ahead_and_rolled_back(
        payloads in payloads(), lost in payloads(), split in 0..30_usize, promote in any::<bool>()
    ) {
        let (mut plain, mut silent, mut eager) = (tight(), tight(), tight());
        let split = split.min(payloads.len());
        let (first, second) = (range(2, &payloads[..split]), range(2 + split as u64, &payloads[split..]));
        let expected = plain.apply(vec![execute(&first, true), execute(&second, true)]).expect("in order");
        silent.apply(vec![execute(&first, false), execute(&second, false)]).expect("in order");
        let mut rival = range(2, &lost);
        rival.batches.iter_mut().for_each(|batch| batch.block.0[31] = 1);
        eager.apply(vec![speculate(1, &rival)]).expect("over the last block");
        if promote {
            eager.apply(vec![ExecutorCommand::Rollback { to: Position(1) }, speculate(1, &first)]).expect("legal");
        }
        let mut outcome = eager.apply(vec![execute(&first, true)]).expect("in order");
        let base = 1 + split as u64;
        let group = vec![speculate(base, &second), ExecutorCommand::Digest, execute(&second, true)];
        let rest = eager.apply(group).expect("in order").answers;
        outcome.answers.extend(rest.into_iter().filter(|answer| answer.kind == ReplyKind::Committed));
        prop_assert_eq!(outcome.answers, expected.answers);
        prop_assert_eq!(silent.digest(), plain.digest());
        prop_assert_eq!(eager.digest(), plain.digest());
    }
}

#[test]
fn a_range_that_goes_on_where_what_lies_ahead_ends_is_executed_over_it_and_each_part_can_be_undone_or_committed() {
    let (first, second) = (increments(2, 1..3), increments(4, 3..6));
    let mut straight = Replica::with_session();
    straight.execute_range(first.clone());
    let after_first = straight.digest();
    straight.execute_range(second.clone());

    let mut ahead = Replica::with_session();
    let outcome = ahead.apply(vec![speculate(1, &first), speculate(3, &second)]).expect("each on the last block");
    let positions: Vec<(u64, ReplyKind)> =
        outcome.answers.iter().map(|answer| (answer.position.0, answer.kind)).collect();
    let expected: Vec<(u64, ReplyKind)> = (2..7).map(|position| (position, ReplyKind::Speculative)).collect();
    assert_eq!(positions, expected, "each batch is answered once");
    assert_eq!(counter(&ahead), None, "the committed state knows nothing of it");

    ahead
        .apply(vec![ExecutorCommand::Rollback { to: Position(3) }, execute(&first, false)])
        .expect("the second is undone");
    assert_eq!(ahead.digest(), after_first);
    ahead.apply(vec![speculate(3, &second), execute(&second, false)]).expect("and done again");
    assert_eq!(ahead.digest(), straight.digest());
}
