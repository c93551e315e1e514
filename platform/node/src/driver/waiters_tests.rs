use super::super::scripted::block;
use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use quorate_framework::entry::EntryKind;
use quorate_framework::{Batch, Sequence, SessionId, Status, TicketSequence};
use std::collections::BTreeMap;

fn origin(sequence: u64) -> Origin {
    Origin { connection: ConnectionId(sequence % 3), session: SessionId::NONE, sequence: Sequence(sequence) }
}

fn accepted(sequence: u64, position: u64, variant: u64) -> Accepted {
    Accepted { origin: origin(sequence), position: Position(position), block: block(position, variant) }
}

fn range(first: u64, variants: &[u64]) -> ExecuteRange {
    let batch = |(position, variant): (u64, &u64)| Batch {
        block: block(position, *variant),
        kind: EntryKind::Request,
        payload: Bytes::new(),
    };
    ExecuteRange { first: Position(first), batches: (first..).zip(variants).map(batch).collect() }
}

fn answer(position: u64, variant: u64, kind: ReplyKind) -> Answer {
    Answer {
        position: Position(position),
        block: block(position, variant),
        kind,
        session: SessionId::NONE,
        sequence: Sequence(0),
        status: Status::Ok,
        body: Bytes::new(),
    }
}

/// Waiters with these requests, each of 10 bytes.
fn waiters(list: &[(u64, u64, u64)]) -> Waiters {
    let mut waiters = Waiters::default();
    for (sequence, position, variant) in list {
        waiters.accept(accepted(*sequence, *position, *variant), Some(10)).unwrap();
    }
    assert_eq!(unknown(&mut waiters), []);
    waiters
}

/// Who is to be told that the outcome is unknown.
fn unknown(waiters: &mut Waiters) -> Vec<Origin> {
    let mut unknown = Vec::new();
    waiters.drain_unknown(&mut unknown);
    unknown
}

const DURABLE: Ticket = Ticket::RECOVERED;

#[test]
fn an_answer_of_the_accepted_block_goes_to_its_origin_once() {
    let mut waiters = waiters(&[(1, 5, 0), (2, 6, 0)]);
    assert!(waiters.execute(&range(5, &[0])));
    assert_eq!(waiters.answer(&answer(5, 0, ReplyKind::Committed), DURABLE), Verdict::Reply(origin(1)));
    assert_eq!(waiters.answer(&answer(5, 0, ReplyKind::Committed), DURABLE), Verdict::Nobody);
    waiters.executed(Position(5));
    assert_eq!((unknown(&mut waiters), waiters.load()), (vec![], Load { frames: 1, bytes: 10 }));
}

#[test]
fn another_block_at_the_position_ends_the_wait_as_unknown_when_it_is_ordered() {
    let mut waiters = waiters(&[(1, 5, 0)]);
    assert!(!waiters.execute(&range(5, &[1])), "nobody waits for that block");
    assert_eq!(unknown(&mut waiters), [origin(1)]);
    assert_eq!(waiters.answer(&answer(5, 1, ReplyKind::Committed), DURABLE), Verdict::Nobody);
    waiters.executed(Position(5));
    assert_eq!((unknown(&mut waiters), waiters.load()), (vec![], Load::default()), "told once");
}

#[test]
fn a_position_executed_without_an_answer_ends_the_wait_as_unknown() {
    let mut waiters = waiters(&[(1, 5, 0)]);
    waiters.executed(Position(5));
    assert_eq!(unknown(&mut waiters), [origin(1)]);
    assert_eq!(waiters.waiting(), 0);
}

#[test]
fn a_request_accepted_where_everything_is_ordered_already_is_unknown_at_once() {
    let mut waiters = Waiters::default();
    assert!(!waiters.execute(&range(1, &[0, 0, 0])));
    waiters.accept(accepted(1, 3, 0), Some(10)).unwrap();
    assert_eq!((unknown(&mut waiters), waiters.load()), (vec![origin(1)], Load::default()));
}

#[test]
fn stepping_down_ends_every_wait_from_a_position_on_as_unknown_and_no_other() {
    let mut waiters = waiters(&[(1, 5, 0), (2, 7, 0), (3, 8, 0)]);
    waiters.forsake(Position(6));
    assert_eq!(unknown(&mut waiters), [origin(2), origin(3)]);
    assert_eq!(waiters.load(), Load { frames: 1, bytes: 10 });
    assert_eq!(waiters.answer(&answer(7, 0, ReplyKind::Committed), DURABLE), Verdict::Nobody);
    assert_eq!(waiters.answer(&answer(5, 0, ReplyKind::Committed), DURABLE), Verdict::Reply(origin(1)));
}

