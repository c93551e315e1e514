//! How requests of clients end.

use super::*;
use quorate_framework::{ExecutorCommand, Refusal};

/// Accepts everything from position 1 on.
fn accepting() -> Scripted {
    Scripted::new().once(EventKind::Propose, [Step::AcceptAll { first: Position(1), variant: 0 }])
}

fn execute(first: u64, blocks: &[BlockId]) -> Step {
    Step::Execute { first: Position(first), blocks: blocks.to_vec() }
}

/// Lets the scripted protocol act once more.
fn signal(replica: &mut Replica) {
    replica.message(2, 2, Lane::Control, 1);
    replica.fresh_turn();
}

#[test]
fn an_executed_request_is_answered_with_its_result_to_the_connection_it_came_from() {
    let core = accepting().once(EventKind::Message, [execute(1, &[block(1, 0), block(2, 0)])]);
    let mut replica = Replica::formed(core);
    replica.ask(4, 70);
    replica.ask(5, 71);
    replica.turn();
    assert_eq!(replica.output.replies, [], "accepted is not answered");
    signal(&mut replica);
    let [ExecutorCommand::Execute { range, answers: true }] = &replica.output.commands[..] else {
        panic!("{:?}", replica.output.commands)
    };
    assert_eq!(range.batches[1].payload, request(71).bytes);
    replica.executed(outcome(2, vec![answer(1, 0, 70, ReplyKind::Committed), answer(2, 0, 71, ReplyKind::Committed)]));
    let reply = &replica.output.replies[1];
    assert_eq!((reply.connection, &reply.body[..]), (ConnectionId(5), &b"result"[..]));
    assert_eq!((reply.header.status, reply.header.position), (Status::Ok, Position(2)));
    assert_eq!(replica.replies(), [(4, 70, Status::Ok), (5, 71, Status::Ok)]);
    assert_eq!(replica.driver.next_deadline(), Some(Time::ZERO), "the protocol has yet to hear of it");
    replica.turn();
    assert_eq!(replica.seen().last(), Some(&Seen::Executed(Position(2))));
    let status = replica.driver.status();
    assert_eq!((status.counters.answered, status.counters.transactions, status.admitted_frames), (2, 2, 0));
}

#[test]
fn a_repetition_of_a_request_that_waits_is_not_ordered_again_and_one_that_was_told_unknown_is() {
    let core = accepting()
        .once(EventKind::Propose, [Step::AcceptAll { first: Position(2), variant: 0 }])
        .once(EventKind::Propose, [Step::AcceptAll { first: Position(3), variant: 0 }])
        .once(EventKind::Message, [Step::Forsaken(Position(1))]);
    let mut replica = Replica::formed(core);
    replica.ask(4, 70);
    replica.turn();
    replica.ask(4, 70);
    replica.ask(5, 70);
    replica.turn();
    let counters = replica.driver.status().counters;
    assert_eq!((counters.accepted, counters.repeated), (2, 1), "another connection waits for itself");
    signal(&mut replica);
    replica.replies();
    replica.ask(4, 70);
    replica.turn();
    assert_eq!(replica.driver.status().counters.accepted, 3);
}

#[test]
fn positions_for_which_nobody_waits_are_executed_without_answers() {
    let core = Scripted::new().once(EventKind::Message, [execute(1, &[block(1, 0)])]);
    let mut replica = Replica::formed(core);
    signal(&mut replica);
    assert!(matches!(replica.output.commands[..], [ExecutorCommand::Execute { answers: false, .. }]));
    replica.executed(outcome(1, vec![answer(1, 0, 1, ReplyKind::Committed)]));
    assert_eq!(replica.replies(), []);
}

#[test]
fn another_block_executed_at_the_position_means_unknown_never_success() {
    let core = accepting().once(EventKind::Message, [execute(1, &[block(1, 9)])]);
    let mut replica = Replica::formed(core);
    replica.ask(4, 70);
    replica.turn();
    signal(&mut replica);
    assert_eq!(replica.replies(), [(4, 70, Status::Unknown)]);
    replica.executed(outcome(1, vec![answer(1, 9, 70, ReplyKind::Committed)]));
    assert_eq!(replica.replies(), [], "told once");
}

#[test]
fn an_answer_of_another_block_than_was_ordered_means_unknown_never_success() {
    let core = accepting().once(EventKind::Message, [execute(1, &[block(1, 0)])]);
    let mut replica = Replica::formed(core);
    replica.ask(4, 70);
    replica.turn();
    signal(&mut replica);
    replica.executed(outcome(1, vec![answer(1, 9, 70, ReplyKind::Committed)]));
    assert_eq!(replica.replies(), [(4, 70, Status::Unknown)]);
}

#[test]
fn stepping_down_tells_all_that_wait_at_once_that_their_outcome_is_unknown() {
    let core = accepting().once(EventKind::Message, [Step::LeaderIs(None), Step::Forsaken(Position(2))]);
    let mut replica = Replica::formed(core);
    (70..73).for_each(|sequence| replica.ask(4, sequence));
    replica.turn();
    signal(&mut replica);
    assert_eq!(replica.replies(), [(4, 71, Status::Unknown), (4, 72, Status::Unknown)]);
    let status = replica.driver.status();
    assert_eq!((status.waiting, status.counters.unknown), (1, 2));
}

