//! What the protocol wants: frames, promises, records, commands, halting.

use super::super::scripted::{After, ScriptedRecord};
use super::*;
use quorate_framework::{ExecutorCommand, Observation};
use std::time::Duration;

fn say(to: Destination, number: u64) -> Step {
    Step::Send(to, ScriptedMessage::new(Lane::Control, number))
}

fn promise(to: Destination, after: After, number: u64) -> Step {
    Step::Promise(to, after, ScriptedPromise(number))
}

fn two() -> Destination {
    Destination::One(id(2))
}

/// Replica 1, formed, which answers its first message with these steps; the message has come.
fn stepped(durability: Durability, steps: impl Into<Vec<Step>>) -> Replica {
    let core = Scripted::new().once(EventKind::Message, steps);
    let mut replica = Replica::formed_with(core, |settings| settings.durability = durability);
    replica.message(3, 3, Lane::Control, 1);
    replica.turn();
    replica
}

#[test]
fn a_message_is_encoded_once_for_all_that_count_and_its_payload_is_not_copied() {
    let payload = Bytes::from(vec![7; 5_000]);
    let message = ScriptedMessage { payload: payload.clone(), ..ScriptedMessage::new(Lane::Replication, 4) };
    let replica = stepped(Durability::InMemory, [Step::Send(Destination::All, message)]);
    let [frame] = &replica.output.frames[..] else { panic!("{:?}", replica.output.frames) };
    assert_eq!(
        (frame.to.as_slice(), frame.lane, frame.class),
        (&[id(2), id(3)][..], Lane::Replication, FrameClass::Message)
    );
    assert_eq!(frame.encoded.body[0].as_ptr(), payload.as_ptr());
    assert_eq!(replica.driver.status().counters.frames_sent, 2, "this one and the claim at forming");
}

#[test]
fn nothing_is_sent_to_peers_that_do_not_count() {
    let to_set = Destination::Set(vec![id(3), id(9), id(1)]);
    let core = Scripted::new().always(
        EventKind::Message,
        [say(Destination::All, 1), say(two(), 2), say(to_set, 3), say(Destination::One(id(1)), 4)],
    );
    let mut replica = Replica::formed(core);
    replica.disconnect(2, 2);
    replica.turn();
    replica.message(3, 3, Lane::Control, 1);
    replica.fresh_turn();
    assert_eq!(replica.frames(), [(vec![3], 1), (vec![3], 3)]);
}

#[test]
fn a_promise_waits_for_its_record_and_never_blocks_later_messages_or_promises() {
    let mut replica = stepped(
        Durability::External,
        [
            Step::Persist(70),
            Step::Persist(71),
            promise(two(), After::Record(1), 1),
            promise(two(), After::Record(0), 2),
            promise(two(), After::Recovered, 3),
            say(two(), 4),
        ],
    );
    // Ticket 1 was the member vector's.
    assert_eq!(replica.output.records, [(ticket(2), ScriptedRecord(70)), (ticket(3), ScriptedRecord(71))]);
    assert_eq!(replica.frames(), [(vec![2], 3), (vec![2], 4)]);
    replica.persisted(2);
    assert_eq!(replica.frames(), [(vec![2], 2)]);
    replica.persisted(3);
    assert_eq!(replica.frames(), [(vec![2], 1)]);
    assert_eq!(replica.seen_after(FORMED + 1), [Seen::Persisted(ticket(2)), Seen::Persisted(ticket(3))]);
}

#[test]
fn a_promise_that_waits_is_not_carried_over_to_a_new_link() {
    let mut replica = stepped(Durability::External, [Step::Persist(70), promise(two(), After::Last, 1)]);
    replica.connect(2, 4, 0);
    replica.persisted(2);
    assert_eq!(replica.frames(), []);
}

#[test]
fn with_recovery_off_records_are_durable_within_the_turn_and_promises_leave_in_it() {
    let core = Scripted::new()
        .once(EventKind::Message, [Step::Persist(70), promise(two(), After::Last, 1), say(two(), 2)])
        .once(EventKind::Persisted, [Step::Persist(71), promise(two(), After::Last, 3)]);
    let mut replica = Replica::formed(core);
    replica.message(3, 3, Lane::Control, 1);
    replica.ask(1, 1);
    replica.turn();
    assert_eq!(replica.frames(), [(vec![2], 2), (vec![2], 1), (vec![2], 3)]);
    assert_eq!(
        replica.seen_after(FORMED + 1),
        [Seen::Propose(vec![Sequence(1)]), Seen::Persisted(ticket(1)), Seen::Persisted(ticket(2))],
        "after all events of the turn, until nothing more is persisted"
    );
    assert_eq!(replica.output.records, []);
}

#[test]
fn a_protocol_that_persists_for_ever_halts_instead_of_hanging() {
    let core =
        Scripted::new().once(EventKind::Message, [Step::Persist(1)]).always(EventKind::Persisted, [Step::Persist(2)]);
    let mut replica = Replica::formed(core);
    replica.message(2, 2, Lane::Control, 1);
    replica.turn();
    let text = "the protocol still persisted after 1000 rounds of one turn".to_owned();
    assert_eq!(replica.output.halt, Some(HaltReason::Safety(text)));
}

#[test]
fn a_ticket_that_was_never_given_out_cannot_be_durable() {
    let mut replica = stepped(Durability::External, [Step::Persist(70), promise(two(), After::Last, 1)]);
    replica.persisted(3);
    let text = "ticket #3 was reported durable, but #2 is the last one given out".to_owned();
    assert_eq!((replica.output.halt.clone(), replica.frames()), (Some(HaltReason::Safety(text)), vec![]));
}

