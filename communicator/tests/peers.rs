//! Connections between replicas over real sockets.

mod common;

use bytes::Bytes;
use common::{
    Replica, agreement, bind, claim, closed, configuration, peer_frame, peer_frames_of, raw_client, raw_peer, until,
    within, write_all,
};
use quorate_communicator::{DisconnectReason, Inbound, LaneBound};
use quorate_framework::{Digest, FrameClass, Lane, LinkId, MemberClaim, PeerFrame, ReplicaCommunicator, ReplicaId};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// Replicas 1 and 2, connected.
async fn pair() -> (Replica, Replica) {
    let (one, two, _) = linked_pair().await;
    (one, two)
}

/// The same, with replica 1's link.
async fn linked_pair() -> (Replica, Replica, LinkId) {
    let ((first_listener, first), (second_listener, second)) = (bind().await, bind().await);
    let mut one = Replica::start(configuration(1, &[(2, &second)]), first_listener);
    let mut two = Replica::start(configuration(2, &[(1, &first)]), second_listener);
    let (claimed, link) = one.connected(2).await;
    assert_eq!(claimed, claim(2));
    assert_eq!(two.connected(1).await.0, claim(1));
    (one, two, link)
}

#[tokio::test]
async fn messages_of_every_class_and_lane_arrive_unchanged_both_ways() {
    let (mut one, mut two) = pair().await;
    for (class, lane) in [
        (FrameClass::Message, Lane::Replication),
        (FrameClass::Promise, Lane::Acknowledgement),
        (FrameClass::Forming, Lane::Control),
    ] {
        let body = vec![Bytes::from_static(b"shared "), Bytes::from_static(b"chunks")];
        one.communicator.send(&mut vec![PeerFrame { class, ..peer_frame(&[2], lane, b"head", body) }]).await;
        let (peer, class_seen, lane_seen, head, body) = two.frame().await;
        assert_eq!((peer, class_seen, lane_seen), (ReplicaId(1), class, lane));
        assert_eq!((&head[..], &body[..]), (&b"head"[..], &b"shared chunks"[..]));
    }
    two.communicator.send(&mut vec![peer_frame(&[1], Lane::Control, b"back", vec![])]).await;
    assert_eq!(one.frame().await.3, &b"back"[..]);
    let traffic = one.communicator.handle().traffic();
    assert_eq!(traffic.written_frames, [1, 1, 1, 0, 0]);
    assert_eq!(traffic.writes, 3, "one write a send");
    assert_eq!(traffic.received_messages, [1, 0, 0, 0, 0]);
}

#[tokio::test]
async fn order_within_a_lane_stays_and_a_group_leaves_in_one_write() {
    let (mut one, mut two) = pair().await;
    let before = one.communicator.handle().traffic().writes;
    let frames = (0..60u8).map(|number| peer_frame(&[2], Lane::Acknowledgement, &[number], vec![]));
    one.communicator.send_now(&mut frames.collect());
    for number in 0..60u8 {
        assert_eq!(two.frame().await.3, [number][..]);
    }
    assert_eq!(one.communicator.handle().traffic().writes - before, 1);
}