#[test]
fn a_request_accepted_again_elsewhere_waits_only_there_and_takes_its_size_along() {
    let mut waiters = waiters(&[(1, 5, 0), (2, 6, 0)]);
    waiters.accept(accepted(1, 7, 1), None).unwrap();
    assert_eq!(waiters.load(), Load { frames: 2, bytes: 20 });
    waiters.executed(Position(6));
    assert_eq!(unknown(&mut waiters), [origin(2)], "the first wait of origin 1 is gone");
    assert_eq!(waiters.answer(&answer(7, 1, ReplyKind::Committed), DURABLE), Verdict::Reply(origin(1)));
}

#[test]
fn requests_that_move_up_within_an_event_displace_one_another_and_nobody_is_told_anything() {
    let mut waiters = waiters(&[(1, 5, 0), (2, 6, 0), (3, 7, 0)]);
    for sequence in 1..=3 {
        waiters.accept(accepted(sequence, 5 + sequence, 1), None).unwrap();
    }
    assert_eq!(unknown(&mut waiters), []);
    assert_eq!((waiters.waiting(), waiters.load()), (3, Load { frames: 3, bytes: 30 }));
    assert_eq!(waiters.answer(&answer(7, 1, ReplyKind::Committed), DURABLE), Verdict::Reply(origin(2)));
}

#[test]
fn another_request_accepted_at_the_position_ends_the_wait_as_unknown() {
    let mut waiters = waiters(&[(1, 5, 0)]);
    waiters.accept(accepted(2, 5, 1), Some(20)).unwrap();
    assert_eq!(unknown(&mut waiters), [origin(1)]);
    assert_eq!(waiters.load(), Load { frames: 1, bytes: 20 });
}

#[test]
fn a_second_frame_of_the_same_sequence_is_answered_once_but_counted_until_it_is_executed() {
    let mut waiters = waiters(&[(1, 5, 0), (1, 6, 0)]);
    assert_eq!((waiters.load(), waiters.waiting()), (Load { frames: 2, bytes: 20 }, 1));
    assert_eq!(waiters.answer(&answer(5, 0, ReplyKind::Committed), DURABLE), Verdict::Nobody);
    assert_eq!(waiters.answer(&answer(6, 0, ReplyKind::Committed), DURABLE), Verdict::Reply(origin(1)));
    waiters.executed(Position(6));
    assert_eq!((unknown(&mut waiters), waiters.load()), (vec![], Load::default()));
}

#[test]
fn a_speculative_answer_waits_for_its_ticket_and_the_commit_of_its_block_then_says_nothing() {
    let mut sequence = TicketSequence::default();
    let ticket = sequence.next_ticket();
    let mut waiters = waiters(&[(1, 5, 0)]);
    waiters.speculate(&range(5, &[0]), ticket);
    let speculative = answer(5, 0, ReplyKind::Speculative);
    assert_eq!(waiters.answer(&speculative, DURABLE), Verdict::Hold(ticket));
    assert_eq!(waiters.release(&speculative, DURABLE), None);
    assert_eq!(waiters.release(&speculative, ticket), Some(origin(1)));
    assert_eq!(waiters.release(&speculative, ticket), None);
    assert!(!waiters.execute(&range(5, &[0])), "the client has its answer");
    assert_eq!(waiters.answer(&answer(5, 0, ReplyKind::Committed), ticket), Verdict::Nobody);
    waiters.executed(Position(5));
    assert_eq!((unknown(&mut waiters), waiters.load()), (vec![], Load::default()));
}

#[test]
fn a_speculative_answer_between_order_and_commit_is_the_only_one() {
    for committed_answer_comes in [true, false] {
        let mut waiters = waiters(&[(1, 5, 0)]);
        waiters.speculate(&range(5, &[0]), DURABLE);
        assert!(waiters.execute(&range(5, &[0])));
        assert_eq!(waiters.answer(&answer(5, 0, ReplyKind::Speculative), DURABLE), Verdict::Reply(origin(1)));
        if committed_answer_comes {
            assert_eq!(waiters.answer(&answer(5, 0, ReplyKind::Committed), DURABLE), Verdict::Nobody);
        }
        waiters.executed(Position(5));
        assert_eq!((unknown(&mut waiters), waiters.load()), (vec![], Load::default()));
    }
}

