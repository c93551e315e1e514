//! What comes in: forming, links, frames.

use super::super::scripted::ScriptedVerifier;
use super::*;
use quorate_framework::forming::vector_digest;
use quorate_framework::{FormingStatus, MemberVector};

fn vector(members: &[(u32, u64)]) -> MemberVector {
    members.iter().map(|(replica, incarnation)| (id(*replica), Incarnation(*incarnation))).collect()
}

fn all() -> MemberVector {
    vector(&[(1, 10), (2, 20), (3, 30)])
}

fn forming_frame(to: &[u32], message: &FormingMessage) -> PeerFrame {
    PeerFrame {
        to: to.iter().copied().map(id).collect(),
        lane: Lane::Control,
        class: FrameClass::Forming,
        encoded: quorate_framework::Encoded { head: Bytes::from(message.encode()), body: Vec::new() },
    }
}

#[test]
fn the_protocol_is_started_once_the_replica_is_formed_and_then_hears_of_its_peers() {
    let mut replica = Replica::new(Scripted::new(), 3, |_| {});
    assert_eq!(replica.driver.next_deadline(), Some(Time::ZERO), "the first turn is due at once");
    replica.connect(2, 2, 0);
    replica.turn();
    assert_eq!((replica.seen(), replica.output.claim), (&[][..], None));
    replica.connect(3, 3, 0);
    replica.turn();
    assert_eq!(
        replica.seen(),
        [
            Seen::Start { members: all(), state: vec![] },
            Seen::PeerUp(id(2), Incarnation(20)),
            Seen::PeerUp(id(3), Incarnation(30)),
        ]
    );
    let announced = MemberClaim { formed_on: Some(vector_digest(&all())), ..claim(1, 0) };
    assert_eq!(replica.output.claim, Some(announced));
    assert_eq!(replica.output.frames, [forming_frame(&[2, 3], &FormingMessage::Claim(announced))]);
    assert_eq!(replica.output.identity, [], "recovery is off");
}

#[test]
fn with_recovery_the_member_vector_is_durable_before_the_protocol_starts_with_what_was_recovered() {
    let mut replica = Replica::new(Scripted::new(), 3, |settings| settings.durability = Durability::External);
    replica.driver = replica.driver.with_recovered(vec![4, 5]);
    replica.connect(2, 2, 0);
    replica.connect(3, 3, 0);
    replica.turn();
    assert_eq!(replica.output.identity, [(ticket(1), all())]);
    assert_eq!((replica.seen(), replica.output.claim), (&[][..], None));
    replica.persisted(1);
    assert_eq!(replica.seen()[0], Seen::Start { members: all(), state: vec![4, 5] });
    assert_eq!(replica.output.claim.map(|claim| claim.formed_on), Some(Some(vector_digest(&all()))));
}

#[test]
fn a_cluster_of_one_forms_in_its_first_turn() {
    let mut replica = Replica::new(Scripted::new(), 1, |_| {});
    replica.turn();
    assert_eq!(replica.seen(), [Seen::Start { members: vector(&[(1, 10)]), state: vec![] }]);
    assert_eq!(replica.driver.next_deadline(), None);
}

#[test]
fn a_turn_handles_links_then_the_timer_then_the_lanes_in_their_order_then_lost_links() {
    let core = Scripted::new().once(EventKind::PeerUp, [Step::Deadline(Some(Time(50)))]);
    let mut replica = Replica::formed(core);
    replica.driver.executed(outcome(3, vec![]), &mut replica.output);
    replica.now = Time(50);
    for lane in [Lane::Snapshot, Lane::Client, Lane::Replication, Lane::Acknowledgement, Lane::Control] {
        replica.message(2, 2, lane, lane as u64);
    }
    replica.ask(1, 7);
    replica.ask(2, 8);
    replica.input.push(Inbound::Operation {
        id: quorate_framework::OperationId(1),
        operation: quorate_framework::Operation::TakeSnapshot,
    });
    replica.disconnect(2, 2);
    replica.connect(3, 4, 0);
    replica.turn();
    let message = |number| Seen::Message { from: id(2), number };
    assert_eq!(
        replica.seen_after(FORMED),
        [
            Seen::PeerDown(id(3)),
            Seen::PeerUp(id(3), Incarnation(30)),
            Seen::Tick(Time(50)),
            Seen::Executed(Position(3)),
            message(0),
            message(1),
            message(2),
            message(3),
            Seen::Propose(vec![Sequence(7), Sequence(8)]),
            message(4),
            Seen::Operate(quorate_framework::OperationId(1)),
            Seen::PeerDown(id(2)),
        ]
    );
}

