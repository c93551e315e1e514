//! The source's end of a transfer.

use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use crate::hub::{Hub, Topic};
use crate::reader::{Expected, Fill, FrameReader};
use crate::transfer::figures::add;
use crate::transfer::message::{CHUNK_HEADER_BYTES, Chunk, Fetch, Outcome};
use crate::transfer::source::{SnapshotSource, SourceError};
use quorate_framework::{Lane, ReplicaId, ServedSnapshot, SnapshotId, WireError, limits};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Bytes of a chunk's frame before the part of the snapshot.
const PART_OFFSET: usize = FRAME_HEADER_BYTES + CHUNK_HEADER_BYTES;

/// Why a connection by which a peer pulled has ended.
#[derive(Debug, Error)]
enum End {
    #[error("closed by the peer")]
    Closed,
    #[error("the connection failed: {0}")]
    Failed(#[from] io::Error),
    #[error("not understood: {0}")]
    Wire(#[from] WireError),
    #[error("the peer asks for nothing more")]
    Idle,
    #[error("the peer does not take what it asked for")]
    NotTaken,
    #[error("the peer asked for what cannot be served: {0}")]
    Answered(&'static str),
}

/// Hands a connection whose handshake is done to the transfer thread. An older one of the same peer ends.
pub(crate) fn serve(hub: &Arc<Hub>, peer: ReplicaId, stream: TcpStream, mut reader: FrameReader) {
    reader.expect(Expected::Fetches);
    let Some(source) = hub.transfers.source.lock().clone() else { return };
    let begun = hub.transfers.runtime().and_then(|runtime| Ok((runtime, stream.into_std()?)));
    let (runtime, stream) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            tracing::error!(replica = %hub.identity.replica, %peer, "cannot serve a snapshot: {error}");
            return;
        }
    };
    let mut registry = hub.registry.lock();
    // Others may have come since this one was let in.
    let full = registry.served.len() >= hub.options.snapshot_connections && !registry.served.contains_key(&peer);
    if registry.is_stopping() || full {
        return;
    }
    let number = registry.next_number();
    add(&hub.transfers.counters.connections_served, 1);
    let task = runtime.spawn(run(Arc::clone(hub), source, peer, stream, reader, number));
    if let Some((_, older)) = registry.served.insert(peer, (number, task.abort_handle())) {
        older.abort();
    }
}

async fn run(
    hub: Arc<Hub>,
    source: Arc<dyn SnapshotSource>,
    peer: ReplicaId,
    stream: std::net::TcpStream,
    reader: FrameReader,
    number: u64,
) {
    let end = match TcpStream::from_std(stream) {
        Ok(stream) => {
            let timeout = hub.options.snapshot_stall_timeout;
            let frame = Vec::with_capacity(PART_OFFSET);
            let mut serving =
                Serving { hub: &hub, source: &*source, peer, stream, reader, timeout, frame, sent: None, told: None };
            let end = serving.run().await.err().unwrap_or(End::Closed);
            if let End::Answered(_) = end {
                serving.wait_for_close().await;
            }
            end
        }
        Err(error) => End::Failed(error),
    };
    {
        let mut registry = hub.registry.lock();
        if registry.served.get(&peer).is_some_and(|(of, _)| *of == number) {
            registry.served.remove(&peer);
        }
    }
    if let Some(more) = hub.log_line(Topic::Transfer(peer)) {
        tracing::info!(replica = %hub.identity.replica, %peer, "a snapshot is no longer pulled from here: {end}{more}");
    }
}

struct Serving<'a> {
    hub: &'a Hub,
    source: &'a dyn SnapshotSource,
    peer: ReplicaId,
    stream: TcpStream,
    reader: FrameReader,
    timeout: Duration,
    /// The frame that is sent; its memory is used again and again.
    frame: Vec<u8>,
    /// What is pulled by this connection and how far it was sent.
    sent: Option<(ServedSnapshot, u64)>,
    /// When the source was last told how far the peer has written, and how far that was.
    told: Option<(Instant, u64)>,
}

