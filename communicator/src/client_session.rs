//! The life of a client's connection at a replica.

use crate::hub::{Hub, ReadHalf};
use crate::outbox::Outbox;
use crate::reader::{Expected, Fill, FrameReader};
use crate::reason::DisconnectReason;
use bytes::Bytes;
use quorate_framework::{ClientFrame, ConnectionId, Lane, Position, ReplyHeader, ReplyKind, Status};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Takes requests from a connection whose handshake is done, until it ends.
pub(crate) async fn run(hub: &Hub, stream: TcpStream, mut reader: FrameReader) {
    let (mut read_half, write_half) = stream.into_split();
    let Some((connection, outbox)) = hub.register_client(write_half) else { return };
    reader.expect(Expected::Requests);
    reader.limit_by(Arc::clone(&hub.budget));
    let mut session = Session { hub, connection, outbox, deadline: None };
    let reason = session.read_all(&mut reader, &mut read_half).await.err().unwrap_or(DisconnectReason::Closed);
    tracing::debug!(%connection, "client disconnected: {}", session.outbox.closed().as_ref().unwrap_or(&reason));
    hub.unregister_client(connection, &session.outbox, reason);
}

struct Session<'a> {
    hub: &'a Hub,
    connection: ConnectionId,
    outbox: Outbox,
    /// When the large request that has begun must be complete.
    deadline: Option<Instant>,
}

impl Session<'_> {
    async fn read_all(&mut self, reader: &mut FrameReader, half: &mut ReadHalf) -> Result<(), DisconnectReason> {
        let mut requests = Vec::new();
        loop {
            while let Some(message) = reader.next_message()? {
                requests.push(ClientFrame::parse(message.body)?);
            }
            if !requests.is_empty() {
                self.deadline = None;
                self.hub.counters.received(Lane::Client as usize, requests.len());
                self.hub.inbound.client_requests(self.connection, &mut requests);
                self.answer_busy(&mut requests)?;
            }
            let fill = self.fill(reader, half).await?;
            if !self.hub.goes_on_after(fill, reader).await? {
                return Ok(());
            }
        }
    }

    /// One read. A large request that has begun must be complete in time, since it holds memory that others need.
    async fn fill(&mut self, reader: &mut FrameReader, half: &mut ReadHalf) -> Result<Fill, DisconnectReason> {
        if reader.unfinished().is_none() {
            self.deadline = None;
            return Ok(reader.fill(half).await?);
        }
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.hub.options.request_timeout);
        match timeout_at(deadline, reader.fill(half)).await {
            Ok(fill) => Ok(fill?),
            Err(_) => Err(DisconnectReason::RequestTimeout),
        }
    }

    /// The lane is full: what did not fit was certainly not proposed, and the client is told at once.
    fn answer_busy(&self, requests: &mut Vec<ClientFrame>) -> Result<(), DisconnectReason> {
        if requests.is_empty() {
            return Ok(());
        }
        self.hub.counters.busy(requests.len());
        for frame in requests.drain(..) {
            let header = ReplyHeader {
                status: Status::Busy,
                kind: ReplyKind::Committed,
                hint: None,
                session: frame.header.session,
                sequence: frame.header.sequence,
                position: Position::ZERO,
            };
            self.hub.queue_reply(&self.outbox, &header, Bytes::new())?;
        }
        self.outbox.flush();
        self.hub.bound_answers();
        Ok(())
    }
}