#[test]
fn the_timer_does_not_fire_before_its_deadline() {
    let core = Scripted::new().once(EventKind::Start, [Step::Deadline(Some(Time(50)))]);
    let mut replica = Replica::formed(core);
    assert_eq!(replica.driver.next_deadline(), Some(Time(50)));
    replica.now = Time(49);
    replica.turn();
    assert_eq!(replica.seen_after(FORMED), []);
}

#[test]
fn acknowledgements_of_unbound_incarnations_never_reach_the_protocol() {
    let mut replica = Replica::formed(Scripted::new());
    replica.disconnect(3, 3);
    replica.connect(3, 4, 1);
    replica.turn();
    let before = replica.seen().len();
    replica.acknowledgement(3, 4, 1);
    replica.message(3, 4, Lane::Control, 2);
    replica.acknowledgement(2, 2, 3);
    replica.turn();
    assert_eq!(replica.seen_after(before), [Seen::Promise { from: id(2), number: 3 }]);
    let status = replica.driver.status();
    assert_eq!((status.unbound_peers, status.counters.frames_uncounted), (vec![id(3)], 2));
    assert_eq!(replica.output.disconnect, [], "an unbound peer is not at fault");
}

#[test]
fn frames_before_the_replica_is_formed_never_reach_the_protocol() {
    let mut replica = Replica::new(Scripted::new(), 3, |_| {});
    replica.connect(2, 2, 0);
    replica.acknowledgement(2, 2, 1);
    replica.turn();
    replica.connect(3, 3, 0);
    replica.turn();
    assert_eq!(replica.seen().len(), FORMED);
    assert_eq!(replica.driver.status().counters.frames_uncounted, 1);
}

#[test]
fn what_was_queued_from_an_unbound_link_is_not_taken_for_what_the_bound_one_says() {
    let mut replica = Replica::formed(Scripted::new());
    replica.connect(3, 4, 1);
    replica.turn();
    replica.acknowledgement(3, 4, 1);
    replica.connect(3, 5, 0);
    replica.acknowledgement(3, 5, 2);
    replica.turn();
    let promises: Vec<_> = replica.seen().iter().filter(|seen| matches!(seen, Seen::Promise { .. })).collect();
    assert_eq!(promises, [&Seen::Promise { from: id(3), number: 2 }]);
    assert_eq!(replica.driver.status().counters.frames_stale, 1);
}

#[test]
fn the_loss_of_an_older_link_does_not_take_the_newer_one_down() {
    let mut replica = Replica::formed(Scripted::new());
    replica.connect(3, 4, 0);
    replica.turn();
    let before = replica.seen().len();
    replica.disconnect(3, 3);
    replica.acknowledgement(3, 4, 1);
    replica.turn();
    assert_eq!(replica.seen_after(before), [Seen::Promise { from: id(3), number: 1 }]);
}

#[test]
fn the_last_words_of_a_link_that_broke_in_the_same_turn_are_heard() {
    let mut replica = Replica::formed(Scripted::new());
    replica.disconnect(2, 2);
    replica.message(2, 2, Lane::Control, 9);
    replica.turn();
    assert_eq!(replica.seen_after(FORMED), [Seen::Message { from: id(2), number: 9 }, Seen::PeerDown(id(2))]);
}

