//! Snapshots in memory, sinks that watch what is written, and both ends of a transfer that do not behave.
#![allow(dead_code, unreachable_pub)] // each test binary uses its part

use crate::common::{CLUSTER, Replica, agreement, bind, claim, configuration, within};
use parking_lot::Mutex;
use quorate_communicator::exchange;
use quorate_communicator::frame::{FrameHeader, FrameKind};
use quorate_communicator::handshake::{AboutPeer, HandshakeError, Identity};
use quorate_communicator::reader::{Expected, Fill, FrameReader};
use quorate_communicator::transfer::{Chunk, Fetch, Outcome};
use quorate_communicator::{
    CommunicatorConfiguration, PullEnd, PullHandle, PullOrder, SnapshotSink, SnapshotSource, SourceError,
};
use quorate_framework::{Incarnation, Lane, Position, ReplicaId, ServedSnapshot, SnapshotId, limits};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Bytes in which every eight are different, so that no part can take another's place.
pub fn state(length: usize) -> Arc<Vec<u8>> {
    let mut bytes = vec![0; length];
    for (number, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1).to_le_bytes());
    }
    Arc::new(bytes)
}

pub fn snapshot(id: u64, length: usize) -> ServedSnapshot {
    ServedSnapshot { id: SnapshotId(id), position: Position(100), length_bytes: length as u64 }
}

type OnRead = Box<dyn Fn(u64, &mut [u8]) -> Option<Result<usize, SourceError>> + Send + Sync>;

/// One snapshot in memory, served to all until it is withdrawn.
pub struct MemorySource {
    pub snapshot: ServedSnapshot,
    pub bytes: Arc<Vec<u8>>,
    pub withdrawn: AtomicBool,
    pub read_bytes: AtomicU64,
    /// What the source was told: peer and bytes written.
    pub pulled: Mutex<Vec<(ReplicaId, u64)>>,
    /// The incarnations that are bound; none: all are.
    pub bound: Option<Vec<(ReplicaId, Incarnation)>>,
    /// Takes the place of a read if it gives something.
    pub on_read: Option<OnRead>,
}

impl MemorySource {
    pub fn new(id: u64, bytes: &Arc<Vec<u8>>) -> MemorySource {
        MemorySource {
            snapshot: snapshot(id, bytes.len()),
            bytes: Arc::clone(bytes),
            withdrawn: AtomicBool::new(false),
            read_bytes: AtomicU64::new(0),
            pulled: Mutex::default(),
            bound: None,
            on_read: None,
        }
    }
}

impl SnapshotSource for MemorySource {
    fn admits(&self, peer: ReplicaId, incarnation: Incarnation) -> Result<(), String> {
        match &self.bound {
            Some(bound) if !bound.contains(&(peer, incarnation)) => {
                Err(format!("{incarnation} of {peer} is not bound"))
            }
            _ => Ok(()),
        }
    }

    fn served(&self, _peer: ReplicaId, id: SnapshotId) -> Option<ServedSnapshot> {
        (id == self.snapshot.id && !self.withdrawn.load(Ordering::SeqCst)).then_some(self.snapshot)
    }

    fn read(&self, _id: SnapshotId, offset: u64, part: &mut [u8]) -> Result<usize, SourceError> {
        if let Some(result) = self.on_read.as_ref().and_then(|on_read| on_read(offset, part)) {
            return result;
        }
        let rest = &self.bytes[offset as usize..];
        let length = rest.len().min(part.len());
        part[..length].copy_from_slice(&rest[..length]);
        self.read_bytes.fetch_add(length as u64, Ordering::SeqCst);
        Ok(length)
    }

    fn pulled(&self, peer: ReplicaId, id: SnapshotId, written: u64) {
        assert_eq!(id, self.snapshot.id);
        self.pulled.lock().push((peer, written));
    }
}

type OnWrite = Box<dyn FnMut(u64, &[u8]) -> io::Result<()> + Send>;

