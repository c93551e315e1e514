//! What each command does and answers.
#![allow(missing_docs)]

mod support;

use quorate_executor::{Command, CommandResult, OrderedStore, ReplicatedLimits};
use quorate_framework::{Status, limits};
use support::{NONCE, Replica, encoded, frame, open, plain, raw, session, statuses};

const GET: Command<'_> = Command::Get { key: b"key" };

fn put(value: &[u8]) -> Command<'_> {
    Command::Put { key: b"key", value }
}

#[test]
fn not_found_found_and_empty_and_error_are_three_different_answers() {
    let mut replica = Replica::with_session();
    let not_found = replica.one(GET);
    assert_eq!(not_found, plain(Status::NotFound));
    replica.one(put(b""));
    let empty = replica.one(GET);
    assert_eq!(empty, encoded(CommandResult::bytes(b"")));
    let error = replica.one(Command::Get { key: b"" });
    assert_eq!(error, plain(Status::Invalid));
    replica.one(put(b"value"));
    assert_eq!(replica.one(GET), encoded(CommandResult::bytes(b"value")));
}

#[test]
fn a_deleted_key_is_not_found_and_deleting_it_again_says_so() {
    let mut replica = Replica::with_session();
    replica.one(put(b"value"));
    assert_eq!(replica.one(Command::Delete { key: b"key" }), plain(Status::Ok));
    assert_eq!(replica.one(GET), plain(Status::NotFound));
    assert_eq!(replica.one(Command::Delete { key: b"key" }), plain(Status::NotFound));
}

#[test]
fn exists_tells_an_empty_value_from_a_missing_key_and_gives_no_value() {
    let mut replica = Replica::with_session();
    assert_eq!(replica.one(Command::Exists { key: b"key" }), plain(Status::NotFound));
    replica.one(put(b""));
    assert_eq!(replica.one(Command::Exists { key: b"key" }), plain(Status::Ok));
}

#[test]
fn append_starts_from_nothing_and_gives_the_new_length() {
    let mut replica = Replica::with_session();
    let append = |value| Command::Append { key: b"key", value };
    assert_eq!(replica.one(append(b"abc")), encoded(CommandResult::number(3)));
    assert_eq!(replica.one(append(b"")), encoded(CommandResult::number(3)));
    assert_eq!(replica.one(append(b"de")), encoded(CommandResult::number(5)));
    assert_eq!(replica.one(GET), encoded(CommandResult::bytes(b"abcde")));
}

#[test]
fn increment_starts_from_zero_and_a_sum_beyond_64_bits_or_a_value_that_is_no_number_is_a_conflict() {
    let mut replica = Replica::with_session();
    let increment = |by| Command::Increment { key: b"key", by };
    assert_eq!(replica.one(increment(-5)), encoded(CommandResult::number(-5)));
    assert_eq!(replica.one(GET), encoded(CommandResult::bytes(b"-5")));
    assert_eq!(replica.one(increment(i64::MAX)), encoded(CommandResult::number(i64::MAX - 5)));
    assert_eq!(replica.one(increment(6)), plain(Status::Conflict));
    assert_eq!(replica.one(GET), encoded(CommandResult::bytes(b"9223372036854775802")));
    replica.one(put(b"seven"));
    assert_eq!(replica.one(increment(1)), plain(Status::Conflict));
    assert_eq!(replica.one(GET), encoded(CommandResult::bytes(b"seven")));
}

#[test]
fn compare_and_set_changes_only_what_is_as_expected() {
    let mut replica = Replica::with_session();
    let set = |expected, new| Command::CompareAndSet { key: b"key", expected, new };
    assert_eq!(replica.one(set(Some(b""), b"x")), plain(Status::Conflict));
    assert_eq!(replica.one(set(None, b"")), plain(Status::Ok));
    assert_eq!(replica.one(set(None, b"x")), plain(Status::Conflict));
    assert_eq!(replica.one(set(Some(b"other"), b"x")), plain(Status::Conflict));
    assert_eq!(replica.one(set(Some(b""), b"x")), plain(Status::Ok));
    assert_eq!(replica.one(GET), encoded(CommandResult::bytes(b"x")));
}

#[test]
fn commands_of_a_frame_are_applied_in_order_and_see_one_another() {
    let mut replica = Replica::with_session();
    let answer = replica.run(&[put(b"1"), Command::Increment { key: b"key", by: 1 }, GET]);
    let expected = [plain(Status::Ok), encoded(CommandResult::number(2)), encoded(CommandResult::bytes(b"2"))];
    assert_eq!(answer.body, expected.concat());
}

