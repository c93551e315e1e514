//! Speculative answers: held, released, upgraded, rolled back.

use super::super::scripted::{After, origin_of};
use super::*;
use quorate_framework::{Accepted, ExecutorCommand};

fn speculate(position: u64, variant: u64, after: After) -> Step {
    Step::Speculate {
        base: block(position - 1, 0),
        first: Position(position),
        blocks: vec![block(position, variant)],
        after,
    }
}

fn execute(position: u64, variant: u64) -> Step {
    Step::Execute { first: Position(position), blocks: vec![block(position, variant)] }
}

/// Replica 1 with recovery on, whose request 70 of connection 4 was accepted at position 1, persisted as ticket 2 and speculated;
/// its next message has the steps `then`.
fn speculating(then: impl Into<Vec<Step>>) -> Replica {
    let core = Scripted::new()
        .once(
            EventKind::Propose,
            [Step::Accept(Position(1), block(1, 0)), Step::Persist(1), speculate(1, 0, After::Last)],
        )
        .once(EventKind::Message, then);
    let mut replica = Replica::formed_with(core, |settings| settings.durability = Durability::External);
    replica.ask(4, 70);
    replica.turn();
    replica
}

fn signal(replica: &mut Replica) {
    replica.message(2, 2, Lane::Control, 1);
    replica.fresh_turn();
}

fn speculative() -> Outcome {
    outcome(0, vec![answer(1, 0, 70, ReplyKind::Speculative)])
}

fn kinds(replica: &Replica) -> Vec<(Status, ReplyKind)> {
    replica.output.replies.iter().map(|reply| (reply.header.status, reply.header.kind)).collect()
}

#[test]
fn a_speculation_goes_to_the_executor_and_its_answer_waits_for_its_ticket() {
    let mut replica = speculating([execute(1, 0)]);
    let [ExecutorCommand::Speculate { base, range }] = &replica.output.commands[..] else {
        panic!("{:?}", replica.output.commands)
    };
    assert_eq!((*base, range.first, range.batches[0].block), (block(0, 0), Position(1), block(1, 0)));
    replica.executed(speculative());
    assert_eq!(replica.replies(), [], "the record is not durable");
    replica.persisted(2);
    assert_eq!(kinds(&replica), [(Status::Ok, ReplyKind::Speculative)]);
    signal(&mut replica);
    assert!(matches!(replica.output.commands[..], [ExecutorCommand::Execute { answers: false, .. }]));
    replica.executed(outcome(1, vec![]));
    assert_eq!(replica.replies(), [], "the commit of the same block says nothing new");
    assert_eq!(replica.driver.status().admitted_frames, 0);
}

#[test]
fn an_answer_that_comes_after_its_ticket_leaves_at_once() {
    let mut replica = speculating([]);
    replica.persisted(2);
    replica.executed(speculative());
    assert_eq!(kinds(&replica), [(Status::Ok, ReplyKind::Speculative)]);
}

#[test]
fn the_commit_of_a_block_whose_speculative_answer_still_waits_is_the_only_answer() {
    let mut replica = speculating([execute(1, 0)]);
    replica.executed(speculative());
    signal(&mut replica);
    replica.executed(outcome(1, vec![answer(1, 0, 70, ReplyKind::Committed)]));
    assert_eq!(kinds(&replica), [(Status::Ok, ReplyKind::Committed)]);
    replica.persisted(2);
    assert_eq!(replica.replies(), []);
}

#[test]
fn a_rollback_keeps_back_the_answers_that_have_not_left_and_goes_to_the_executor() {
    for answered_before in [true, false] {
        let mut replica = speculating([Step::Rollback(Position(0))]);
        if answered_before {
            replica.executed(speculative());
        }
        signal(&mut replica);
        assert!(matches!(replica.output.commands[..], [ExecutorCommand::Rollback { to: Position(0) }]));
        if !answered_before {
            replica.executed(speculative());
        }
        replica.persisted(2);
        assert_eq!(replica.replies(), [], "answered before the rollback: {answered_before}");
        assert_eq!(replica.driver.status().waiting, 1);
    }
}

#[test]
fn a_request_rolled_back_and_accepted_again_elsewhere_is_answered_there_and_only_there() {
    let again =
        Accepted { origin: origin_of(ConnectionId(4), &request(70)), position: Position(2), block: block(2, 1) };
    let mut replica = speculating([
        Step::Rollback(Position(0)),
        Step::Reaccept(again),
        execute(1, 1),
        Step::Execute { first: Position(2), blocks: vec![block(2, 1)] },
    ]);
    signal(&mut replica);
    assert_eq!(replica.replies(), [], "the block that took its place is none of its business");
    replica.executed(outcome(2, vec![answer(1, 1, 99, ReplyKind::Committed), answer(2, 1, 70, ReplyKind::Committed)]));
    assert_eq!(replica.replies(), [(4, 70, Status::Ok)]);
    assert_eq!(replica.driver.status().admitted_frames, 0);
}

#[test]
fn another_block_committed_where_a_speculative_answer_was_given_ends_the_wait_as_unknown() {
    let mut replica = speculating([Step::Rollback(Position(0)), execute(1, 1)]);
    replica.persisted(2);
    replica.executed(speculative());
    signal(&mut replica);
    assert_eq!(replica.replies(), [(4, 70, Status::Unknown)]);
}

#[test]
fn an_answer_from_before_a_rollback_does_not_leave_for_a_later_speculation_of_the_same_block() {
    let mut replica = speculating([Step::Rollback(Position(0)), speculate(1, 0, After::Recovered)]);
    replica.executed(speculative());
    signal(&mut replica);
    replica.persisted(2);
    assert_eq!(replica.replies(), [], "that answer was of the state that was rolled back");
    replica.executed(speculative());
    assert_eq!(kinds(&replica), [(Status::Ok, ReplyKind::Speculative)]);
}