/// What a pull has written, in memory.
#[derive(Clone, Default)]
pub struct Written {
    bytes: Arc<Mutex<Vec<u8>>>,
    sinks: Arc<AtomicU64>,
}

impl Written {
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.bytes.lock())
    }

    pub fn len(&self) -> usize {
        self.bytes.lock().len()
    }

    /// Whether no sink is left that could write.
    pub fn is_closed(&self) -> bool {
        self.sinks.load(Ordering::SeqCst) == 0
    }

    pub fn sink(&self) -> Box<dyn SnapshotSink> {
        self.watched_sink(Box::new(|_, _| Ok(())))
    }

    pub fn watched_sink(&self, on_write: OnWrite) -> Box<dyn SnapshotSink> {
        self.sinks.fetch_add(1, Ordering::SeqCst);
        Box::new(MemorySink { written: Arc::clone(&self.bytes), on_write, sinks: Arc::clone(&self.sinks) })
    }
}

struct MemorySink {
    written: Arc<Mutex<Vec<u8>>>,
    on_write: OnWrite,
    sinks: Arc<AtomicU64>,
}

impl Drop for MemorySink {
    fn drop(&mut self) {
        self.sinks.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SnapshotSink for MemorySink {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (self.on_write)(offset, bytes)?;
        let mut written = self.written.lock();
        assert_eq!(offset, written.len() as u64, "parts come in order, none twice");
        written.extend_from_slice(bytes);
        Ok(())
    }
}

/// A pull and its end.
pub struct Pull {
    pub handle: PullHandle,
    end: oneshot::Receiver<(PullEnd, bool)>,
}

impl Pull {
    pub fn start(puller: &Replica, order: PullOrder, written: &Written) -> Pull {
        Pull::with_sink(puller, order, written, written.sink())
    }

    pub fn with_sink(puller: &Replica, order: PullOrder, written: &Written, sink: Box<dyn SnapshotSink>) -> Pull {
        let (sender, end) = oneshot::channel();
        let watched = written.clone();
        let on_end = Box::new(move |end| {
            let _ = sender.send((end, watched.is_closed()));
        });
        Pull { handle: puller.communicator.handle().pull_snapshot(order, sink, on_end), end }
    }

    pub async fn end(self) -> PullEnd {
        let (end, sink_was_gone) = within("the end of the pull", self.end).await.expect("told exactly once");
        assert!(sink_was_gone, "the sink is dropped before the end is told");
        end
    }
}

pub fn order(from: u32, snapshot: ServedSnapshot) -> PullOrder {
    PullOrder { from: ReplicaId(from), incarnation: Incarnation(u64::from(from)), snapshot, written: 0 }
}

/// Replica 1 that serves, and replica 2 that pulls from it, by way of another address if one is given.
pub async fn pair(
    source: &Arc<MemorySource>,
    by_way_of: Option<&str>,
    change: impl Fn(&mut CommunicatorConfiguration),
) -> (Replica, Replica, String) {
    let ((first_listener, first), (second_listener, second)) = (bind().await, bind().await);
    let mut one = configuration(1, &[(2, &second)]);
    let mut two = configuration(2, &[(1, by_way_of.unwrap_or(&first))]);
    change(&mut one);
    change(&mut two);
    let one = Replica::start(one, first_listener);
    one.communicator.handle().serve_snapshots(Arc::clone(source) as Arc<dyn SnapshotSource>);
    (one, Replica::start(two, second_listener), first)
}

fn identity(replica: u32) -> Identity {
    Identity {
        cluster: CLUSTER,
        replica: ReplicaId(replica),
        members: [1, 2, 3].map(ReplicaId).into(),
        agreement: agreement(&[]),
    }
}

/// A puller that shakes hands and then does what the test wants.
pub async fn raw_puller(address: &str, from: u32) -> Result<RawEnd, HandshakeError> {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let mut reader = FrameReader::new(Expected::Handshake);
    let hello = identity(from).hello_for_transfer(ReplicaId(1), claim(u64::from(from)));
    within("the answer", exchange::ask_peer(&mut stream, &mut reader, &hello)).await?;
    exchange::confirm(&mut stream, Ok(())).await.expect("confirmed");
    reader.expect(Expected::Chunks);
    Ok(RawEnd { stream, reader })
}

/// One end of a transfer whose handshake is done.
pub struct RawEnd {
    pub stream: TcpStream,
    reader: FrameReader,
}

impl RawEnd {
    async fn message(&mut self) -> Option<bytes::Bytes> {
        loop {
            if let Some(message) = self.reader.next_message().expect("a whole frame") {
                return Some(message.body);
            }
            match within("a frame", self.reader.fill(&mut self.stream)).await {
                Ok(Fill::Read { .. }) => {}
                Ok(Fill::Closed) | Err(_) => return None,
            }
        }
    }

