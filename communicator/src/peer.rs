//! The life of a connection between replicas: dialled by the one with the higher id, accepted by the other.

use crate::exchange;
use crate::handshake::{AboutPeer, HandshakeError};
use crate::hub::{Hub, ReadHalf, Topic};
use crate::inbound::Refused;
use crate::outbox::Outbox;
use crate::reader::{Expected, FrameReader};
use crate::reason::DisconnectReason;
use crate::socket;
use quorate_framework::{LinkId, ReplicaId};
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Keeps a connection to a peer with a lower id: dials, talks until it ends, pauses, dials again.
pub(crate) async fn keep_dialled(hub: Arc<Hub>, peer: ReplicaId, address: String) {
    let mut backoff = hub.options.backoff_min;
    let mut failures = 0_u64;
    while !hub.is_stopping() {
        hub.counters.dialled();
        match timeout(hub.options.handshake_timeout, dial(&hub, peer, &address)).await {
            Ok(Ok((stream, reader, about))) => {
                failures = 0;
                let began = Instant::now();
                run(&hub, peer, stream, reader, &about).await;
                // A connection that never holds is not dialled ever so often.
                if began.elapsed() >= hub.options.backoff_max {
                    backoff = hub.options.backoff_min;
                }
            }
            Ok(Err(error)) => failed(&hub, peer, &address, &error, &mut failures),
            Err(_) => failed(&hub, peer, &address, &HandshakeError::TimedOut, &mut failures),
        }
        sleep(hub.jittered(backoff)).await;
        backoff = (backoff * 2).min(hub.options.backoff_max);
    }
}

fn failed(hub: &Hub, peer: ReplicaId, address: &str, error: &HandshakeError, failures: &mut u64) {
    *failures += 1;
    let is_news = hub.note_trouble(peer, error.to_string());
    if let Some(more) = hub.log_line_if(Topic::Trouble(peer), is_news) {
        let replica = hub.identity.replica;
        tracing::warn!(%replica, %peer, address, failures, "no connection: {error}{more}");
    }
}

/// Connects and shakes hands.
async fn dial(
    hub: &Hub,
    peer: ReplicaId,
    address: &str,
) -> Result<(TcpStream, FrameReader, AboutPeer), HandshakeError> {
    let mut stream = TcpStream::connect(address).await?;
    socket::prepare_peer(&stream, hub.options.silence_timeout)?;
    let mut reader = FrameReader::new(Expected::Handshake);
    let hello = hub.identity.hello(peer, *hub.claim.lock());
    let about = exchange::ask_peer(&mut stream, &mut reader, &hello).await?;
    let verdict = hub.identity.judge_agreement(peer, &about).and_then(|()| hub.admit(peer, &about));
    exchange::confirm(&mut stream, verdict).await?;
    Ok((stream, reader, about))
}

/// Talks on a connection whose handshake is done, until it ends.
pub(crate) async fn run(hub: &Hub, peer: ReplicaId, stream: TcpStream, mut reader: FrameReader, about: &AboutPeer) {
    let (mut read_half, write_half) = stream.into_split();
    let Some((link, outbox)) = hub.register_peer(peer, about, write_half) else { return };
    let mut link = Link { hub, peer, link, outbox };
    reader.expect(Expected::Peer);
    let reason = link.read_all(&mut reader, &mut read_half).await.err().unwrap_or(DisconnectReason::Closed);
    hub.unregister_peer(peer, link.link, &link.outbox, reason);
}

struct Link<'a> {
    hub: &'a Hub,
    peer: ReplicaId,
    link: LinkId,
    outbox: Outbox,
}

impl Link<'_> {
    async fn read_all(&mut self, reader: &mut FrameReader, half: &mut ReadHalf) -> Result<(), DisconnectReason> {
        let mut frames = Vec::new();
        loop {
            let mut per_lane = [0; 5];
            while let Some(message) = reader.next_message()? {
                per_lane[message.lane as usize] += 1;
                frames.push(message);
            }
            if !frames.is_empty() {
                for (lane, count) in per_lane.into_iter().enumerate().filter(|(_, count)| *count > 0) {
                    self.hub.counters.received(lane, count);
                }
                self.hub.inbound.peer_frames(self.peer, self.link, &mut frames).map_err(|refused| match refused {
                    Refused::Stale => DisconnectReason::Replaced,
                    Refused::Full(lane) => DisconnectReason::InboundFull(lane),
                })?;
            } else if let Some(lane) = reader.unfinished() {
                self.hub.inbound.peer_progress(self.peer, self.link, lane);
            }
            let fill = reader.fill(half).await?;
            if !self.hub.goes_on_after(fill, reader).await? {
                return Ok(());
            }
        }
    }
}
