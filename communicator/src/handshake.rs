//! The handshake: who is there, and whether the two may talk.
//!
//! ```text
//! dialler  ── Hello ──▶  acceptor        magic, version, cluster, role, ids, claim, agreement
//! dialler  ◀─ Answer ──  acceptor        welcome with the same of the acceptor, or a refusal that says why
//! dialler  ── Confirm ─▶ acceptor        (peers only) the dialler keeps the connection, or refuses in its turn
//! ```
//! The acceptor counts a peer's connection as up only with the confirmation: a dialler that gave up long ago, whose words were still
//! waiting in the socket, never makes a link look alive. A refusal is a text for both sides' logs and a code.

use crate::agreement::{Agreement, describe};
use crate::frame::{FrameHeader, FrameKind};
use crate::reader::{Fill, FrameReader};
use bytes::Bytes;
use quorate_framework::{ClusterId, Digest, Incarnation, Lane, ReplicaId, WireError, control};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const MAGIC: [u8; 8] = *b"quorate\n";
/// The version of the handshake and of all that follows it.
pub const PROTOCOL_VERSION: u32 = 1;

/// How far a replica is in forming the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemberState {
    /// Waiting for all members.
    #[default]
    Forming,
    /// Bound to a member vector.
    Formed,
}

/// What a replica says of itself. The communicator carries it and judges only the start counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberClaim {
    /// Which life of its data it is.
    pub incarnation: Incarnation,
    /// Forming or formed.
    pub state: MemberState,
    /// Digest of the member vector it is formed on; zeros while forming.
    pub vector_digest: Digest,
    /// How often this incarnation was started, raised durably before each start's first handshake.
    pub start_counter: u64,
}

/// What a replica knows about itself and its cluster: what each handshake is judged by.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// This replica.
    pub replica: ReplicaId,
    /// All members, this replica among them.
    pub members: BTreeSet<ReplicaId>,
    /// What peers must agree on.
    pub agreement: Agreement,
    /// Drawn at random when the process starts: tells its reconnects from another start.
    pub start_nonce: u64,
}

/// The first words of a dialler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The cluster it means; a client may not know it.
    pub cluster: Option<ClusterId>,
    /// Who it is.
    pub role: Role,
}

/// Who dials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// A replica.
    Peer {
        /// Its id.
        from: ReplicaId,
        /// Whom it means to have dialled.
        to: ReplicaId,
        /// The rest about it.
        about: AboutPeer,
    },
    /// A client.
    Client,
}

/// What the two replicas tell each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutPeer {
    /// Drawn at random when the process started.
    pub start_nonce: u64,
    /// What it claims to be.
    pub claim: MemberClaim,
    /// What must agree.
    pub agreement: Agreement,
}

/// The acceptor's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// To a peer.
    Peer(AboutPeer),
    /// To a client.
    Client(ClientWelcome),
    /// To whom it will not talk.
    Refused(Refusal),
}

/// What a client learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientWelcome {
    /// The replica it has reached.
    pub replica: ReplicaId,
    /// Its cluster.
    pub cluster: ClusterId,
}

/// Why a replica will not talk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The kind.
    pub code: RefusalCode,
    /// For people, on both sides.
    pub reason: String,
}

/// The kinds of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RefusalCode {
    /// Another version of the protocol.
    Version,
    /// Another cluster.
    WrongCluster,
    /// Another replica was meant.
    WrongReplica,
    /// The dialler is not a member.
    UnknownReplica,
    /// The dialler has this replica's own id.
    SelfDial,
    /// The replica with the higher id dials, and this was the other one.
    WrongDirection,
    /// Settings that must agree differ.
    SettingsDiffer,
    /// An equal or higher start counter of this incarnation was seen from another start.
    CopiedIncarnation,
    /// The node will not have this claim.
    NotAdmitted,
    /// Too many connections.
    TooManyConnections,
    /// The replica is stopping.
    Stopping,
}

/// Why a handshake ended without a connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Failed(String),
    /// The other side closed it.
    #[error("closed by the other side before the handshake was done")]
    Closed,
    /// It took too long.
    #[error("no handshake in time")]
    TimedOut,
    /// What came was no handshake.
    #[error("not a handshake of this program: {0}")]
    Wire(#[from] WireError),
    /// The other side will not talk.
    #[error("refused by the other side: {0}")]
    RefusedByOther(Refusal),
    /// This side will not talk.
    #[error("refused: {0}")]
    Refused(Refusal),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> HandshakeError {
        HandshakeError::Failed(error.to_string())
    }
}