#[test]
fn a_key_or_value_beyond_the_limits_is_invalid_for_its_command_alone() {
    let mut replica = Replica::with_session();
    let (long_key, longest_key) = (vec![1; limits::KEY_BYTES + 1], vec![1; limits::KEY_BYTES]);
    let (long_value, longest_value) = (vec![2; limits::VALUE_BYTES + 1], vec![2; limits::VALUE_BYTES]);
    let answer = replica.run(&[
        Command::Put { key: b"", value: b"v" },
        Command::Put { key: &long_key, value: b"v" },
        Command::Put { key: &longest_key, value: b"v" },
        Command::Put { key: b"a\0\n\xff", value: b"" },
    ]);
    assert_eq!(statuses(&answer, 4), [Status::Invalid, Status::Invalid, Status::Ok, Status::Ok]);
    assert_eq!(replica.one(put(&long_value)), plain(Status::Invalid));
    assert_eq!(replica.one(GET), plain(Status::NotFound));
    assert_eq!(replica.one(put(&longest_value)), plain(Status::Ok));
    assert_eq!(replica.one(GET), encoded(CommandResult::bytes(&longest_value)));
    assert_eq!(replica.one(Command::Append { key: b"key", value: b"x" }), plain(Status::Invalid));
    assert_eq!(replica.one(GET), encoded(CommandResult::bytes(&longest_value)));
}

#[test]
fn limits_are_those_of_the_replicated_state() {
    let limits =
        ReplicatedLimits { key_bytes: 3, value_bytes: 2, commands_per_frame: 2, ..ReplicatedLimits::default() };
    let mut replica = Replica::with_limits(limits);
    replica.execute(open(NONCE, false));
    assert_eq!(replica.one(put(b"ab")), plain(Status::Ok));
    assert_eq!(replica.one(put(b"abc")), plain(Status::Invalid));
    assert_eq!(replica.one(Command::Get { key: b"four" }), plain(Status::Invalid));
    assert_eq!(replica.one(Command::Increment { key: b"n", by: 100 }), plain(Status::Invalid));
    assert_eq!(replica.run(&[GET, GET, GET]).status, Status::Invalid);
}

#[test]
fn values_that_do_not_fit_an_answer_are_invalid_and_leave_room_for_the_results_behind_them() {
    let limits = ReplicatedLimits { answer_bytes: 40, ..ReplicatedLimits::default() };
    let mut replica = Replica::with_limits(limits);
    replica.execute(open(NONCE, false));
    replica.one(put(&[7; 10]));
    let append = Command::Append { key: b"other", value: b"x" };
    let answer = replica.run(&[GET, GET, append]);
    assert_eq!(statuses(&answer, 3), [Status::Ok, Status::Ok, Status::Ok]);
    let answer = replica.run(&[GET, GET, GET, append]);
    assert_eq!(statuses(&answer, 4), [Status::Ok, Status::Invalid, Status::Ok, Status::Ok]);
    assert!(answer.body.len() <= 40);
}

#[test]
fn of_a_malformed_frame_nothing_is_applied_and_its_sequence_stays_invalid() {
    let mut replica = Replica::with_session();
    let good = [put(b"value"), put(b"other")];
    let whole = frame(session(1), 1, &good);
    let body = &whole[40..];
    let malformed = [
        (2, [body, b"\0"].concat()),
        (1, body.to_vec()),
        (3, body.to_vec()),
        (2, body[..body.len() - 1].to_vec()),
        (3, [body, b"\x63\x01k"].concat()),
        (3, [body, b"\x01\xff\xff\xff\xff\xffk"].concat()),
    ];
    for (sequence, (count, body)) in (1..).zip(malformed) {
        let outcome =
            replica.execute_range(support::range(replica.next(), &[raw(session(1), sequence, 0, count, &body)]));
        assert_eq!((outcome.answers[0].status, outcome.transactions), (Status::Invalid, 0), "{body:?}");
        assert!(outcome.answers[0].body.is_empty());
        assert_eq!(replica.executor.store().keys(), 0, "nothing of {body:?} is applied");
        assert_eq!(replica.execute(frame(session(1), sequence, &good)).status, Status::Invalid);
    }
    assert_eq!(replica.executor.store().keys(), 0);
}

#[test]
fn a_payload_that_is_no_frame_is_invalid() {
    let mut replica = Replica::with_session();
    let answer = replica.execute(bytes::Bytes::from_static(b"neither header nor body"));
    assert_eq!((answer.status, answer.session.is_none()), (Status::Invalid, true));
}
