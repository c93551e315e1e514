//! The door: accepts connections, lets them shake hands within their time, and keeps it open whatever stands in it.

use crate::client_session;
use crate::exchange;
use crate::handshake::{AboutPeer, ClientWelcome, HandshakeError, Hello, Refusal, RefusalCode, Role};
use crate::hub::{Hub, Topic};
use crate::peer;
use crate::reader::{Expected, FrameReader};
use crate::socket;
use crate::transfer;
use quorate_framework::ReplicaId;
use socket2::SockRef;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// Pause after an error of accept: most often too many descriptors are open, and some will be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections that may wait to be accepted: when a crowd comes at once, those beyond it try again only after a second.
const QUEUE: i32 = 1_024;
/// Connections closed to make room before their tasks are given a turn.
const CLOSED_AT_ONCE: usize = 16;

/// Accepts for as long as the communicator lives; an error only makes it pause.
pub(crate) async fn accept_all(hub: Arc<Hub>, listener: TcpListener) {
    // Calling it again only lengthens the queue. Where the system does not, the shorter one has to do.
    let _ = SockRef::from(&listener).listen(QUEUE);
    let mut closed = 0;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                closed += usize::from(admit(&hub, stream, address));
                if closed >= CLOSED_AT_ONCE {
                    // What was closed to make room keeps its descriptor until its task has had its turn.
                    closed = 0;
                    tokio::task::yield_now().await;
                }
            }
            Err(error) => {
                if let Some(more) = hub.log_line(Topic::Accept) {
                    tracing::warn!(replica = %hub.identity.replica, "cannot accept a connection: {error}{more}");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Starts a handshake. When too many are under way, the oldest of them goes, and true is given: who speaks at once comes in past any
/// number of those who do not.
fn admit(hub: &Arc<Hub>, stream: TcpStream, address: SocketAddr) -> bool {
    hub.counters.accepted();
    let mut registry = hub.registry.lock();
    let full = registry.unfinished.len() >= hub.options.unfinished_handshakes;
    if full && let Some((_, oldest)) = registry.unfinished.pop_front() {
        oldest.abort();
        hub.counters.refused();
    }
    let number = registry.next_number();
    let task = tokio::spawn(serve(Arc::clone(hub), stream, address, number));
    registry.unfinished.push_back((number, task.abort_handle()));
    full
}

/// Who stands in the door after the handshake.
enum Visitor {
    Peer(ReplicaId, AboutPeer),
    Client,
    Transfer(ReplicaId),
}

async fn serve(hub: Arc<Hub>, mut stream: TcpStream, address: SocketAddr, number: u64) {
    let mut reader = FrameReader::new(Expected::Handshake);
    let shaken = timeout(hub.options.handshake_timeout, shake_hands(&hub, &mut stream, &mut reader)).await;
    {
        let mut registry = hub.registry.lock();
        let place = registry.unfinished.iter().position(|(of, _)| *of == number);
        // Without a place it was closed to make room, in the very moment in which it was done.
        let Some(place) = place else { return };
        registry.unfinished.remove(place);
    }
    match shaken.unwrap_or(Err(HandshakeError::TimedOut)) {
        Ok(Visitor::Peer(from, about)) => peer::run(&hub, from, stream, reader, &about).await,
        Ok(Visitor::Transfer(from)) => transfer::serve(&hub, from, stream, reader),
        Ok(Visitor::Client) => client_session::run(&hub, stream, reader).await,
        Err(error) => {
            hub.counters.refused();
            if let Some(more) = hub.log_line(Topic::Door) {
                tracing::warn!(replica = %hub.identity.replica, %address, "connection not accepted: {error}{more}");
            }
        }
    }
}

async fn shake_hands(hub: &Hub, stream: &mut TcpStream, reader: &mut FrameReader) -> Result<Visitor, HandshakeError> {
    stream.set_nodelay(true)?;
    let hello = exchange::accept_hello(stream, reader).await?;
    if let Err(refusal) = judge(hub, &hello) {
        if let Role::Peer { from, .. } = hello.role {
            hub.note_trouble(from, refusal.to_string());
        }
        return Err(exchange::send_refusal(stream, refusal).await);
    }
    match hello.role {
        Role::Peer { from, about, .. } => {
            socket::prepare_peer(stream, hub.options.silence_timeout)?;
            let confirmed = exchange::welcome_peer(stream, reader, hub.about()).await;
            if let Err(error) = &confirmed {
                hub.note_trouble(from, error.to_string());
            }
            confirmed?;
            Ok(Visitor::Peer(from, about))
        }
        Role::Transfer { from, .. } => {
            socket::prepare_peer(stream, hub.options.silence_timeout)?;
            exchange::welcome_peer(stream, reader, hub.about()).await?;
            Ok(Visitor::Transfer(from))
        }
        Role::Client => {
            socket::prepare_client(stream)?;
            let welcome = ClientWelcome { replica: hub.identity.replica, cluster: hub.identity.cluster };
            exchange::welcome_client(stream, welcome).await?;
            Ok(Visitor::Client)
        }
    }
}

fn judge(hub: &Hub, hello: &Hello) -> Result<(), Refusal> {
    hub.identity.judge(hello)?;
    match &hello.role {
        Role::Peer { from, about, .. } => hub.admit(*from, about),
        Role::Transfer { from, about, .. } => {
            hub.admit(*from, about)?;
            hub.admit_transfer(*from, &about.claim)
        }
        Role::Client if hub.has_room_for_client() => Ok(()),
        Role::Client => {
            let reason = format!("replica {} has too many connections of clients", hub.identity.replica);
            Err(Refusal { code: RefusalCode::TooManyConnections, reason })
        }
    }
}
