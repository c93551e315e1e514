//! The client's end of a connection to a replica.

use crate::bounds::CLIENT_OUTBOX;
use crate::client_traffic;
use crate::exchange;
use crate::frame::{FRAME_HEADER_BYTES, FrameKind};
use crate::handshake::{ClientWelcome, HandshakeError};
use crate::hub::client_bounds;
use crate::outbox::{Outbox, QueueError};
use crate::outgoing::Message;
use crate::reader::{Expected, Fill, FrameReader};
use crate::reason::DisconnectReason;
use crate::socket;
use crate::traffic::{TrafficCounters, TrafficFigures};
use bytes::Bytes;
use quorate_framework::{ClusterId, Encoded, Lane, ReplyHeader, WireError, limits};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::timeout;

/// Why a request was not queued; the connection stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientSendError {
    /// The connection is closed, or too much waits to be written already.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// No replica would accept the request.
    #[error("no replica would accept the request: {0}")]
    Wire(#[from] WireError),
}

/// Closes the connection when both halves are gone.
#[derive(Debug)]
struct Guard {
    outbox: Outbox,
    counters: Arc<TrafficCounters>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.outbox.close(DisconnectReason::Requested);
        client_traffic::ended(&self.counters);
    }
}

/// The sending half of a client's connection; clones send on the same connection.
#[derive(Clone, Debug)]
pub struct ClientSender {
    guard: Arc<Guard>,
}

/// The receiving half of a client's connection.
#[derive(Debug)]
pub struct ClientReceiver {
    guard: Arc<Guard>,
    pub(crate) half: OwnedReadHalf,
    reader: FrameReader,
    /// Why the connection ended, once it has.
    ended: Option<DisconnectReason>,
}

/// Connects to a replica at `host:port` and shakes hands, within `time_limit` in all. A cluster that is named must be the replica's.
///
/// # Errors
/// [`HandshakeError`].
pub async fn connect_client(
    address: &str,
    cluster: Option<ClusterId>,
    time_limit: Duration,
) -> Result<(ClientSender, ClientReceiver, ClientWelcome), HandshakeError> {
    let shaken = timeout(time_limit, async {
        let mut stream = TcpStream::connect(address).await?;
        socket::prepare_client(&stream)?;
        let mut reader = FrameReader::new(Expected::Handshake);
        let welcome = exchange::ask_as_client(&mut stream, &mut reader, cluster).await?;
        Ok::<_, HandshakeError>((stream, reader, welcome))
    });
    let (stream, mut reader, welcome) = shaken.await.unwrap_or(Err(HandshakeError::TimedOut))?;
    reader.expect(Expected::Replies);
    let (half, write_half) = stream.into_split();
    let counters = Arc::<TrafficCounters>::default();
    client_traffic::began(&counters);
    let outbox = Outbox::new(write_half, client_bounds(CLIENT_OUTBOX), Arc::clone(&counters));
    let guard = Arc::new(Guard { outbox, counters });
    Ok((ClientSender { guard: Arc::clone(&guard) }, ClientReceiver { guard, half, reader, ended: None }, welcome))
}

impl ClientSender {
    /// Queues a request (a whole client frame, header included) without writing it: many requests of one turn leave in one write by
    /// [`ClientSender::flush`]. A small one is copied, a large one shared. Never blocks.
    ///
    /// # Errors
    /// [`ClientSendError`]: nothing was queued, so it was certainly not sent.
    pub fn queue(&self, request: &Bytes) -> Result<(), ClientSendError> {
        let outbox = &self.guard.outbox;
        if !request.is_empty() && request.len() + FRAME_HEADER_BYTES < limits::SHARED_PAYLOAD_BYTES {
            outbox.queue_small(Lane::Client, FrameKind::Request, &[request])?;
            return Ok(());
        }
        let encoded = Encoded { head: Bytes::new(), body: vec![request.clone()] };
        outbox.queue(Message::new(Lane::Client, FrameKind::Request, encoded)?)?;
        Ok(())
    }

    /// Writes what is queued as far as the connection takes it; the rest follows by itself. Never blocks.
    pub fn flush(&self) {
        self.guard.outbox.flush();
    }

    /// Queues and flushes one request.
    ///
    /// # Errors
    /// As [`ClientSender::queue`].
    pub fn send(&self, request: &Bytes) -> Result<(), ClientSendError> {
        self.queue(request)?;
        self.flush();
        Ok(())
    }

    /// Messages and bytes that wait to be written.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.guard.outbox.waiting()
    }

    /// Closes the connection; the receiver then ends.
    pub fn close(&self) {
        self.guard.outbox.close(DisconnectReason::Requested);
    }

    /// What was counted on this connection so far.
    #[must_use]
    pub fn traffic(&self) -> TrafficFigures {
        self.guard.counters.figures()
    }
}

impl ClientReceiver {
    /// Waits until replies have come and appends all that one read brought. A reply below [`limits::SHARED_PAYLOAD_BYTES`] is a slice
    /// of the read buffer: copy what is kept. Cancelling it loses nothing.
    ///
    /// # Errors
    /// Why the connection ended; requests without a reply may or may not have happened.
    pub async fn replies(&mut self, output: &mut Vec<(ReplyHeader, Bytes)>) -> Result<(), DisconnectReason> {
        let before = output.len();
        if self.ended.is_none()
            && let Err(reason) = self.read(output, before).await
        {
            self.guard.outbox.close(reason.clone());
            self.ended = Some(self.guard.outbox.closed().unwrap_or(reason));
        }
        match &self.ended {
            Some(reason) if output.len() == before => Err(reason.clone()),
            // Replies that came before the end are not lost; the next call says how it ended.
            _ => Ok(()),
        }
    }

    async fn read(&mut self, output: &mut Vec<(ReplyHeader, Bytes)>, before: usize) -> Result<(), DisconnectReason> {
        loop {
            while let Some(message) = self.reader.next_message()? {
                output.push(ReplyHeader::decode(message.body)?);
            }
            if output.len() > before {
                self.guard.counters.received(Lane::Client as usize, output.len() - before);
                return Ok(());
            }
            let fill = self.reader.fill(&mut self.half).await?;
            let bytes = if let Fill::Read { bytes, .. } = fill { bytes } else { 0 };
            self.guard.counters.read(bytes, self.reader.take_empty_reads());
            match fill {
                Fill::Closed if self.reader.is_between_messages() => return Err(DisconnectReason::Closed),
                Fill::Closed => return Err(DisconnectReason::Cut),
                Fill::Read { .. } => {}
            }
        }
    }
}
