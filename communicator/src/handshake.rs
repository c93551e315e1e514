//! The words of the handshake: who is there, and whether the two may talk. [`crate::exchange`] sends and reads them.
//!
//! ```text
//! dialler  ── Hello ──▶  acceptor        magic, version, cluster, role, ids, claim, agreement
//! dialler  ◀─ Answer ──  acceptor        welcome with the same of the acceptor, or a refusal that says why
//! dialler  ── Confirm ─▶ acceptor        (replicas only) the dialler keeps the connection, or refuses in its turn
//! ```
//! The acceptor counts a peer's connection as up only with the confirmation: a dialler that gave up long ago, whose words were still
//! waiting in the socket, never makes a link look alive. A refusal is a text for both sides' logs and a code.

use crate::agreement::{Agreement, describe};
use quorate_framework::{ClusterId, MemberClaim, ReplicaId, WireError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use thiserror::Error;

/// The version of the handshake and of all that follows it.
pub const PROTOCOL_VERSION: u32 = 1;

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
    /// A replica that pulls a snapshot, on a connection of its own, whoever has the higher id.
    Transfer {
        /// Its id.
        from: ReplicaId,
        /// Whom it means to have dialled.
        to: ReplicaId,
        /// The rest about it.
        about: AboutPeer,
    },
}

/// What the two replicas tell each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutPeer {
    /// What it claims to be. The communicator carries it and judges only the start counter.
    pub claim: MemberClaim,
    /// What must agree.
    pub agreement: Agreement,
}

/// The acceptor's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// To a replica.
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

    /// What it says first on a connection by which it pulls a snapshot.
    #[must_use]
    pub fn hello_for_transfer(&self, to: ReplicaId, claim: MemberClaim) -> Hello {
        let role = Role::Transfer { from: self.replica, to, about: self.about(claim) };
        Hello { cluster: Some(self.cluster), role }
    }

    /// What this replica tells of itself.
    #[must_use]
    pub fn about(&self, claim: MemberClaim) -> AboutPeer {
        AboutPeer { claim, agreement: self.agreement.clone() }
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
        let (Role::Peer { from, to, about } | Role::Transfer { from, to, about }) = &hello.role else { return Ok(()) };
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
        if *from < me && matches!(hello.role, Role::Peer { .. }) {
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