    /// The next chunk; none if the connection has ended.
    pub async fn chunk(&mut self) -> Option<Chunk> {
        self.message().await.map(|body| Chunk::decode(body).expect("a chunk"))
    }

    /// The next fetch; none if the connection has ended.
    pub async fn fetch(&mut self) -> Option<Fetch> {
        self.message().await.map(|body| Fetch::decode(&body).expect("a fetch"))
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        // The other side may have closed by now.
        let _ = within("the other side to read", self.stream.write_all(bytes)).await;
    }

    /// Waits until the other side has closed.
    pub async fn closed(&mut self) {
        crate::common::closed(&mut self.stream).await;
    }
}

/// The frame of a transfer's message.
pub fn frame(kind: FrameKind, body: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        lane: Lane::Snapshot,
        kind,
        more: false,
        continued: false,
        head_length: 0,
        body_length: body.len(),
        total_length: body.len(),
    };
    [&header.encode([body])[..], body].concat()
}

pub fn fetch_frame(snapshot: ServedSnapshot, written: u64, until: u64) -> Vec<u8> {
    frame(FrameKind::Fetch, &Fetch { snapshot, written, until }.encode())
}

pub fn chunk_frame(snapshot: ServedSnapshot, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let header = Chunk::encode_header(snapshot.id, snapshot.length_bytes, offset, Outcome::Data);
    frame(FrameKind::Chunk, &[&header[..], bytes].concat())
}

/// A source, replica 1, that shakes hands and then does what the test wants.
pub async fn accept_puller(listener: &TcpListener, incarnation: u64) -> RawEnd {
    loop {
        let (mut stream, _) = within("a puller", listener.accept()).await.expect("accepted");
        let mut reader = FrameReader::new(Expected::Handshake);
        let Ok(hello) = exchange::accept_hello(&mut stream, &mut reader).await else { continue };
        // The dialler also wants its link; that stays without an answer.
        if !matches!(hello.role, quorate_communicator::handshake::Role::Transfer { .. }) {
            continue;
        }
        let about = AboutPeer { claim: claim(incarnation), agreement: agreement(&[]) };
        if exchange::welcome_peer(&mut stream, &mut reader, about).await.is_ok() {
            reader.expect(Expected::Fetches);
            return RawEnd { stream, reader };
        }
    }
}

/// Sends what is asked for, as a source that behaves, until the puller has all.
pub async fn serve_well(end: &mut RawEnd, snapshot: ServedSnapshot, bytes: &[u8]) {
    let mut sent = None;
    while let Some(fetch) = end.fetch().await {
        assert_eq!(fetch.snapshot, snapshot);
        let mut at = sent.unwrap_or(fetch.written);
        while at < fetch.until {
            let until = fetch.until.min(at + limits::SNAPSHOT_CHUNK_BYTES as u64);
            end.send(&chunk_frame(snapshot, at, &bytes[at as usize..until as usize])).await;
            at = until;
        }
        sent = Some(at);
    }
}