impl Serving<'_> {
    /// Answers until the peer closes between two messages.
    async fn run(&mut self) -> Result<(), End> {
        while let Some(fetch) = self.next_fetch().await? {
            let mut sent = self.begin(&fetch)?;
            self.tell(&fetch);
            while sent < fetch.until {
                let room = usize::try_from(fetch.until - sent).unwrap_or(usize::MAX);
                sent += self.send_part(&fetch.snapshot, sent, room).await? as u64;
                self.sent = Some((fetch.snapshot, sent));
            }
        }
        Ok(())
    }

    /// Lets the peer read the last word: to close while words of its own are unread would reset the connection under it.
    async fn wait_for_close(&mut self) {
        self.frame.resize(PART_OFFSET, 0);
        let read = async {
            self.stream.shutdown().await?;
            while self.stream.read(&mut self.frame).await? > 0 {}
            Ok::<(), io::Error>(())
        };
        // However it ends, it has ended.
        let _ = timeout(self.timeout, read).await;
    }

    async fn next_fetch(&mut self) -> Result<Option<Fetch>, End> {
        let read = async {
            loop {
                if let Some(message) = self.reader.next_message()? {
                    return Ok(Some(Fetch::decode(&message.body)?));
                }
                if self.reader.fill(&mut self.stream).await? == Fill::Closed {
                    let orderly = self.reader.is_between_messages();
                    return if orderly { Ok(None) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) };
                }
            }
        };
        timeout(self.timeout, read).await.unwrap_or(Err(End::Idle))
    }

    /// Where to go on. A connection pulls one snapshot, forward: what was sent by it is not sent by it again.
    fn begin(&self, fetch: &Fetch) -> Result<u64, End> {
        let Some((snapshot, sent)) = self.sent else { return Ok(fetch.written) };
        if snapshot != fetch.snapshot {
            return Err(WireError::Meaningless { what: "snapshot id of a fetch", value: fetch.snapshot.id.0 }.into());
        }
        if fetch.written > sent || fetch.until < sent {
            return Err(WireError::Meaningless { what: "window of a fetch", value: fetch.written }.into());
        }
        Ok(sent)
    }

    /// Tells the source that the peer goes on, if it does and not too often.
    fn tell(&mut self, fetch: &Fetch) {
        let interval = Duration::from_millis(limits::HEARTBEAT_INTERVAL_MS);
        let now = Instant::now();
        let due = self.told.is_none_or(|(at, written)| fetch.written > written && now.duration_since(at) >= interval);
        if due && self.source.served(self.peer, fetch.snapshot.id) == Some(fetch.snapshot) {
            self.told = Some((now, fetch.written));
            self.source.pulled(self.peer, fetch.snapshot.id, fetch.written);
        }
    }

    /// Sends one part of at most so many bytes and gives how many it has.
    async fn send_part(&mut self, snapshot: &ServedSnapshot, offset: u64, room: usize) -> Result<usize, End> {
        let part_bytes = self.hub.transfers.throttle.lock().part_bytes(self.hub.options.snapshot_connections);
        let (outcome, length) = match self.source.served(self.peer, snapshot.id) {
            None => (Outcome::Gone, 0),
            Some(served) if served != *snapshot => (Outcome::Different, 0),
            Some(_) => self.read(snapshot, offset, room.min(part_bytes)),
        };
        let pause = self.hub.transfers.throttle.lock().take(Instant::now(), length);
        if !pause.is_zero() {
            sleep(pause).await;
        }
        self.frame.truncate(PART_OFFSET + length);
        self.write(snapshot.id, snapshot.length_bytes, offset, outcome).await?;
        match outcome {
            Outcome::Data => Ok(length),
            Outcome::Gone => Err(End::Answered("gone")),
            Outcome::Different => Err(End::Answered("it has another position or length")),
            Outcome::Failed => Err(End::Answered("it cannot be read")),
        }
    }

    /// Reads a part to its place in the frame.
    fn read(&mut self, snapshot: &ServedSnapshot, offset: u64, room: usize) -> (Outcome, usize) {
        self.frame.resize(PART_OFFSET + room, 0);
        let error = match self.source.read(snapshot.id, offset, &mut self.frame[PART_OFFSET..]) {
            Ok(length) if (1..=room).contains(&length) => return (Outcome::Data, length),
            Ok(_) => SourceError::Failed(format!("it ends at byte {offset} of {}", snapshot.length_bytes)),
            Err(error) => error,
        };
        if error == SourceError::Gone {
            return (Outcome::Gone, 0);
        }
        if let Some(more) = self.hub.log_line(Topic::Transfer(self.peer)) {
            let replica = self.hub.identity.replica;
            tracing::error!(%replica, peer = %self.peer, position = %snapshot.position, "a snapshot is not served: {error}{more}");
        }
        (Outcome::Failed, 0)
    }

    /// Writes the frame, whose part is in its place.
    async fn write(&mut self, id: SnapshotId, length_bytes: u64, offset: u64, outcome: Outcome) -> Result<(), End> {
        self.frame.resize(self.frame.len().max(PART_OFFSET), 0);
        let (front, part) = self.frame.split_at_mut(PART_OFFSET);
        let chunk_header = Chunk::encode_header(id, length_bytes, offset, outcome);
        let body_length = CHUNK_HEADER_BYTES + part.len();
        let header = FrameHeader {
            lane: Lane::Snapshot,
            kind: FrameKind::Chunk,
            more: false,
            continued: false,
            head_length: 0,
            body_length,
            total_length: body_length,
        };
        front[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode([&chunk_header[..], part]));
        front[FRAME_HEADER_BYTES..].copy_from_slice(&chunk_header);
        let bytes = part.len() as u64;
        let written = timeout(self.timeout, self.stream.write_all(&self.frame)).await;
        written.map_err(|_| End::NotTaken)??;
        add(&self.hub.transfers.counters.sent_bytes, bytes);
        Ok(())
    }
}