#[tokio::test]
async fn a_vote_overtakes_the_parts_of_a_long_message() {
    let (mut one, two) = pair().await;
    let body = Bytes::from((0..16u32 << 20).map(|place| (place >> 7) as u8).collect::<Vec<_>>());
    one.communicator.send_now(&mut vec![peer_frame(&[2], Lane::Replication, b"append", vec![body.clone()])]);
    one.communicator.send_now(&mut vec![peer_frame(&[2], Lane::Control, b"vote", vec![])]);
    let mut vote_seen = false;
    within("the long message", async {
        loop {
            let mut items = Vec::new();
            // The lane that comes last is looked at first: had the message come before the vote, it would be seen before it.
            two.inbound.drain(Lane::Replication, 100, usize::MAX, &mut items);
            two.inbound.drain(Lane::Control, 100, usize::MAX, &mut items);
            for item in items {
                match item {
                    Inbound::PeerProgress { .. } => {}
                    Inbound::PeerFrame { lane: Lane::Control, head, .. } => {
                        assert_eq!(head, &b"vote"[..]);
                        vote_seen = true;
                    }
                    Inbound::PeerFrame { head, body: received, .. } => {
                        assert!(vote_seen, "the vote came before the last part");
                        assert!(head == b"append"[..] && received == body);
                        return;
                    }
                    other => panic!("not expected: {other:?}"),
                }
            }
            two.inbound.wait().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_message_that_takes_long_to_arrive_is_a_sign_of_life() {
    let (listener, address) = bind().await;
    let mut one = Replica::start(configuration(1, &[(2, "127.0.0.1:1")]), listener);
    let (mut slow, _) = raw_peer(&address, 2, 1, 5).await;
    let (_, link) = one.connected(2).await;
    let connected_at = one.inbound.last_received(ReplicaId(2)).expect("connected");
    let bytes = peer_frames_of(b"append", &Bytes::from(vec![8; 300_000]));
    let (front, rest) = bytes.split_at(200_000);
    // Longer than a heartbeat takes.
    tokio::time::sleep(Duration::from_millis(60)).await;
    write_all(&mut slow, front).await;
    assert_eq!(one.next().await, Inbound::PeerProgress { peer: ReplicaId(2), link });
    assert!(one.inbound.last_received(ReplicaId(2)).expect("connected") > connected_at);
    write_all(&mut slow, rest).await;
    assert_eq!(one.frame().await.4.len(), 300_000);
}

#[tokio::test]
async fn a_peer_that_restarts_is_reached_again() {
    let ((first_listener, first), (second_listener, second)) = (bind().await, bind().await);
    let one = Replica::start(configuration(1, &[(2, &second)]), first_listener);
    let mut two = Replica::start(configuration(2, &[(1, &first)]), second_listener);
    let (_, link) = two.connected(1).await;
    drop(one);
    let Inbound::PeerDisconnected { peer, link: down, .. } = two.next().await else { panic!("the link is down") };
    assert_eq!((peer, down), (ReplicaId(1), link));
    until("an attempt to fail", || two.trouble(1).is_some_and(|trouble| trouble.contains("refused"))).await;
    let listener = within("the port", async {
        loop {
            match tokio::net::TcpListener::bind(&first).await {
                Ok(listener) => return listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await;
    let mut restarted = configuration(1, &[(2, &second)]);
    restarted.claim = claim(99);
    let mut one = Replica::start(restarted, listener);
    let (seen, next_link) = two.connected(1).await;
    assert_eq!(seen, claim(99), "the restarted one's own claim");
    assert_ne!(next_link, link);
    assert_eq!(two.trouble(1), None);
    one.connected(2).await;
    one.communicator.send_now(&mut vec![peer_frame(&[2], Lane::Control, b"again", vec![])]);
    assert_eq!(two.frame().await.3, &b"again"[..]);
}

#[tokio::test]
async fn a_disconnected_peer_is_dialled_again_and_hears_the_new_claim() {
    let (mut one, mut two, link) = linked_pair().await;
    let formed = MemberClaim { formed_on: Some(Digest([1; 32])), ..claim(1) };
    one.communicator.handle().set_claim(formed);
    one.communicator.disconnect(ReplicaId(2), link).await;
    let Inbound::PeerDisconnected { reason, .. } = one.next().await else { panic!("the link is down") };
    assert_eq!(reason, DisconnectReason::Requested);
    assert_eq!(two.connected(1).await.0, formed);
}

#[tokio::test]
async fn a_newer_connection_of_the_same_peer_closes_the_older_one() {
    let (listener, address) = bind().await;
    let mut one = Replica::start(configuration(1, &[(2, "127.0.0.1:1")]), listener);
    let (mut older, _) = raw_peer(&address, 2, 1, 5).await;
    let (_, older_link) = one.connected(2).await;
    let (_newer, _) = raw_peer(&address, 2, 1, 5).await;
    let Inbound::PeerDisconnected { link, reason, .. } = one.next().await else { panic!("the older goes first") };
    assert_eq!((link, reason), (older_link, DisconnectReason::Replaced));
    let Inbound::PeerConnected { .. } = one.next().await else { panic!("then the newer comes") };
    assert_eq!(within("the loser's end", older.read(&mut [0; 16])).await.expect("an orderly end"), 0);
}

#[tokio::test]
async fn whoever_refuses_an_older_link_does_not_close_the_newer_one() {
    let (listener, address) = bind().await;
    let mut one = Replica::start(configuration(1, &[(2, "127.0.0.1:1")]), listener);
    let (_older, _) = raw_peer(&address, 2, 1, 5).await;
    let (_, older_link) = one.connected(2).await;
    let (mut newer, _) = raw_peer(&address, 2, 1, 5).await;
    let (_, newer_link) = one.connected(2).await;
    one.communicator.disconnect(ReplicaId(2), older_link).await;
    write_all(&mut newer, &peer_frames_of(b"still here", &Bytes::from_static(b"x"))).await;
    let Inbound::PeerFrame { link, head, .. } = one.next().await else { panic!("the newer link is up") };
    assert_eq!((link, &head[..]), (newer_link, &b"still here"[..]));
    one.communicator.disconnect(ReplicaId(2), newer_link).await;
    let Inbound::PeerDisconnected { link, .. } = one.next().await else { panic!("its own name closes it") };
    assert_eq!(link, newer_link);
}

#[tokio::test]
async fn the_last_words_of_a_peer_are_heard_before_its_end() {
    let (listener, address) = bind().await;
    let mut one = Replica::start(configuration(1, &[(2, "127.0.0.1:1")]), listener);
    let (mut leaving, _) = raw_peer(&address, 2, 1, 5).await;
    let (_, link) = one.connected(2).await;
    write_all(&mut leaving, &peer_frames_of(b"take over", &Bytes::from_static(b"x"))).await;
    drop(leaving);
    // The core takes nothing before the reader has seen the end.
    until("the end of the connection", || !one.communicator.handle().peers()[0].connected).await;
    let Inbound::PeerFrame { head, .. } = one.next().await else { panic!("the last words") };
    assert_eq!(head, &b"take over"[..]);
    let Inbound::PeerDisconnected { link: ended, .. } = one.next().await else { panic!("then the end") };
    assert_eq!(ended, link);
}

#[tokio::test]
async fn with_its_doors_closed_a_replica_writes_what_waits_and_lets_nobody_in() {
    let ((first_listener, first), (second_listener, second)) = (bind().await, bind().await);
    let mut one = Replica::start(configuration(1, &[(2, &second)]), first_listener);
    let mut two = Replica::start(configuration(2, &[(1, &first), (3, "127.0.0.1:1")]), second_listener);
    one.connected(2).await;
    two.connected(1).await;
    let mut client = raw_client(&first).await;
    // More than the sockets' buffers hold.
    let body = Bytes::from(vec![3; 1 << 20]);
    let mut frames =
        (0..12u8).map(|number| peer_frame(&[2], Lane::Replication, &[number], vec![body.clone()])).collect();
    one.communicator.send_now(&mut frames);
    assert!(frames.is_empty() && frames.capacity() > 0, "the memory stays the caller's");
    let handle = one.communicator.handle();
    assert!(handle.waiting_to_be_written().0 > 0, "the connection takes less");
    handle.close_doors();
    one.communicator.send_now(&mut vec![peer_frame(&[2], Lane::Control, b"too late", vec![])]);
    for number in 0..12u8 {
        let (.., head, received) = two.frame().await;
        assert!(head == [number][..] && received == body, "message {number}");
    }
    let Inbound::PeerDisconnected { .. } = two.next().await else { panic!("nothing after the last") };
    until("everything to be written", || handle.waiting_to_be_written() == (0, 0)).await;
    until("the port to be closed", || std::net::TcpStream::connect(&first).is_err()).await;
    write_all(&mut client, &[0; 20]).await;
    closed(&mut client).await;
}

#[tokio::test]
async fn settings_that_differ_are_named_on_both_sides_and_no_link_comes_up() {
    let ((first_listener, first), (second_listener, second)) = (bind().await, bind().await);
    let mut left = configuration(1, &[(2, &second)]);
    left.agreement = agreement(&[("election_timeout_ms", "500"), ("lease_enabled", "true")]);
    let mut right = configuration(2, &[(1, &first)]);
    right.agreement = agreement(&[("election_timeout_ms", "900"), ("lease_enabled", "true")]);
    let (one, two) = (Replica::start(left, first_listener), Replica::start(right, second_listener));
    until("both sides to know", || one.trouble(2).is_some() && two.trouble(1).is_some()).await;
    for trouble in [one.trouble(2), two.trouble(1)].into_iter().flatten() {
        assert!(trouble.contains("election_timeout_ms: \"900\" there, \"500\" here"), "{trouble}");
        assert!(!trouble.contains("lease_enabled"), "only what differs: {trouble}");
    }
    assert!(one.inbound.is_empty() && two.inbound.is_empty());
}

#[tokio::test]
async fn a_wrong_address_a_wrong_cluster_and_an_unknown_replica_say_so() {
    let ((first_listener, first), (second_listener, second)) = (bind().await, bind().await);
    let _one = Replica::start(configuration(1, &[(2, &second), (3, "127.0.0.1:1")]), first_listener);
    let said = async |mut configuration: quorate_communicator::CommunicatorConfiguration, peer: u32, wanted: &str| {
        configuration.options.backoff_max = Duration::from_millis(20);
        let replica = Replica::start(configuration, bind().await.0);
        until(wanted, || replica.trouble(peer).is_some_and(|trouble| trouble.contains(wanted))).await;
    };
    said(configuration(3, &[(2, &first)]), 2, "wrong replica: replica 3 meant 2 and has reached 1").await;
    let mut other_cluster = configuration(3, &[(1, &first)]);
    other_cluster.cluster = quorate_framework::ClusterId([1; 16]);
    said(other_cluster, 1, "wrong cluster").await;
    said(configuration(9, &[(1, &first)]), 1, "replica 9 is not a member known to replica 1").await;
    // Replica 2 listens at `second` and takes that address for replica 1's.
    let _two = Replica::start(configuration(2, &[(1, &second)]), second_listener);
    until("self-dial", || _two.trouble(1).is_some_and(|trouble| trouble.contains("dialled by itself"))).await;
}

#[tokio::test]
async fn a_copied_data_directory_and_a_claim_the_node_will_not_have_are_refused() {
    let (listener, address) = bind().await;
    let mut one = Replica::start(configuration(1, &[(2, "127.0.0.1:1"), (3, "127.0.0.1:1")]), listener);
    let (_stream, _) = raw_peer(&address, 2, 1, 1_000).await;
    one.connected(2).await;
    // Another process, with its own start nonce, on the same incarnation and start counter.
    let copy = Replica::start(configuration(2, &[(1, &address)]), bind().await.0);
    until("the copy's refusal", || copy.trouble(1).is_some_and(|trouble| trouble.contains("copied"))).await;
    one.communicator.handle().set_admission(Arc::new(|peer, _| Err(format!("{peer} is not bound"))));
    let three = Replica::start(configuration(3, &[(1, &address)]), bind().await.0);
    until("the node's refusal", || three.trouble(1).is_some_and(|trouble| trouble.contains("3 is not bound"))).await;
    assert!(one.inbound.is_empty());
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_dropped_and_another_gets_everything() {
    let ((first_listener, first), (second_listener, second)) = (bind().await, bind().await);
    let mut bounded = configuration(1, &[(2, &second), (3, "127.0.0.1:1")]);
    bounded.options.peer_outbox[Lane::Replication as usize] = LaneBound { messages: 1_000, bytes: 8 << 20 };
    let mut one = Replica::start(bounded, first_listener);
    let mut two = Replica::start(configuration(2, &[(1, &first)]), second_listener);
    let (_silent, _) = raw_peer(&first, 3, 1, 5).await;
    one.connected(3).await;
    two.connected(1).await;
    let body = Bytes::from(vec![6; 512 << 10]);
    let mut reason = None;
    for number in 0..100u8 {
        let frame = peer_frame(&[2, 3], Lane::Replication, &[number], vec![body.clone()]);
        one.communicator.send(&mut vec![frame]).await;
        let (.., head, received) = two.frame().await;
        assert!(head == [number][..] && received == body, "message {number}");
        let mut items = Vec::new();
        one.inbound.drain_links(&mut items);
        for item in items {
            if let Inbound::PeerDisconnected { peer, reason: why, .. } = item {
                assert_eq!(peer, ReplicaId(3));
                reason = Some(why);
            }
        }
    }
    let Some(DisconnectReason::OutboxFull(full)) = reason else { panic!("dropped for its bound, not {reason:?}") };
    assert_eq!(full.lane, Lane::Replication);
    assert!(full.bytes <= 8 << 20);
}

#[tokio::test]
async fn a_peer_that_sends_more_than_its_window_is_dropped() {
    let ((first_listener, first), (second_listener, second)) = (bind().await, bind().await);
    let bound = LaneBound { messages: 10, bytes: 1 << 20 };
    let lanes = quorate_communicator::InboundLanes::new([bound; 5], bound);
    let mut one = Replica::with_lanes(configuration(1, &[(2, &second)]), first_listener, lanes);
    let mut two = Replica::start(configuration(2, &[(1, &first)]), second_listener);
    one.connected(2).await;
    two.connected(1).await;
    two.communicator.send_now(&mut (0..11).map(|_| peer_frame(&[1], Lane::Replication, b"x", vec![])).collect());
    for _ in 0..10 {
        let Inbound::PeerFrame { .. } = one.next().await else { panic!("what its window holds is heard") };
    }
    let Inbound::PeerDisconnected { reason, .. } = one.next().await else { panic!("dropped") };
    assert_eq!(reason, DisconnectReason::InboundFull(Lane::Replication));
}