fn refuse<T>(code: RefusalCode, reason: String) -> Result<T, Refusal> {
    Err(Refusal { code, reason })
}

impl Identity {
    /// What the dialler says first.
    #[must_use]
    pub fn hello(&self, to: ReplicaId, claim: MemberClaim) -> Hello {
        let role = Role::Peer { from: self.replica, to, about: self.about(claim) };
        Hello { cluster: Some(self.cluster), role }
    }

    /// What this replica tells of itself.
    #[must_use]
    pub fn about(&self, claim: MemberClaim) -> AboutPeer {
        AboutPeer { start_nonce: self.start_nonce, claim, agreement: self.agreement.clone() }
    }

    /// Whether to talk to whoever said this.
    ///
    /// # Errors
    /// The [`Refusal`] for both sides.
    pub fn judge(&self, hello: &Hello) -> Result<(), Refusal> {
        let me = self.replica;
        if let Some(cluster) = hello.cluster
            && cluster != self.cluster
        {
            let reason = format!("wrong cluster: {cluster} was meant, replica {me} belongs to {}", self.cluster);
            return refuse(RefusalCode::WrongCluster, reason);
        }
        let Role::Peer { from, to, about } = &hello.role else { return Ok(()) };
        if hello.cluster.is_none() {
            return refuse(RefusalCode::WrongCluster, format!("replica {from} names no cluster"));
        }
        if *from == me {
            let reason = format!("replica {me} was dialled by itself, or by another process that has its id");
            return refuse(RefusalCode::SelfDial, reason);
        }
        if *to != me {
            let reason = format!("wrong replica: replica {from} meant {to} and has reached {me}; check host and port");
            return refuse(RefusalCode::WrongReplica, reason);
        }
        if !self.members.contains(from) {
            return refuse(
                RefusalCode::UnknownReplica,
                format!("replica {from} is not a member known to replica {me}"),
            );
        }
        if *from < me {
            let reason = format!("replica {from} has dialled replica {me}; the one with the higher id dials");
            return refuse(RefusalCode::WrongDirection, reason);
        }
        self.judge_agreement(*from, about)
    }

    /// Whether the settings that must agree do.
    ///
    /// # Errors
    /// The [`Refusal`] that names each difference.
    pub fn judge_agreement(&self, from: ReplicaId, about: &AboutPeer) -> Result<(), Refusal> {
        let differences = about.agreement.differences(&self.agreement);
        if differences.is_empty() {
            return Ok(());
        }
        let reason = format!(
            "settings of replica {from} (there) and replica {} (here) must agree and differ: {}",
            self.replica,
            describe(&differences)
        );
        refuse(RefusalCode::SettingsDiffer, reason)
    }
}

/// Sends one handshake frame.
async fn write<T: Serialize>(stream: &mut TcpStream, kind: FrameKind, value: &T) -> io::Result<()> {
    let mut body = MAGIC.to_vec();
    body.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    control::encode(value, &mut body);
    let header = FrameHeader {
        lane: Lane::Control,
        kind,
        more: false,
        continued: false,
        head_length: 0,
        body_length: body.len(),
        total_length: body.len(),
    };
    let mut frame = header.encode([&body[..]]).to_vec();
    frame.append(&mut body);
    stream.write_all(&frame).await
}

/// Waits for one handshake frame of a kind and gives what follows its magic and version.
async fn read(stream: &mut TcpStream, reader: &mut FrameReader, kind: FrameKind) -> Result<Bytes, HandshakeError> {
    let message = loop {
        if let Some(message) = reader.next_message()? {
            break message;
        }
        if reader.fill(stream).await? == Fill::Closed {
            return Err(HandshakeError::Closed);
        }
    };
    if message.kind != kind {
        return Err(WireError::Meaningless { what: "handshake frame", value: message.kind as u64 }.into());
    }
    let mut body = message.body;
    if body.len() < MAGIC.len() + 4 || body[..MAGIC.len()] != MAGIC {
        return Err(WireError::Meaningless { what: "handshake magic", value: body.len() as u64 }.into());
    }
    let rest = body.split_off(MAGIC.len() + 4);
    let version = body[MAGIC.len()..].first_chunk::<4>().map_or(0, |chunk| u32::from_le_bytes(*chunk));
    if version != PROTOCOL_VERSION {
        let reason = format!("the other side speaks version {version}, this side {PROTOCOL_VERSION}");
        return Err(HandshakeError::Refused(Refusal { code: RefusalCode::Version, reason }));
    }
    Ok(rest)
}

