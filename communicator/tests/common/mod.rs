//! Replicas' communicators on loopback, and diallers that do not behave.
#![allow(dead_code, unreachable_pub)] // each test binary uses its part

use bytes::Bytes;
use quorate_communicator::exchange;
use quorate_communicator::frame::FrameKind;
use quorate_communicator::handshake::{AboutPeer, Identity};
use quorate_communicator::outgoing::{Message, OutgoingLanes};
use quorate_communicator::reader::{Expected, FrameReader};
use quorate_communicator::{
    Agreement, CommunicatorConfiguration, CommunicatorOptions, Inbound, InboundLanes, LaneBound, TcpCommunicator,
};
use quorate_framework::{
    ClientFrame, ClientReply, ClusterId, Encoded, FrameClass, Incarnation, Lane, LinkId, MemberClaim, PeerFrame,
    Position, ReplicaId, ReplyHeader, ReplyKind, RequestHeader, Sequence, SessionId, Status,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

pub const CLUSTER: ClusterId = ClusterId([7; 16]);

pub fn agreement(settings: &[(&str, &str)]) -> Agreement {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Agreement { consensus: "raft".into(), settings, ..Agreement::default() }
}

pub async fn bind() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound address").to_string();
    (listener, address)
}

pub fn configuration(replica: u32, peers: &[(u32, &str)]) -> CommunicatorConfiguration {
    let peers: BTreeMap<ReplicaId, String> =
        peers.iter().map(|(peer, address)| (ReplicaId(*peer), (*address).to_owned())).collect();
    CommunicatorConfiguration {
        cluster: CLUSTER,
        replica: ReplicaId(replica),
        peers,
        agreement: agreement(&[]),
        claim: claim(u64::from(replica)),
        options: CommunicatorOptions::default(),
    }
}

/// What a replica claims whose incarnation, and the nonce of its only start, is this.
pub fn claim(incarnation: u64) -> MemberClaim {
    MemberClaim { incarnation: Incarnation(incarnation), start_nonce: incarnation, ..MemberClaim::default() }
}

/// A communicator and the core's end of its lanes.
pub struct Replica {
    pub communicator: TcpCommunicator,
    pub inbound: Arc<InboundLanes>,
    seen: VecDeque<Inbound>,
}

impl Replica {
    pub fn start(configuration: CommunicatorConfiguration, listener: TcpListener) -> Replica {
        Replica::with_lanes(configuration, listener, InboundLanes::default())
    }

    pub fn with_lanes(configuration: CommunicatorConfiguration, listener: TcpListener, lanes: InboundLanes) -> Replica {
        let inbound = Arc::new(lanes);
        let random = Box::new(rand::random::<u64>);
        let communicator = TcpCommunicator::start(configuration, listener, Arc::clone(&inbound), random);
        Replica { communicator, inbound, seen: VecDeque::new() }
    }

    /// The next thing that arrives, lanes in their order.
    pub async fn next(&mut self) -> Inbound {
        within("something to arrive", async {
            loop {
                if let Some(item) = self.seen.pop_front() {
                    return item;
                }
                let mut items = Vec::new();
                for lane in Lane::ALL {
                    self.inbound.drain(lane, 1_000, 16 << 20, &mut items);
                }
                self.seen.extend(items);
                if self.seen.is_empty() {
                    self.inbound.wait().await;
                }
            }
        })
        .await
    }

    /// The next connection of a peer, whatever comes before it.
    pub async fn connected(&mut self, peer: u32) -> (MemberClaim, LinkId) {
        loop {
            match self.next().await {
                Inbound::PeerConnected { peer: of, claim, link } if of == ReplicaId(peer) => return (claim, link),
                _ => {}
            }
        }
    }

    /// The next frame of a peer, whatever comes before it.
    pub async fn frame(&mut self) -> (ReplicaId, FrameClass, Lane, Bytes, Bytes) {
        loop {
            if let Inbound::PeerFrame { peer, class, lane, head, body, .. } = self.next().await {
                return (peer, class, lane, head, body);
            }
        }
    }

    pub fn trouble(&self, peer: u32) -> Option<String> {
        let status = self.communicator.handle().peers().into_iter().find(|status| status.peer == ReplicaId(peer));
        status.and_then(|status| status.trouble)
    }