/// Hands replica 1 a frame that must cost the link; gives the reason.
fn reason_for_the_cut(class: FrameClass, lane: Lane, head: &'static [u8], body: &'static [u8]) -> String {
    let core = Scripted::new().verified_by(ScriptedVerifier { forged: Some(66), useless: None });
    let mut replica = Replica::formed(core);
    replica.frame(2, 2, class, lane, Bytes::from_static(head), Bytes::from_static(body));
    replica.message(2, 2, Lane::Client, 1);
    replica.message(3, 3, Lane::Client, 2);
    replica.turn();
    assert_eq!(
        replica.seen_after(FORMED),
        [Seen::PeerDown(id(2)), Seen::Message { from: id(3), number: 2 }],
        "nothing more is heard from the link, everything from the other"
    );
    let counters = replica.driver.status().counters;
    assert_eq!((counters.frames_undecodable + counters.frames_forged, counters.frames_stale), (1, 1));
    assert_eq!(replica.output.halt, None);
    let [Disconnect { peer: ReplicaId(2), link: LinkId(2), reason }] = &replica.output.disconnect[..] else {
        panic!("{:?}", replica.output.disconnect)
    };
    reason.clone()
}

#[test]
fn a_frame_that_cannot_be_decoded_or_was_forged_costs_the_link_and_nothing_else() {
    let head = b"\x02\x07\0\0\0\0\0\0\0";
    assert_eq!(
        reason_for_the_cut(FrameClass::Message, Lane::Replication, b"\x02\x07", b""),
        "number is cut short: 8 bytes are needed, 1 are there"
    );
    assert_eq!(
        reason_for_the_cut(FrameClass::Promise, Lane::Acknowledgement, &head[1..], b"x"),
        "scripted promise has 1 bytes too many"
    );
    assert_eq!(
        reason_for_the_cut(FrameClass::Message, Lane::Control, head, b""),
        "a message came in the lane Control, but travels in Replication"
    );
    assert_eq!(
        reason_for_the_cut(FrameClass::Forming, Lane::Control, b"", b"x"),
        "forming message has 1 bytes too many"
    );
    let huge = b"\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff";
    assert!(reason_for_the_cut(FrameClass::Forming, Lane::Control, huge, b"").starts_with("forming message cannot be"),);
    let forged = b"\x42\0\0\0\0\0\0\0";
    assert_eq!(
        reason_for_the_cut(FrameClass::Promise, Lane::Acknowledgement, forged, b""),
        "failed verification: scripted"
    );
}

#[test]
fn a_sign_of_life_reaches_the_protocol_before_the_turns_messages_and_only_where_a_message_would() {
    let mut replica = Replica::formed(Scripted::new());
    replica.message(3, 3, Lane::Control, 7);
    replica.alive(2, 2);
    replica.alive(3, 9);
    replica.turn();
    let message = Seen::Message { from: id(3), number: 7 };
    assert_eq!(replica.seen_after(FORMED), [Seen::PeerAlive(id(2)), message], "link 9 is not the peer's");
    let seen = replica.seen().len();
    replica.disconnect(2, 2);
    replica.connect(3, 4, 1);
    replica.turn();
    replica.alive(2, 2);
    replica.alive(3, 4);
    replica.turn();
    let told = &replica.seen()[seen..];
    assert_eq!(
        told,
        [Seen::PeerDown(id(3)), Seen::PeerDown(id(2))],
        "neither a lost link nor an unbound incarnation counts"
    );
}

#[test]
fn a_useless_message_is_dropped_without_blame_and_the_protocol_may_change_the_checks() {
    let first = ScriptedVerifier { forged: None, useless: Some(1) };
    let second = ScriptedVerifier { forged: None, useless: Some(2) };
    let core = Scripted::new().verified_by(first).once(EventKind::Message, [Step::Verifier(second)]);
    let mut replica = Replica::formed(core);
    for number in [1, 2, 1, 2] {
        replica.message(2, 2, Lane::Control, number);
    }
    replica.turn();
    let message = |number| Seen::Message { from: id(2), number };
    assert_eq!(replica.seen_after(FORMED), [message(2), message(1)]);
    assert_eq!(replica.driver.status().counters.frames_useless, 2);
    assert_eq!(replica.output.disconnect, []);
}

