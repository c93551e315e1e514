use super::*;
use crate::frame::FrameKind;
use quorate_framework::RequestHeader;

const PEER: ReplicaId = ReplicaId(2);
const OLD: LinkId = LinkId(1);
const NEW: LinkId = LinkId(2);

fn frame(lane: Lane, head: &'static [u8]) -> Received {
    Received { lane, kind: FrameKind::Message, head: Bytes::from_static(head), body: Bytes::new() }
}

fn request(nonce: u128) -> ClientFrame {
    let mut bytes = Vec::new();
    RequestHeader::open(nonce, false).encode(&mut bytes);
    ClientFrame::parse(Bytes::from(bytes)).expect("a request")
}

fn connect(lanes: &InboundLanes, link: LinkId) {
    lanes.peer_connected(PEER, link, MemberClaim::default());
}

fn put(lanes: &InboundLanes, link: LinkId, frames: Vec<Received>) -> Result<(), Refused> {
    lanes.peer_frames(PEER, link, &mut { frames })
}

fn drained(lanes: &InboundLanes, lane: Lane) -> Vec<Inbound> {
    let mut output = Vec::new();
    lanes.drain(lane, usize::MAX, usize::MAX, &mut output);
    output
}

fn connected(link: LinkId) -> Inbound {
    Inbound::PeerConnected { peer: PEER, claim: MemberClaim::default(), link }
}

fn arrived(link: LinkId, lane: Lane, head: &'static [u8]) -> Inbound {
    Inbound::PeerFrame {
        peer: PEER,
        link,
        class: FrameClass::Message,
        lane,
        head: Bytes::from_static(head),
        body: Bytes::new(),
    }
}

#[test]
fn a_connection_comes_before_its_frames_whatever_lane_is_drained_first() {
    let lanes = InboundLanes::default();
    connect(&lanes, OLD);
    put(&lanes, OLD, vec![frame(Lane::Snapshot, b"late"), frame(Lane::Control, b"vote")]).expect("room");
    assert_eq!(drained(&lanes, Lane::Snapshot), [connected(OLD), arrived(OLD, Lane::Snapshot, b"late")]);
    assert_eq!(drained(&lanes, Lane::Control), [arrived(OLD, Lane::Control, b"vote")]);
    assert!(lanes.is_empty());
}

#[test]
fn no_frame_of_an_old_connection_comes_after_its_end_or_after_the_next_one_is_up() {
    let lanes = InboundLanes::default();
    connect(&lanes, OLD);
    drained(&lanes, Lane::Control);
    put(&lanes, OLD, vec![frame(Lane::Replication, b"old")]).expect("room");
    connect(&lanes, NEW);
    assert_eq!(put(&lanes, OLD, vec![frame(Lane::Replication, b"older")]), Err(Refused::Stale));
    lanes.peer_disconnected(PEER, OLD, DisconnectReason::Closed);
    put(&lanes, NEW, vec![frame(Lane::Replication, b"new")]).expect("room");
    let replaced = Inbound::PeerDisconnected { peer: PEER, link: OLD, reason: DisconnectReason::Replaced };
    assert_eq!(drained(&lanes, Lane::Replication), [replaced, connected(NEW), arrived(NEW, Lane::Replication, b"new")]);
}

#[test]
fn what_a_peer_said_before_it_was_lost_is_heard_and_then_its_end_whatever_the_quotas() {
    let lanes = InboundLanes::default();
    connect(&lanes, OLD);
    drained(&lanes, Lane::Control);
    let said = vec![frame(Lane::Snapshot, b"late"), frame(Lane::Control, b"1"), frame(Lane::Control, b"last words")];
    put(&lanes, OLD, said).expect("room");
    lanes.peer_disconnected(PEER, OLD, DisconnectReason::Cut);
    lanes.peer_disconnected(PEER, OLD, DisconnectReason::Closed);
    assert_eq!(put(&lanes, OLD, vec![frame(Lane::Control, b"after the end")]), Err(Refused::Stale));
    lanes.peer_progress(PEER, OLD, Lane::Control);
    let mut output = Vec::new();
    assert!(lanes.drain(Lane::Control, 1, usize::MAX, &mut output));
    assert_eq!(output, [arrived(OLD, Lane::Control, b"1")]);
    assert_eq!(drained(&lanes, Lane::Control), [arrived(OLD, Lane::Control, b"last words")]);
    let down = Inbound::PeerDisconnected { peer: PEER, link: OLD, reason: DisconnectReason::Cut };
    assert_eq!(drained(&lanes, Lane::Snapshot), [arrived(OLD, Lane::Snapshot, b"late"), down], "once, and last");
    assert_eq!(lanes.last_received(PEER), None);
    assert!(lanes.is_empty());
}

#[test]
fn a_newer_connection_takes_out_what_waits_of_a_lost_one_and_its_end_comes_first() {
    let lanes = InboundLanes::default();
    connect(&lanes, OLD);
    drained(&lanes, Lane::Control);
    put(&lanes, OLD, vec![frame(Lane::Control, b"old")]).expect("room");
    lanes.peer_disconnected(PEER, OLD, DisconnectReason::Cut);
    connect(&lanes, NEW);
    put(&lanes, NEW, vec![frame(Lane::Control, b"new")]).expect("room");
    let down = Inbound::PeerDisconnected { peer: PEER, link: OLD, reason: DisconnectReason::Cut };
    assert_eq!(drained(&lanes, Lane::Control), [down, connected(NEW), arrived(NEW, Lane::Control, b"new")]);
    assert!(lanes.is_empty());
}