/// The acceptor's first half: reads the dialler's words.
///
/// # Errors
/// [`HandshakeError`]; a dialler of another version is told so.
pub async fn accept_hello(stream: &mut TcpStream, reader: &mut FrameReader) -> Result<Hello, HandshakeError> {
    match read(stream, reader, FrameKind::Hello).await {
        Ok(body) => Ok(control::decode("hello", &body)?),
        Err(HandshakeError::Refused(refusal)) => Err(send_refusal(stream, refusal).await),
        Err(error) => Err(error),
    }
}

/// Tells the dialler why, and gives the same for this side's log.
pub async fn send_refusal(stream: &mut TcpStream, refusal: Refusal) -> HandshakeError {
    // That the other side cannot be told changes nothing here.
    let _ = write(stream, FrameKind::Answer, &Answer::Refused(refusal.clone())).await;
    let _ = stream.shutdown().await;
    HandshakeError::Refused(refusal)
}

/// The acceptor's second half with a client.
///
/// # Errors
/// [`HandshakeError`].
pub async fn welcome_client(stream: &mut TcpStream, welcome: ClientWelcome) -> Result<(), HandshakeError> {
    Ok(write(stream, FrameKind::Answer, &Answer::Client(welcome)).await?)
}

/// The acceptor's second half with a peer: answers and waits for the confirmation.
///
/// # Errors
/// [`HandshakeError`], with the dialler's refusal if it sent one.
pub async fn welcome_peer(
    stream: &mut TcpStream,
    reader: &mut FrameReader,
    about: AboutPeer,
) -> Result<(), HandshakeError> {
    write(stream, FrameKind::Answer, &Answer::Peer(about)).await?;
    let body = read(stream, reader, FrameKind::Confirm).await?;
    match control::decode::<Option<Refusal>>("confirmation", &body)? {
        None => Ok(()),
        Some(refusal) => Err(HandshakeError::RefusedByOther(refusal)),
    }
}

async fn ask(stream: &mut TcpStream, reader: &mut FrameReader, hello: &Hello) -> Result<Answer, HandshakeError> {
    write(stream, FrameKind::Hello, hello).await?;
    let body = read(stream, reader, FrameKind::Answer).await?;
    match control::decode("answer", &body)? {
        Answer::Refused(refusal) => Err(HandshakeError::RefusedByOther(refusal)),
        answer => Ok(answer),
    }
}

/// A dialling replica's half up to the answer; [`confirm`] ends it.
///
/// # Errors
/// [`HandshakeError`], with the acceptor's refusal if it sent one.
pub async fn ask_peer(
    stream: &mut TcpStream,
    reader: &mut FrameReader,
    hello: &Hello,
) -> Result<AboutPeer, HandshakeError> {
    match ask(stream, reader, hello).await? {
        Answer::Peer(about) => Ok(about),
        _ => Err(WireError::Meaningless { what: "answer to a peer", value: 0 }.into()),
    }
}

/// A client's half.
///
/// # Errors
/// [`HandshakeError`], with the acceptor's refusal if it sent one.
pub async fn ask_as_client(
    stream: &mut TcpStream,
    reader: &mut FrameReader,
    cluster: Option<ClusterId>,
) -> Result<ClientWelcome, HandshakeError> {
    match ask(stream, reader, &Hello { cluster, role: Role::Client }).await? {
        Answer::Client(welcome) => Ok(welcome),
        _ => Err(WireError::Meaningless { what: "answer to a client", value: 0 }.into()),
    }
}

/// The dialler's last word: it keeps the connection, or refuses.
///
/// # Errors
/// [`HandshakeError`]; the refusal itself if there is one.
pub async fn confirm(stream: &mut TcpStream, verdict: Result<(), Refusal>) -> Result<(), HandshakeError> {
    let refusal = verdict.err();
    write(stream, FrameKind::Confirm, &refusal).await?;
    match refusal {
        None => Ok(()),
        Some(refusal) => {
            let _ = stream.shutdown().await;
            Err(HandshakeError::Refused(refusal))
        }
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
