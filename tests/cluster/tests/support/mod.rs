//! Clients made of bytes, and a member of a cluster made of bytes.

use super::*;
use quorate_communicator::Refusal;
use quorate_communicator::frame::{FRAME_HEADER_BYTES, FrameHeader};
use quorate_communicator::handshake::{Answer, Hello, Identity, PROTOCOL_VERSION, Role};
use quorate_framework::{Incarnation, MemberClaim, ReplicaId, control};

/// How long the other side may take.
const TIME: Duration = Duration::from_secs(20);

pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(TIME)).unwrap();
    stream.set_write_timeout(Some(TIME)).unwrap();
    stream
}

/// Whether the other side closes within [`TIME`], whatever it says before.
pub(crate) fn closed_by_the_other_side(stream: &mut TcpStream) -> bool {
    let end = Instant::now() + TIME;
    let mut bytes = vec![0; 64 << 10];
    while Instant::now() < end {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
    false
}

/// A frame without a head, with a right checksum.
fn frame(lane: Lane, kind: FrameKind, body: &[u8]) -> Vec<u8> {
    frame_with_head(lane, kind, b"", body)
}

/// A message that fits one frame, with a right checksum.
pub(crate) fn frame_with_head(lane: Lane, kind: FrameKind, head: &[u8], body: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        lane,
        kind,
        more: false,
        continued: false,
        head_length: head.len(),
        body_length: body.len(),
        total_length: body.len(),
    };
    let covered = if kind.covers_body() { body } else { head };
    [&header.encode([covered])[..], head, body].concat()
}

/// A request in the frames in which it travels.
pub(crate) fn request_frame(request: &[u8]) -> Vec<u8> {
    const PART: usize = 512 << 10;
    if request.len() <= PART {
        return frame(Lane::Client, FrameKind::Request, request);
    }
    let mut bytes = Vec::new();
    for (number, part) in request.chunks(PART).enumerate() {
        let header = FrameHeader {
            lane: Lane::Client,
            kind: FrameKind::Request,
            more: (number + 1) * PART < request.len(),
            continued: number > 0,
            head_length: 0,
            body_length: part.len(),
            total_length: request.len(),
        };
        bytes.extend_from_slice(&header.encode([part]));
        bytes.extend_from_slice(part);
    }
    bytes
}

/// A client's greeting.
pub(crate) fn hello() -> Vec<u8> {
    greeting(FrameKind::Hello, &Hello { cluster: None, role: Role::Client })
}

fn greeting(kind: FrameKind, value: &impl serde::Serialize) -> Vec<u8> {
    let mut body = b"quorate\n".to_vec();
    body.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    control::encode(value, &mut body);
    frame(Lane::Control, kind, &body)
}

/// Bytes without a meaning, the same for the same seed.
pub(crate) fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..count).map(|_| next()).collect()
}

/// Lets this process have so many descriptors.
pub(crate) fn open_descriptors_allowed(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < count) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(count), ..limit }).unwrap();
    }
}

/// A client that greets as it should.
pub(crate) struct RawClient {
    pub(crate) stream: TcpStream,
}

impl RawClient {
    pub(crate) fn greet(port: u16) -> RawClient {
        RawClient { stream: RawClient::try_greet(port).expect("let in") }
    }

    /// None if it is refused.
    pub(crate) fn try_greet(port: u16) -> Option<TcpStream> {
        let mut client = RawClient { stream: connect(port) };
        client.stream.write_all(&hello()).ok()?;
        let answer = client.try_frame()?;
        // Behind magic and version: which answer it is; 1 is the welcome to a client.
        (answer[12] == 1).then_some(client.stream)
    }

    fn try_frame(&mut self) -> Option<Vec<u8>> {
        let mut header = [0; FRAME_HEADER_BYTES];
        self.stream.read_exact(&mut header).ok()?;
        let header = FrameHeader::decode(&header).unwrap();
        let mut body = vec![0; header.head_length + header.body_length];
        self.stream.read_exact(&mut body).ok()?;
        Some(body)
    }

    /// The next reply, which fits one frame.
    pub(crate) fn reply(&mut self) -> ReplyHeader {
        let body = self.try_frame().expect("a reply");
        ReplyHeader::decode(bytes::Bytes::from(body)).unwrap().0
    }

    pub(crate) fn open_session(&mut self) -> SessionId {
        let mut bytes = Vec::new();
        RequestHeader::open(u128::from(self.stream.local_addr().unwrap().port()), false).encode(&mut bytes);
        self.stream.write_all(&request_frame(&bytes)).unwrap();
        let reply = self.reply();
        assert_eq!(reply.status, Status::Ok);
        reply.session
    }
}

/// A member of the cluster that is made of bytes.
pub(crate) struct RawPeer {
    identity: Identity,
    claim: MemberClaim,
}

impl RawPeer {
    /// The member `id` of a cluster file, forming, in its first start.
    pub(crate) fn new(id: u32, file: &str) -> RawPeer {
        let cluster = quorate_config::load_cluster(file.as_ref()).unwrap().config;
        let identity = Identity {
            cluster: cluster.cluster_id(),
            replica: ReplicaId(id),
            members: cluster.replicas().iter().map(|replica| replica.id).collect(),
            agreement: quorate_node::settings::agreement(&cluster),
        };
        let claim = MemberClaim { incarnation: Incarnation(77), formed_on: None, start_counter: 1, start_nonce: 5 };
        RawPeer { identity, claim }
    }

    /// A link to a replica whose process may still be starting.
    pub(crate) fn link(&self, to: u32, port: u16) -> TcpStream {
        let end = Instant::now() + TIME;
        loop {
            match self.try_link(to, port) {
                Some(stream) => return stream,
                None => assert!(Instant::now() < end, "replica {to} takes no link"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn try_link(&self, to: u32, port: u16) -> Option<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(TIME)).ok()?;
        let mut client = RawClient { stream };
        client.stream.write_all(&greeting(FrameKind::Hello, &self.identity.hello(ReplicaId(to), self.claim))).ok()?;
        let answer = client.try_frame()?;
        let answer: Answer = control::decode("answer", &answer[12..]).unwrap();
        assert!(matches!(answer, Answer::Peer(_)), "{answer:?}");
        client.stream.write_all(&greeting(FrameKind::Confirm, &None::<Refusal>)).ok()?;
        Some(client.stream)
    }
}