#[test]
fn a_copied_data_directory_is_refused_and_the_healthy_link_stays() {
    let mut replica = Replica::formed(Scripted::new());
    let copy = MemberClaim { start_nonce: 5, ..claim(2, 0) };
    replica.input.push(Inbound::PeerConnected { peer: id(2), link: LinkId(9), claim: copy });
    replica.acknowledgement(2, 9, 1);
    replica.acknowledgement(2, 2, 2);
    replica.turn();
    assert_eq!(replica.output.disconnect.iter().map(|cut| cut.link).collect::<Vec<_>>(), [LinkId(9)]);
    assert_eq!(replica.seen_after(FORMED), [Seen::Promise { from: id(2), number: 2 }]);
}

#[test]
fn a_peer_that_claims_to_be_this_replica_is_refused() {
    let mut replica = Replica::formed(Scripted::new());
    replica.connect(1, 9, 0);
    replica.turn();
    let reason = "replica 1 is this replica: two processes run under one id".to_owned();
    assert_eq!(replica.output.disconnect, [Disconnect { peer: id(1), link: LinkId(9), reason }]);
}

#[test]
fn forming_frames_reach_the_forming_machine_from_unbound_peers_too() {
    let mut replica = Replica::new(Scripted::new(), 3, |_| {});
    replica.connect(2, 2, 0);
    replica.turn();
    let theirs = FormingMessage::Vector { vector: vector(&[(1, 11), (2, 20), (3, 30)]), elected: true };
    replica.frame(2, 2, FrameClass::Forming, Lane::Control, Bytes::from(theirs.encode()), Bytes::new());
    replica.ask(4, 1);
    replica.turn();
    assert!(matches!(replica.driver.status().forming, FormingStatus::Unbound { .. }));
    assert_eq!(replica.replies(), [(4, 1, Status::NotLeader)]);
    assert_eq!(replica.output.replies[0].header.hint, None);
}

#[test]
fn a_leader_gives_its_vector_to_a_peer_that_is_still_forming() {
    let core = Scripted::new().once(EventKind::Message, [Step::LeaderIs(Some(id(1)))]);
    let mut replica = Replica::formed(core);
    let formed = FormingMessage::Claim(MemberClaim { formed_on: Some(vector_digest(&all())), ..claim(2, 0) });
    replica.frame(2, 2, FrameClass::Forming, Lane::Control, Bytes::from(formed.encode()), Bytes::new());
    replica.message(2, 2, Lane::Control, 1);
    replica.turn();
    let vector = FormingMessage::Vector { vector: all(), elected: true };
    assert_eq!(replica.output.frames, [forming_frame(&[3], &vector)]);
}

#[test]
fn a_changed_member_list_binds_and_unbinds_links_after_the_effects_of_its_event() {
    let changed = vector(&[(1, 10), (2, 21), (3, 30)]);
    let say = |number| Step::Send(Destination::All, ScriptedMessage::new(Lane::Control, number));
    let core = Scripted::new()
        .once(EventKind::Message, [say(1), Step::Members(changed), say(2)])
        .once(EventKind::PeerDown, [say(3)]);
    let mut replica = Replica::formed(core);
    replica.message(3, 3, Lane::Control, 1);
    replica.turn();
    assert_eq!(replica.seen_after(FORMED + 1), [Seen::PeerDown(id(2))]);
    assert_eq!(replica.frames(), [(vec![2, 3], 1), (vec![3], 2), (vec![3], 3)], "nothing more to the unbound one");
    replica.connect(2, 4, 1);
    replica.turn();
    assert_eq!(replica.seen_after(FORMED + 2), [Seen::PeerUp(id(2), Incarnation(21))]);
}
