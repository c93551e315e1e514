//! Replicas on real loopback sockets that do exactly what a test says.

use bytes::Bytes;
use quorate_client::{ClientOptions, ReplicaEndpoint};
use quorate_communicator::ClientWelcome;
use quorate_communicator::exchange::{accept_hello, welcome_client};
use quorate_communicator::frame::{FrameHeader, FrameKind};
use quorate_communicator::reader::{Expected, Fill, FrameReader};
use quorate_framework::{ClientFrame, ClusterId, Lane, Position, ReplicaId, ReplyHeader, ReplyKind, SessionId, Status};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Longer than anything in these tests may take.
pub(crate) const LONG: Duration = Duration::from_secs(20);
pub(crate) const CLUSTER: ClusterId = ClusterId([7; 16]);
pub(crate) const SESSION: SessionId = SessionId { position: Position(3), offset: 0 };

/// A replica that listens.
pub(crate) struct FakeReplica {
    pub(crate) id: ReplicaId,
    listener: TcpListener,
}

/// A client's connection as the replica sees it.
pub(crate) struct FakeConnection {
    stream: TcpStream,
    reader: FrameReader,
}

/// Listening replicas with ids from 1, and options that name them.
pub(crate) async fn replicas(count: u32) -> (Vec<FakeReplica>, ClientOptions) {
    let mut replicas = Vec::new();
    for id in 1..=count {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        replicas.push(FakeReplica { id: ReplicaId(id), listener });
    }
    let endpoints = replicas.iter().map(FakeReplica::endpoint).collect();
    (replicas, ClientOptions::new(Some(CLUSTER), endpoints))
}

impl FakeReplica {
    pub(crate) fn endpoint(&self) -> ReplicaEndpoint {
        let port = self.listener.local_addr().unwrap().port();
        ReplicaEndpoint { id: self.id, host: "127.0.0.1".into(), port }
    }

    pub(crate) async fn accept(&self) -> FakeConnection {
        let accepted = timeout(LONG, async {
            let (mut stream, _) = self.listener.accept().await.unwrap();
            let mut reader = FrameReader::new(Expected::Handshake);
            let hello = accept_hello(&mut stream, &mut reader).await.unwrap();
            assert_eq!(hello.cluster, Some(CLUSTER));
            welcome_client(&mut stream, ClientWelcome { replica: self.id, cluster: CLUSTER }).await.unwrap();
            reader.expect(Expected::Requests);
            FakeConnection { stream, reader }
        });
        accepted.await.expect("the client connects")
    }

    /// Accepts, opens the client's session and gives the connection.
    pub(crate) async fn accept_and_open(&self) -> FakeConnection {
        let mut connection = self.accept().await;
        let open = connection.request().await;
        assert!(open.header.session.is_none());
        connection.answer(&open, Status::Ok, None, b"").await;
        connection
    }
}

impl FakeConnection {
    pub(crate) async fn request(&mut self) -> ClientFrame {
        let request = timeout(LONG, async {
            loop {
                if let Some(message) = self.reader.next_message().unwrap() {
                    return ClientFrame::parse(message.body).unwrap();
                }
                let fill = self.reader.fill(&mut self.stream).await.unwrap();
                assert_ne!(fill, Fill::Closed, "the client keeps its connection");
            }
        });
        request.await.expect("a request comes")
    }

    pub(crate) async fn answer(&mut self, to: &ClientFrame, status: Status, hint: Option<ReplicaId>, body: &[u8]) {
        let opens = to.header.session.is_none() && status == Status::Ok;
        let header = ReplyHeader {
            status,
            kind: ReplyKind::Committed,
            hint,
            session: if opens { SESSION } else { to.header.session },
            sequence: to.header.sequence,
            position: Position(9),
        };
        let mut content = Vec::new();
        header.encode(&mut content);
        content.extend_from_slice(body);
        let frame = FrameHeader {
            lane: Lane::Client,
            kind: FrameKind::Reply,
            more: false,
            continued: false,
            head_length: 0,
            body_length: content.len(),
            total_length: content.len(),
        };
        let mut bytes = frame.encode([&content[..]]).to_vec();
        bytes.append(&mut content);
        self.stream.write_all(&bytes).await.unwrap();
    }
}

/// The body without anything that shares memory.
pub(crate) fn body(frame: &ClientFrame) -> Bytes {
    Bytes::copy_from_slice(frame.body())
}
