//! The seam: what a consensus protocol is.

use crate::effect::Effects;
use crate::event::Event;
use crate::ids::{Position, ReplicaId};
use crate::recovery::RecoverySpec;
use crate::time::Time;
use crate::verify::{Incoming, Verifier};
use crate::wire::Wire;
use serde::Serialize;
use std::fmt::Debug;
use std::hash::Hash;

/// A consensus protocol: events in, ordered effects out; nothing async, nothing blocking, no socket, file, thread, clock or random
/// generator inside.
///
/// # Rules
/// 1. What peers may rely on after a crash is a [`Consensus::Promise`]; it leaves only after the records it depends on are durable
///    (see [`Effects::promise`]). Everything else is a [`Consensus::Message`].
/// 2. Tickets are one total order; `Persisted(t)` means everything up to `t`.
/// 3. Order holds per peer and lane. Effects of one event take effect in order.
/// 4. Every proposal ends accepted or refused. What was accepted ends as its result or as unknown, also on step-down.
/// 5. The state is compared and hashed by model checkers: ordered collections only.
pub trait Consensus: Sized + Clone + Debug + Eq + Hash {
    /// What peers say; sent freely.
    type Message: Wire + Clone + Debug;
    /// What peers may rely on after a crash.
    type Promise: Wire + Clone + Debug;
    /// What must be durable.
    type Record: RecoverySpec;
    /// The checks before the core sees a message.
    type Verifier: Verifier<Incoming<Self::Message, Self::Promise>> + Debug;

    /// The name by which a configuration selects the protocol.
    const NAME: &'static str;

    /// Handles one event and adds what must be done to `effects`.
    fn on_event(&mut self, now: Time, event: Event<Self>, effects: &mut Effects<Self>);

    /// When the protocol wants a [`Event::Tick`] at the latest.
    fn next_deadline(&self) -> Option<Time>;

    /// How clients talk to this protocol.
    fn client_policy(&self) -> ClientPolicy;

    /// What this protocol can do beyond ordering.
    fn capabilities(&self) -> Capabilities;

    /// The checks as of now; later ones come as [`crate::effect::Effect::Verifier`].
    fn verifier(&self) -> Self::Verifier;

    /// A picture for operators. May cost; not for every turn.
    fn status(&self) -> ProtocolStatus;

    /// Checks the protocol's invariants; called in debug builds and simulations after each event.
    ///
    /// # Errors
    /// The broken invariant, by the name it has in the protocol's documentation, with figures.
    fn validate(&self) -> Result<(), String>;
}

/// To whom a client submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmitTo {
    /// To the leader, found by hints.
    Leader,
    /// To all replicas.
    All,
    /// To the replicas in turn.
    RoundRobin,
}

/// How clients talk to a protocol, and when they may believe an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ClientPolicy {
    /// First attempt.
    pub submit_to: SubmitTo,
    /// Further attempts after a time-out.
    pub on_timeout: SubmitTo,
    /// Equal committed replies of distinct replicas that settle a request.
    pub committed_replies: u32,
    /// Equal replies of any kind that settle it too, if speculation is on.
    pub mixed_replies: Option<u32>,
    /// Whether equal means the same block, too.
    pub match_block: bool,
    /// Equal leader hints before one is believed.
    pub hint_replies: u32,
}

impl ClientPolicy {
    /// Submit to the leader, look for another one after a time-out, and believe the first committed answer and the first hint: the
    /// policy of protocols whose replicas trust each other.
    #[must_use]
    pub fn trusting() -> ClientPolicy {
        ClientPolicy {
            submit_to: SubmitTo::Leader,
            on_timeout: SubmitTo::RoundRobin,
            committed_replies: 1,
            mixed_replies: None,
            match_block: false,
            hint_replies: 1,
        }
    }
}

/// What a protocol can do beyond ordering; asking for more gets a typed answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Capabilities {
    /// Change of members.
    pub membership: bool,
    /// Hand-over of leadership.
    pub transfer: bool,
    /// Linearizable reads without the log.
    pub read_index: bool,
    /// Reads under a lease.
    pub lease: bool,
    /// Reads at replicas that do not lead.
    pub follower_reads: bool,
    /// Snapshots to peers.
    pub snapshots: bool,
}

/// A picture of a protocol's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProtocolStatus {
    /// The role, in the protocol's own word.
    pub role: &'static str,
    /// Term or view.
    pub view: u64,
    /// Who leads.
    pub leader: Option<ReplicaId>,
    /// First position still held in memory.
    pub first: Position,
    /// Last position known.
    pub last: Position,
    /// Last durable position.
    pub persisted: Position,
    /// Last committed position.
    pub committed: Position,
    /// Memory pinned by the log, in bytes.
    pub log_memory_bytes: u64,
    /// How the peers do, as the leader sees it.
    pub peers: Vec<PeerStatus>,
    /// Named counters of the protocol.
    pub counters: Vec<(&'static str, u64)>,
}

/// How a peer does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerStatus {
    /// The peer.
    pub id: ReplicaId,
    /// Its state, in the protocol's own word.
    pub state: &'static str,
    /// Whether a link is up.
    pub connected: bool,
    /// Highest position it is known to hold.
    pub matched: Position,
    /// Next position to be sent.
    pub next: Position,
    /// Messages in flight.
    pub in_flight_messages: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
}