#[test]
fn consecutive_ranges_become_one_command_and_others_do_not() {
    let execute = |first, count| Step::Execute {
        first: Position(first),
        blocks: (first..first + count).map(|position| block(position, 0)).collect(),
    };
    let replica = stepped(
        Durability::InMemory,
        [execute(1, 2), execute(3, 1), Step::Rollback(Position(3)), execute(4, 1), execute(6, 1), execute(7, 0)],
    );
    let told: Vec<(u64, u64, bool)> = replica
        .output
        .commands
        .iter()
        .map(|command| match command {
            ExecutorCommand::Execute { range, answers } => (range.first.0, range.last().0, *answers),
            ExecutorCommand::Rollback { to } => (to.0, 0, false),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [(1, 3, false), (3, 0, false), (4, 4, false), (6, 6, false)]);
}

#[test]
fn operators_proofs_and_measurements_are_handed_out() {
    let number = quorate_framework::OperationId(8);
    let observation = Observation::RoundTrip { peer: id(2), duration: Duration::from_micros(90) };
    let core = Scripted::new().once(
        EventKind::Operate,
        [Step::Operated(number, Ok(())), Step::Evidence(id(3), "two votes".to_owned()), Step::Observe(observation)],
    );
    let mut replica = Replica::formed(core);
    replica.input.push(Inbound::Operation { id: number, operation: quorate_framework::Operation::TakeSnapshot });
    replica.turn();
    assert_eq!(replica.output.operated, [(number, Ok(()))]);
    assert_eq!(replica.output.evidence, [(id(3), "two votes".to_owned())]);
    assert_eq!(replica.output.observations, [observation]);
}

#[test]
fn an_effect_without_a_room_halts_the_replica_and_nothing_after_it_happens() {
    let mut replica = stepped(
        Durability::InMemory,
        [say(two(), 1), Step::TakeSnapshot(Position(1)), say(two(), 2), Step::Persist(1)],
    );
    assert_eq!(replica.output.halt, Some(HaltReason::EffectUnsupported("TakeSnapshot")));
    assert_eq!(replica.frames(), [(vec![2], 1)]);
    let seen = replica.seen().len();
    replica.message(2, 2, Lane::Control, 1);
    replica.connect(2, 9, 0);
    replica.disconnect(3, 3);
    replica.ask(5, 6);
    replica.fresh_turn();
    assert_eq!(replica.output.halt, Some(HaltReason::EffectUnsupported("TakeSnapshot")), "it stays halted");
    assert_eq!((replica.seen().len(), replica.frames()), (seen, vec![]));
    assert_eq!(replica.replies(), [(5, 6, Status::Stopped)]);
    assert_eq!(replica.driver.next_deadline(), None);
}

#[test]
fn a_halt_ends_the_turn_in_which_it_comes() {
    let core = Scripted::new()
        .once(EventKind::PeerUp, [Step::Deadline(Some(Time(50)))])
        .once(EventKind::Tick, [Step::Persist(1), Step::Halt("scripted".to_owned())]);
    let mut replica = Replica::formed(core);
    replica.driver.executed(outcome(3, vec![]), &mut replica.output);
    replica.driver.turn(Time(49), &mut replica.input, &mut replica.output);
    replica.driver.executed(outcome(4, vec![]), &mut replica.output);
    replica.now = Time(50);
    replica.message(2, 2, Lane::Control, 1);
    replica.ask(4, 70);
    replica.disconnect(3, 3);
    replica.turn();
    assert_eq!(replica.seen_after(FORMED), [Seen::Executed(Position(3)), Seen::Tick(Time(50))]);
    assert_eq!(replica.replies(), [(4, 70, Status::Stopped)]);
}

#[test]
fn a_broken_invariant_halts_before_any_effect_of_its_event() {
    let steps = [Step::Persist(1), say(two(), 1), Step::Break("LogOrder: 3 > 2".to_owned())];
    let replica = stepped(Durability::InMemory, steps);
    assert_eq!(replica.output.halt, Some(HaltReason::Safety("LogOrder: 3 > 2".to_owned())));
    assert_eq!(replica.frames(), []);
}

#[test]
fn a_failure_of_the_storage_is_final_and_promises_nothing_more() {
    let mut replica = stepped(Durability::External, [Step::Persist(70), promise(two(), After::Last, 1)]);
    replica.output.clear();
    replica.driver.halt(HaltReason::Storage("no space".to_owned()), &mut replica.output);
    replica.driver.halt(HaltReason::Executor("later".to_owned()), &mut replica.output);
    assert_eq!(replica.output.halt, Some(HaltReason::Storage("no space".to_owned())), "the first reason stays");
    replica.persisted(2);
    assert_eq!(replica.frames(), []);
    assert_eq!(replica.driver.status().stopped.as_deref(), Some("storage failed: no space"));
}

#[test]
fn a_turn_uses_the_memory_of_the_turn_before() {
    let core = Scripted::new().always(EventKind::Message, [say(Destination::All, 1)]);
    let mut replica = Replica::formed(core);
    let mut rooms = Vec::new();
    for _ in 0..3 {
        for number in 0..100 {
            replica.message(2, 2, Lane::Control, number);
        }
        replica.fresh_turn();
        assert_eq!(replica.output.frames.len(), 100);
        rooms.push((
            replica.output.frames.as_ptr(),
            replica.input.lanes[0].as_ptr(),
            replica.input.lanes[0].capacity(),
        ));
    }
    assert!(rooms.iter().all(|room| *room == rooms[0]), "{rooms:?}");
}