#[test]
fn a_commit_overtakes_a_speculative_answer_that_still_waits() {
    let mut sequence = TicketSequence::default();
    let ticket = sequence.next_ticket();
    let mut waiters = waiters(&[(1, 5, 0)]);
    waiters.speculate(&range(5, &[0]), ticket);
    assert_eq!(waiters.answer(&answer(5, 0, ReplyKind::Speculative), DURABLE), Verdict::Hold(ticket));
    assert!(waiters.execute(&range(5, &[0])));
    assert_eq!(waiters.answer(&answer(5, 0, ReplyKind::Committed), DURABLE), Verdict::Reply(origin(1)));
    assert_eq!(waiters.release(&answer(5, 0, ReplyKind::Speculative), ticket), None);
}

#[test]
fn a_speculative_answer_of_a_block_that_was_rolled_back_never_leaves() {
    let mut sequence = TicketSequence::default();
    let ticket = sequence.next_ticket();
    let mut waiters = waiters(&[(1, 5, 0), (2, 6, 0)]);
    waiters.speculate(&range(5, &[0, 0]), ticket);
    waiters.rollback(Position(5));
    assert_eq!(waiters.answer(&answer(5, 0, ReplyKind::Speculative), ticket), Verdict::Reply(origin(1)));
    assert_eq!(waiters.answer(&answer(6, 0, ReplyKind::Speculative), ticket), Verdict::Nobody);
}

#[test]
fn a_client_that_is_gone_is_not_answered_but_its_request_stays_counted_until_it_is_executed() {
    let mut waiters = waiters(&[(1, 5, 0), (2, 6, 0), (3, 7, 0), (4, 8, 0)]);
    waiters.depart(&[ConnectionId(1)]);
    assert_eq!((waiters.waiting(), waiters.load().frames), (2, 4));
    assert!(!waiters.execute(&range(5, &[0])), "no answer is made for nobody");
    waiters.executed(Position(8));
    assert_eq!((unknown(&mut waiters), waiters.load()), (vec![origin(2), origin(3)], Load::default()));
}

#[test]
fn a_position_beyond_all_bounds_is_an_error_and_allocates_nothing() {
    let mut waiters = waiters(&[(1, 5, 0)]);
    for position in [5 + POSITIONS_SPANNED, u64::MAX] {
        let error = waiters.accept(accepted(2, position, 0), Some(10)).unwrap_err();
        assert_eq!(error, TooFar { position: Position(position), waiting: Position(5) });
    }
    assert_eq!(waiters.slots.len(), 1);
}

/// A wait as the model knows it.
#[derive(Clone, Debug)]
struct Wait {
    sequence: Option<u64>,
    variant: u64,
    speculating: bool,
    answered: bool,
}