    /// Answers every request with its own body, for ever.
    pub async fn echo(mut self) {
        let mut items = Vec::new();
        loop {
            self.inbound.wait().await;
            for lane in Lane::ALL {
                while self.inbound.drain(lane, 1_000, 16 << 20, &mut items) {}
            }
            let replies = items.drain(..).filter_map(|item| match item {
                Inbound::ClientRequest { connection, frame } => {
                    Some(ClientReply { connection, header: ok(&frame), body: Bytes::copy_from_slice(frame.body()) })
                }
                _ => None,
            });
            self.communicator.reply_now(&mut replies.collect());
        }
    }
}

pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), future).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Waits until a condition holds that no event tells of.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    within(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

pub fn ok(frame: &ClientFrame) -> ReplyHeader {
    ReplyHeader {
        status: Status::Ok,
        kind: ReplyKind::Committed,
        hint: None,
        session: frame.header.session,
        sequence: frame.header.sequence,
        position: Position(1),
    }
}

/// A request's bytes, whatever its length.
pub fn request(sequence: u64, body: &[u8]) -> Bytes {
    let mut bytes = Vec::new();
    RequestHeader::in_session(SessionId { position: Position(1), offset: 0 }, Sequence(sequence)).encode(&mut bytes);
    bytes.extend_from_slice(body);
    Bytes::from(bytes)
}

pub fn peer_frame(to: &[u32], lane: Lane, head: &[u8], body: Vec<Bytes>) -> PeerFrame {
    let to = to.iter().copied().map(ReplicaId).collect();
    PeerFrame { to, lane, class: FrameClass::Message, encoded: Encoded { head: Bytes::copy_from_slice(head), body } }
}

/// A peer that shakes hands and then does what the test wants.
pub async fn raw_peer(address: &str, from: u32, to: u32, start_nonce: u64) -> (TcpStream, AboutPeer) {
    let identity = Identity {
        cluster: CLUSTER,
        replica: ReplicaId(from),
        members: [from, to].map(ReplicaId).into(),
        agreement: agreement(&[]),
    };
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let mut reader = FrameReader::new(Expected::Handshake);
    let claim = MemberClaim { start_nonce, ..claim(u64::from(from)) };
    let hello = identity.hello(ReplicaId(to), claim);
    let about = within("welcome", exchange::ask_peer(&mut stream, &mut reader, &hello)).await.expect("welcome");
    exchange::confirm(&mut stream, Ok(())).await.expect("confirmed");
    (stream, about)
}

/// A client that shakes hands and then does what the test wants.
pub async fn raw_client(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let mut reader = FrameReader::new(Expected::Handshake);
    within("welcome", exchange::ask_as_client(&mut stream, &mut reader, None)).await.expect("welcome");
    stream
}

/// The frames in which a request travels.
pub fn frames_of(request: &Bytes) -> Vec<u8> {
    let encoded = Encoded { head: Bytes::new(), body: vec![request.clone()] };
    written(Message::new(Lane::Client, FrameKind::Request, encoded).expect("a request within limits"))
}

/// The frames in which a message between replicas travels.
pub fn peer_frames_of(head: &[u8], body: &Bytes) -> Vec<u8> {
    let encoded = Encoded { head: Bytes::copy_from_slice(head), body: vec![body.clone()] };
    written(Message::new(Lane::Replication, FrameKind::Message, encoded).expect("a message within limits"))
}

fn written(message: Message) -> Vec<u8> {
    let mut lanes = OutgoingLanes::new([LaneBound { messages: 1, bytes: usize::MAX }; 5]);
    lanes.push(message).expect("an empty lane");
    let mut bytes = Vec::new();
    let written = lanes.flush(|slices| {
        slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        Ok(slices.iter().map(|slice| slice.len()).sum())
    });
    written.expect("a vector takes everything");
    bytes
}

pub async fn write_all(stream: &mut TcpStream, bytes: &[u8]) {
    within("the other side to read", stream.write_all(bytes)).await.expect("written");
}

/// Waits until the other side has closed, whatever it says before.
pub async fn closed(stream: &mut TcpStream) {
    let mut bytes = [0; 4_096];
    within("the connection to be closed", async { while matches!(stream.read(&mut bytes).await, Ok(1..)) {} }).await;
}