#[test]
fn a_refusal_carries_the_leader_as_far_as_it_is_known() {
    let hints = |leader: Option<u32>, own: Option<u32>| {
        let core = Scripted::new()
            .once(EventKind::Message, [Step::LeaderIs(leader.map(id))])
            .once(EventKind::Propose, [Step::RefuseAll(Refusal::NotLeader { hint: own.map(id) })]);
        let mut replica = Replica::formed(core);
        signal(&mut replica);
        replica.ask(4, 70);
        replica.fresh_turn();
        assert_eq!(replica.replies(), [(4, 70, Status::NotLeader)]);
        replica.output.replies[0].header.hint.map(|hint| hint.0)
    };
    assert_eq!(hints(Some(3), None), Some(3));
    assert_eq!(hints(Some(3), Some(2)), Some(2), "the protocol knows better");
    assert_eq!(hints(None, None), None);
    assert_eq!(hints(Some(1), None), None, "never to itself");
}

#[test]
fn every_refusal_of_the_protocol_has_its_status_and_frees_its_place() {
    for (refusal, status) in [
        (Refusal::Busy, Status::Busy),
        (Refusal::Unsupported, Status::Unsupported),
        (Refusal::Stopped, Status::Stopped),
        (Refusal::NotLeader { hint: None }, Status::NotLeader),
    ] {
        let core = Scripted::new().once(EventKind::Propose, [Step::RefuseAll(refusal)]);
        let mut replica = Replica::formed(core);
        replica.ask(4, 70);
        replica.turn();
        assert_eq!(replica.replies(), [(4, 70, status)]);
        assert_eq!(replica.driver.status().admitted_frames, 0);
    }
}

#[test]
fn above_the_admission_limit_a_request_is_refused_as_busy_and_never_reaches_the_protocol() {
    let core = Scripted::new()
        .once(EventKind::Propose, [Step::AcceptAll { first: Position(1), variant: 0 }])
        .once(EventKind::Propose, [Step::AcceptAll { first: Position(4), variant: 0 }])
        .once(EventKind::Message, [execute(1, &[block(1, 0)])]);
    let mut replica = Replica::formed_with(core, |settings| settings.admission_frames = 3);
    replica.ask(4, 70);
    replica.ask(4, 71);
    replica.turn();
    replica.ask(4, 72);
    replica.ask(5, 73);
    replica.turn();
    assert_eq!(replica.replies(), [(5, 73, Status::Busy)], "this turn's own requests count");
    assert_eq!(replica.seen().last(), Some(&Seen::Propose(vec![Sequence(72)])));
    assert_eq!((replica.driver.status().admitted_frames, replica.driver.status().admitted_bytes), (3, 120));
    signal(&mut replica);
    replica.executed(outcome(1, vec![answer(1, 0, 70, ReplyKind::Committed)]));
    replica.ask(5, 73);
    replica.fresh_turn();
    assert_eq!(replica.replies(), [], "a place is free again");
    let counters = replica.driver.status().counters;
    assert_eq!((counters.refused_busy, counters.accepted), (1, 3));
}

#[test]
fn admission_is_bounded_in_bytes_too() {
    let mut replica = Replica::formed_with(accepting(), |settings| settings.admission_bytes = 100);
    (70..73).for_each(|sequence| replica.ask(4, sequence));
    replica.turn();
    assert_eq!(replica.replies(), [(4, 72, Status::Busy)], "three times 40 bytes");
}

#[test]
fn before_the_replica_is_formed_a_request_is_refused_without_a_hint() {
    let mut replica = Replica::new(accepting(), 3, |_| {});
    replica.ask(4, 70);
    replica.turn();
    assert_eq!(replica.replies(), [(4, 70, Status::NotLeader)]);
    assert_eq!((replica.output.replies[0].header.hint, replica.seen()), (None, &[][..]));
}

#[test]
fn stopping_tells_those_that_wait_unknown_and_refuses_what_was_not_proposed_as_stopped() {
    let mut replica = Replica::formed(accepting());
    replica.ask(4, 70);
    replica.turn();
    replica.output.clear();
    replica.ask(4, 71);
    replica.driver.stop(&mut replica.output);
    replica.turn();
    assert_eq!(replica.replies(), [(4, 70, Status::Unknown), (4, 71, Status::Stopped)]);
    assert_eq!(replica.output.halt, None, "stopping is no failure");
    replica.executed(outcome(1, vec![answer(1, 0, 70, ReplyKind::Committed)]));
    assert_eq!(replica.replies(), [], "told once");
}