#[test]
fn connections_that_come_and_go_unseen_leave_nothing_behind() {
    let lanes = InboundLanes::default();
    for number in 0..10_000 {
        connect(&lanes, LinkId(number));
        lanes.peer_disconnected(PEER, LinkId(number), DisconnectReason::Closed);
        lanes.client_connected(ConnectionId(number));
        lanes.client_requests(ConnectionId(number), &mut vec![request(1)]);
        lanes.client_disconnected(ConnectionId(number));
    }
    assert!(lanes.is_empty());
    assert_eq!(lanes.state.lock().requests.bytes, 0);
}

#[test]
fn a_peer_beyond_its_window_is_refused_and_another_is_not() {
    let bound = LaneBound { messages: 2, bytes: 100 };
    let lanes = InboundLanes::new([bound; 5], CLIENT_LANE);
    connect(&lanes, OLD);
    let three = || (0..3).map(|_| frame(Lane::Replication, b"x")).collect::<Vec<_>>();
    assert_eq!(put(&lanes, OLD, three()), Err(Refused::Full(Lane::Replication)));
    put(&lanes, OLD, vec![frame(Lane::Control, b"x")]).expect("another lane has room");
    let other = ReplicaId(3);
    lanes.peer_connected(other, NEW, MemberClaim::default());
    let mut two = three();
    two.truncate(2);
    lanes.peer_frames(other, NEW, &mut two).expect("another peer has its own bound");
    drained(&lanes, Lane::Replication);
    assert_eq!(put(&lanes, OLD, vec![frame(Lane::Replication, b"x")]), Ok(()), "drained is room again");
    let large = Received { body: Bytes::from(vec![0; 200]), ..frame(Lane::Acknowledgement, b"") };
    assert_eq!(put(&lanes, OLD, vec![large]), Ok(()), "one larger than the bound passes alone");
    assert_eq!(put(&lanes, OLD, vec![frame(Lane::Acknowledgement, b"x")]), Err(Refused::Full(Lane::Acknowledgement)));
}

#[test]
fn requests_beyond_the_client_lane_are_given_back_in_order() {
    let lanes = InboundLanes::new(PEER_LANES, LaneBound { messages: 3, bytes: usize::MAX });
    let connection = ConnectionId(7);
    lanes.client_connected(connection);
    let mut requests: Vec<ClientFrame> = (1..=5).map(request).collect();
    lanes.client_requests(connection, &mut requests);
    assert_eq!(requests, [request(4), request(5)]);
    let taken = drained(&lanes, Lane::Client);
    assert_eq!(taken[0], Inbound::ClientConnected { connection });
    let wanted: Vec<Inbound> =
        (1..=3).map(|nonce| Inbound::ClientRequest { connection, frame: request(nonce) }).collect();
    assert_eq!(taken[1..], wanted);
    lanes.client_requests(connection, &mut requests);
    assert_eq!(requests, [], "room again");
}

#[test]
fn the_client_lane_is_bounded_in_bytes_too() {
    let lanes = InboundLanes::new(PEER_LANES, LaneBound { messages: 100, bytes: 100 });
    let mut requests: Vec<ClientFrame> = (1..=3).map(request).collect();
    lanes.client_requests(ConnectionId(1), &mut requests);
    assert_eq!(requests, [request(3)], "two of forty bytes fit a hundred");
}

#[test]
fn a_quota_ends_a_drain_and_one_larger_item_still_passes() {
    let lanes = InboundLanes::default();
    connect(&lanes, OLD);
    put(&lanes, OLD, (0..5).map(|_| frame(Lane::Control, b"1234")).collect()).expect("room");
    let mut output = Vec::new();
    assert!(lanes.drain(Lane::Control, 2, usize::MAX, &mut output), "more is there");
    assert_eq!(output.len(), 1 + 2, "the connection and two frames");
    output.clear();
    assert!(lanes.drain(Lane::Control, 9, 3, &mut output));
    assert_eq!(output.len(), 1, "larger than the quota, alone");
    output.clear();
    assert!(!lanes.drain(Lane::Control, 9, 8, &mut output));
    assert_eq!(output.len(), 2);
    assert!(!lanes.drain(Lane::Control, 0, 0, &mut output));
}

#[test]
fn parts_are_a_sign_of_life_told_once_until_it_is_taken() {
    let lanes = InboundLanes { progress_interval: Duration::ZERO, ..InboundLanes::default() };
    connect(&lanes, OLD);
    let before = lanes.last_received(PEER).expect("connected");
    (0..100).for_each(|_| lanes.peer_progress(PEER, OLD, Lane::Replication));
    assert!(lanes.last_received(PEER).expect("connected") > before);
    let progress = Inbound::PeerProgress { peer: PEER, link: OLD };
    assert_eq!(drained(&lanes, Lane::Replication), [connected(OLD), progress.clone()]);
    lanes.peer_progress(PEER, OLD, Lane::Replication);
    lanes.peer_progress(PEER, NEW, Lane::Replication);
    // A busy connection's messages are sign enough.
    let busy = InboundLanes { progress_interval: Duration::from_secs(60), ..InboundLanes::default() };
    connect(&busy, OLD);
    busy.peer_progress(PEER, OLD, Lane::Replication);
    assert_eq!(drained(&busy, Lane::Replication), [connected(OLD)]);
    assert_eq!(drained(&lanes, Lane::Replication), [progress]);
}

#[test]
fn a_waiting_core_is_woken_by_what_was_put_in_before_or_after_it_waits() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let lanes = InboundLanes::default();
    connect(&lanes, OLD);
    runtime.block_on(lanes.wait());
    runtime.block_on(async {
        tokio::join!(lanes.wait(), async { put(&lanes, OLD, vec![frame(Lane::Control, b"x")]).expect("room") });
    });
}
