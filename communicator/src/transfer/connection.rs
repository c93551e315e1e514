//! One connection by which a snapshot is pulled.

use crate::exchange;
use crate::frame::{FrameHeader, FrameKind};
use crate::handshake::{AboutPeer, HandshakeError, Refusal, RefusalCode};
use crate::hub::Hub;
use crate::reader::{Expected, Fill, FrameReader};
use crate::socket;
use crate::transfer::figures::add;
use crate::transfer::message::{Chunk, Fetch, Outcome, WINDOW_BYTES};
use crate::transfer::pull::{PullError, PullOrder, SnapshotSink};
use quorate_framework::{Lane, WireError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Connections that may be silent, one after the other, before the transfer as a whole counts as stalled.
const CONNECTIONS_PER_STALL: u32 = 3;

/// Why a connection has ended before the snapshot was complete.
#[derive(Debug)]
pub(super) enum Broken {
    /// For good.
    Final(PullError),
    /// Another connection may bring more.
    Lost(String),
    /// What came does not belong.
    Damaged(WireError),
}

/// How far a pull has come.
pub(super) struct Progress {
    /// Bytes from the beginning that are written.
    pub(super) written: u64,
    /// The same, for others to see.
    pub(super) shown: Arc<AtomicU64>,
    /// When something was last written, or the pull began.
    pub(super) moved: Instant,
}

/// Pulls by one connection until the snapshot is complete or the connection ends.
pub(super) async fn pull(
    hub: &Hub,
    order: &PullOrder,
    address: &str,
    sink: &mut dyn SnapshotSink,
    progress: &mut Progress,
) -> Result<(), Broken> {
    add(&hub.transfers.counters.dials, 1);
    let left = time_left(hub, progress);
    let dialled = timeout(left.min(hub.options.handshake_timeout), dial(hub, order, address)).await;
    let (stream, mut reader) = dialled.unwrap_or(Err(HandshakeError::TimedOut)).map_err(broken_by_handshake)?;
    reader.expect(Expected::Chunks);
    add(&hub.transfers.counters.connections_pulled, 1);
    let mut pulling = Pulling { hub, order, sink, progress, stream, reader, asked: 0 };
    pulling.run().await
}

fn time_left(hub: &Hub, progress: &Progress) -> Duration {
    hub.options.snapshot_stall_timeout.saturating_sub(progress.moved.elapsed())
}

fn broken_by_handshake(error: HandshakeError) -> Broken {
    let passing = |code| matches!(code, RefusalCode::TooManyConnections | RefusalCode::Stopping);
    match error {
        HandshakeError::RefusedByOther(refusal) if passing(refusal.code) => Broken::Lost(refusal.reason),
        HandshakeError::RefusedByOther(refusal) | HandshakeError::Refused(refusal) => {
            Broken::Final(PullError::Refused(refusal))
        }
        HandshakeError::Wire(error) => Broken::Damaged(error),
        other => Broken::Lost(other.to_string()),
    }
}

/// Connects and shakes hands with the very incarnation that was meant.
async fn dial(hub: &Hub, order: &PullOrder, address: &str) -> Result<(TcpStream, FrameReader), HandshakeError> {
    let mut stream = TcpStream::connect(address).await?;
    socket::prepare_peer(&stream, hub.options.silence_timeout)?;
    let mut reader = FrameReader::new(Expected::Handshake);
    let hello = hub.identity.hello_for_transfer(order.from, *hub.claim.lock());
    let about = exchange::ask_peer(&mut stream, &mut reader, &hello).await?;
    exchange::confirm(&mut stream, judge(hub, order, &about)).await?;
    Ok((stream, reader))
}

fn judge(hub: &Hub, order: &PullOrder, about: &AboutPeer) -> Result<(), Refusal> {
    hub.identity.judge_agreement(order.from, about)?;
    if about.claim.incarnation != order.incarnation {
        let reason = format!(
            "the snapshot was announced by incarnation {} of replica {}, and incarnation {} has answered",
            order.incarnation, order.from, about.claim.incarnation
        );
        return Err(Refusal { code: RefusalCode::NotAdmitted, reason });
    }
    hub.admit(order.from, about)
}

struct Pulling<'a> {
    hub: &'a Hub,
    order: &'a PullOrder,
    sink: &'a mut dyn SnapshotSink,
    progress: &'a mut Progress,
    stream: TcpStream,
    reader: FrameReader,
    /// The end of what was asked for on this connection.
    asked: u64,
}

impl Pulling<'_> {
    async fn run(&mut self) -> Result<(), Broken> {
        while self.progress.written < self.order.snapshot.length_bytes {
            let silence = self.hub.options.snapshot_stall_timeout / CONNECTIONS_PER_STALL;
            let time = silence.min(time_left(self.hub, self.progress));
            let lost = || Broken::Lost("nothing has come from the source for a while".into());
            let chunk = timeout(time, self.next_chunk()).await.map_err(|_| lost())??;
            self.take(&chunk)?;
        }
        // The source sees an orderly end; that it may be gone by now changes nothing.
        let _ = self.stream.shutdown().await;
        Ok(())
    }

    /// Asks for as much as may be under way, and waits for the next part.
    async fn next_chunk(&mut self) -> Result<Chunk, Broken> {
        let snapshot = self.order.snapshot;
        let written = self.progress.written;
        let until = snapshot.length_bytes.min(written + WINDOW_BYTES);
        if until > self.asked {
            let body = Fetch { snapshot, written, until }.encode();
            let header = FrameHeader {
                lane: Lane::Snapshot,
                kind: FrameKind::Fetch,
                more: false,
                continued: false,
                head_length: 0,
                body_length: body.len(),
                total_length: body.len(),
            };
            let frame = [&header.encode([&body[..]])[..], &body].concat();
            self.stream.write_all(&frame).await.map_err(|error| Broken::Lost(error.to_string()))?;
            self.asked = until;
        }
        loop {
            if let Some(message) = self.reader.next_message().map_err(Broken::Damaged)? {
                return Chunk::decode(message.body).map_err(Broken::Damaged);
            }
            match self.reader.fill(&mut self.stream).await {
                Ok(Fill::Read { .. }) => {}
                Ok(Fill::Closed) => return Err(Broken::Lost("closed by the source".into())),
                Err(error) => return Err(Broken::Lost(error.to_string())),
            }
        }
    }

    /// Checks a part and writes it.
    fn take(&mut self, chunk: &Chunk) -> Result<(), Broken> {
        let written = self.progress.written;
        chunk.check(&self.order.snapshot, written, self.asked).map_err(Broken::Damaged)?;
        match chunk.outcome {
            Outcome::Data => {}
            Outcome::Gone => return Err(Broken::Final(PullError::Gone)),
            Outcome::Different => return Err(Broken::Final(PullError::Different)),
            Outcome::Failed => return Err(Broken::Final(PullError::SourceFailed)),
        }
        let failed = |error: std::io::Error| Broken::Final(PullError::Sink(error.to_string()));
        self.sink.write(written, &chunk.bytes).map_err(failed)?;
        let bytes = chunk.bytes.len() as u64;
        self.progress.written += bytes;
        self.progress.shown.store(self.progress.written, Ordering::Relaxed);
        self.progress.moved = Instant::now();
        add(&self.hub.transfers.counters.written_bytes, bytes);
        Ok(())
    }
}