#[test]
fn a_halt_in_the_middle_of_proposing_leaves_nobody_without_an_answer() {
    let core = Scripted::new().once(
        EventKind::Propose,
        [
            Step::Accept(Position(1), block(1, 0)),
            Step::Halt("scripted".to_owned()),
            Step::AcceptAll { first: Position(2), variant: 0 },
        ],
    );
    let mut replica = Replica::formed(core);
    (70..73).for_each(|sequence| replica.ask(4, sequence));
    replica.turn();
    assert_eq!(replica.replies(), [(4, 70, Status::Unknown), (4, 71, Status::Unknown), (4, 72, Status::Unknown)]);
    assert_eq!(replica.output.halt, Some(HaltReason::Safety("scripted".to_owned())));
    assert_eq!(replica.driver.status().admitted_frames, 0);
}

#[test]
fn a_client_that_is_gone_gets_no_answer_and_nothing_is_kept_of_it() {
    let core = accepting().once(EventKind::Message, [execute(1, &[block(1, 0), block(2, 0)])]);
    let mut replica = Replica::formed(core);
    replica.ask(4, 70);
    replica.ask(5, 71);
    replica.input.push(Inbound::ClientDisconnected { connection: ConnectionId(4) });
    replica.turn();
    assert_eq!(replica.driver.status().waiting, 1);
    signal(&mut replica);
    replica.executed(outcome(2, vec![answer(1, 0, 70, ReplyKind::Committed), answer(2, 0, 71, ReplyKind::Committed)]));
    assert_eq!(replica.replies(), [(5, 71, Status::Ok)]);
    let status = replica.driver.status();
    assert_eq!((status.waiting, status.admitted_frames, status.admitted_bytes), (0, 0, 0));
}

#[test]
fn a_position_out_of_all_bounds_halts_the_replica_instead_of_filling_its_memory() {
    let core = Scripted::new().once(
        EventKind::Propose,
        [Step::Accept(Position(1), block(1, 0)), Step::Accept(Position(1 << 40), block(1 << 40, 0))],
    );
    let mut replica = Replica::formed(core);
    replica.ask(4, 70);
    replica.ask(4, 71);
    replica.turn();
    assert!(matches!(&replica.output.halt, Some(HaltReason::Safety(text)) if text.contains("1099511627776")));
    assert_eq!(replica.replies(), [(4, 71, Status::Unknown), (4, 70, Status::Unknown)]);
}

#[test]
fn a_request_in_the_protocols_pool_counts_until_it_is_accepted_and_executed_and_is_never_refused() {
    let origin = super::super::scripted::origin_of(ConnectionId(4), &request(70));
    let accepted = quorate_framework::Accepted { origin, position: Position(1), block: block(1, 0) };
    let pooling = || Scripted::new().once(EventKind::Message, [Step::Reaccept(accepted), execute(1, &[block(1, 0)])]);
    let mut replica = Replica::formed(pooling());
    replica.ask(4, 70);
    replica.turn();
    let status = replica.driver.status();
    assert_eq!((status.admitted_frames, status.admitted_bytes, status.waiting), (1, 40, 0));
    signal(&mut replica);
    let status = replica.driver.status();
    assert_eq!((status.admitted_frames, status.admitted_bytes, status.waiting), (1, 40, 1));
    replica.executed(outcome(1, vec![answer(1, 0, 70, ReplyKind::Committed)]));
    assert_eq!((replica.replies(), replica.driver.status().admitted_frames), (vec![(4, 70, Status::Ok)], 0));

    let mut replica = Replica::formed(pooling());
    replica.ask(4, 70);
    replica.turn();
    replica.driver.stop(&mut replica.output);
    assert_eq!(replica.replies(), [(4, 70, Status::Unknown)], "the protocol had it");
}

#[test]
fn a_request_dropped_from_the_pool_ends_as_unknown_once_and_frees_its_place() {
    let origin = |sequence| super::super::scripted::origin_of(ConnectionId(4), &request(sequence));
    let accepted = quorate_framework::Accepted { origin: origin(71), position: Position(1), block: block(1, 0) };
    let core = Scripted::new()
        .once(EventKind::Propose, [Step::PoolAll])
        .once(EventKind::Message, [Step::Reaccept(accepted), Step::Dropped(origin(70)), Step::Dropped(origin(71))])
        .once(EventKind::Message, [Step::Dropped(origin(70)), execute(1, &[block(1, 0)])]);
    let mut replica = Replica::formed_with(core, |settings| settings.admission_frames = 2);
    replica.ask(4, 70);
    replica.ask(4, 71);
    replica.turn();
    assert_eq!((replica.replies(), replica.driver.status().admitted_frames), (vec![], 2));
    signal(&mut replica);
    assert_eq!(replica.replies(), [(4, 70, Status::Unknown)], "the other one is in the order already");
    let status = replica.driver.status();
    assert_eq!((status.admitted_frames, status.admitted_bytes, status.waiting, status.counters.unknown), (1, 40, 1, 1));
    signal(&mut replica);
    assert_eq!(replica.replies(), [], "told once");
    replica.executed(outcome(1, vec![answer(1, 0, 71, ReplyKind::Committed)]));
    assert_eq!((replica.replies(), replica.driver.status().admitted_frames), (vec![(4, 71, Status::Ok)], 0));
}