/// What may happen; positions are counted from the last executed one, so that things meet.
#[derive(Clone, Debug)]
enum Act {
    Accept { sequence: u64, ahead: u64, variant: u64, new: bool },
    Execute { count: usize, variant: u64 },
    Outcome { answers: bool },
    Speculate { ahead: u64, variant: u64 },
    SpeculativeAnswer { ahead: u64, variant: u64 },
    Rollback(u64),
    Forsake(u64),
    Depart(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let variant = || 0u64..2;
    prop_oneof![
        6 => (0u64..12, 0u64..6, variant(), any::<bool>())
            .prop_map(|(sequence, ahead, variant, new)| Act::Accept { sequence, ahead, variant, new }),
        2 => (1usize..4, variant()).prop_map(|(count, variant)| Act::Execute { count, variant }),
        2 => any::<bool>().prop_map(|answers| Act::Outcome { answers }),
        4 => (1u64..6, variant()).prop_map(|(ahead, variant)| Act::Speculate { ahead, variant }),
        4 => (1u64..6, variant()).prop_map(|(ahead, variant)| Act::SpeculativeAnswer { ahead, variant }),
        1 => (0u64..6).prop_map(Act::Rollback),
        1 => (0u64..6).prop_map(Act::Forsake),
        1 => (0u64..3).prop_map(Act::Depart),
    ]
}

/// The same, with a map and no cleverness. Positions above `executed` and up to `ordered` are with the executor, as `blocks`.
#[derive(Default)]
struct Model {
    waits: BTreeMap<u64, Wait>,
    ordered: u64,
    executed: u64,
    blocks: BTreeMap<u64, u64>,
}

impl Model {
    fn accept(&mut self, sequence: u64, position: u64, variant: u64, new: bool) -> Vec<u64> {
        let earlier =
            self.waits.iter().find(|(_, wait)| wait.sequence == Some(sequence)).map(|(position, _)| *position);
        if let Some(earlier) = earlier {
            if new {
                self.waits.get_mut(&earlier).unwrap().sequence = None;
            } else {
                self.waits.remove(&earlier);
            }
        }
        if position <= self.ordered {
            return vec![sequence];
        }
        let wait = Wait { sequence: Some(sequence), variant, speculating: false, answered: false };
        self.waits.insert(position, wait).and_then(|wait| wait.sequence).into_iter().collect()
    }
}

proptest! {
    #[test]
    fn the_waiters_do_what_a_plain_map_does(acts in proptest::collection::vec(act(), 0..120)) {
        let mut waiters = Waiters::default();
        let mut model = Model::default();
        for act in acts {
            let mut expected = Vec::new();
            match act {
                Act::Accept { sequence, ahead, variant, new } => {
                    let position = (model.executed + ahead).max(1);
                    expected = model.accept(sequence, position, variant, new);
                    let bytes = new.then_some(10);
                    waiters.accept(accepted(sequence, position, variant), bytes).unwrap();
                }
                Act::Execute { count, variant } => {
                    let first = model.ordered + 1;
                    let mut wanted = false;
                    for position in first..first + count as u64 {
                        model.blocks.insert(position, variant);
                        if let Some(wait) = model.waits.get_mut(&position) {
                            if wait.variant != variant {
                                expected.extend(wait.sequence.take());
                            } else if wait.answered {
                                wait.sequence = None;
                            }
                            wanted |= wait.sequence.is_some();
                        }
                    }
                    model.ordered += count as u64;
                    prop_assert_eq!(waiters.execute(&range(first, &vec![variant; count])), wanted);
                }
                Act::Outcome { answers } => {
                    for position in model.executed + 1..=model.ordered {
                        let variant = model.blocks[&position];
                        let verdict = if answers {
                            waiters.answer(&answer(position, variant, ReplyKind::Committed), DURABLE)
                        } else {
                            Verdict::Nobody
                        };
                        let wait = model.waits.remove(&position).filter(|wait| !wait.answered);
                        let waiting = wait.and_then(|wait| wait.sequence);
                        if answers {
                            prop_assert_eq!(verdict, waiting.map_or(Verdict::Nobody, |s| Verdict::Reply(origin(s))));
                        } else {
                            expected.extend(waiting);
                        }
                    }
                    model.executed = model.ordered;
                    waiters.executed(Position(model.executed));
                }
                Act::Speculate { ahead, variant } => {
                    let position = model.executed + ahead;
                    if let Some(wait) = model.waits.get_mut(&position) {
                        wait.speculating |= wait.variant == variant && !wait.answered;
                    }
                    waiters.speculate(&range(position, &[variant]), DURABLE);
                }
                Act::SpeculativeAnswer { ahead, variant } => {
                    let position = model.executed + ahead;
                    let verdict = waiters.answer(&answer(position, variant, ReplyKind::Speculative), DURABLE);
                    let wait = model.waits.get_mut(&position).filter(|wait| wait.speculating && wait.variant == variant);
                    let reply = wait.filter(|wait| wait.sequence.is_some()).and_then(|wait| {
                        (wait.speculating, wait.answered) = (false, true);
                        wait.sequence
                    });
                    prop_assert_eq!(verdict, reply.map_or(Verdict::Nobody, |s| Verdict::Reply(origin(s))));
                }
                Act::Rollback(ahead) => {
                    let to = model.executed + ahead;
                    model.waits.range_mut(to + 1..).for_each(|(_, wait)| wait.speculating = false);
                    waiters.rollback(Position(to));
                }
                Act::Forsake(ahead) => {
                    let from = model.executed + ahead;
                    let gone = model.waits.split_off(&from);
                    expected = gone.into_values().filter_map(|wait| wait.sequence).collect();
                    waiters.forsake(Position(from));
                }
                Act::Depart(connection) => {
                    for wait in model.waits.values_mut() {
                        wait.sequence = wait.sequence.filter(|sequence| sequence % 3 != connection);
                    }
                    waiters.depart(&[ConnectionId(connection)]);
                }
            }
            let expected: Vec<Origin> = expected.into_iter().map(origin).collect();
            prop_assert_eq!(unknown(&mut waiters), expected);
            prop_assert_eq!(waiters.load().frames, model.waits.len());
            prop_assert_eq!(waiters.waiting(), model.waits.values().filter(|wait| wait.sequence.is_some()).count());
            prop_assert!(waiters.slots.len() <= 24, "the table never outgrows the positions that wait");
        }
    }
}
