//! What a turn wants done.

use super::snapshots::{PlacedOrder, SnapshotTask};
use quorate_framework::{
    ClientReply, Consensus, ExecutorCommand, HaltReason, LinkId, MemberClaim, MemberVector, Observation,
    OperationError, OperationId, PeerFrame, ReplicaId, Ticket,
};

/// A link that must be closed: the peer broke the rules or may not take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// The peer.
    pub peer: ReplicaId,
    /// Which link: another link of the same peer stays.
    pub link: LinkId,
    /// Why, for the log and for the peer.
    pub reason: String,
}

/// All that turns want done, appended by each; the shell carries it out in the order of the fields and empties it with
/// [`TurnOutput::clear`], which keeps the memory.
#[derive(Debug)]
pub struct TurnOutput<C: Consensus> {
    /// From now on this is the claim in handshakes. (Linked peers are told by frames.)
    pub claim: Option<MemberClaim>,
    /// Frames to peers, in order.
    pub frames: Vec<PeerFrame>,
    /// Links to be closed, after the frames.
    pub disconnect: Vec<Disconnect>,
    /// Records to be made durable, in the order of their tickets. Only with [`super::Durability::External`].
    pub records: Vec<(Ticket, C::Record)>,
    /// Member vectors to be made durable in the metadata, in the same ticket order. Only with [`super::Durability::External`].
    pub identity: Vec<(Ticket, MemberVector)>,
    /// Orders to the executor; its outcome goes to [`super::Driver::executed`].
    pub commands: Vec<ExecutorCommand>,
    /// Orders about snapshots that have their place among the commands. Only with [`super::DriverSettings::snapshots`].
    pub orders: Vec<PlacedOrder>,
    /// What is to be done about snapshots at once. Only with [`super::DriverSettings::snapshots`].
    pub tasks: Vec<SnapshotTask>,
    /// Answers to clients.
    pub replies: Vec<ClientReply>,
    /// Answers to operators.
    pub operated: Vec<(OperationId, Result<(), OperationError>)>,
    /// Proofs that a replica broke the protocol, for the log.
    pub evidence: Vec<(ReplicaId, String)>,
    /// Measurements, for metrics.
    pub observations: Vec<Observation>,
    /// The replica must stop; set by every turn from then on.
    pub halt: Option<HaltReason>,
}

impl<C: Consensus> Default for TurnOutput<C> {
    fn default() -> TurnOutput<C> {
        TurnOutput {
            claim: None,
            frames: Vec::new(),
            disconnect: Vec::new(),
            records: Vec::new(),
            identity: Vec::new(),
            commands: Vec::new(),
            orders: Vec::new(),
            tasks: Vec::new(),
            replies: Vec::new(),
            operated: Vec::new(),
            evidence: Vec::new(),
            observations: Vec::new(),
            halt: None,
        }
    }
}

impl<C: Consensus> TurnOutput<C> {
    /// Nothing to be done.
    #[must_use]
    pub fn new() -> TurnOutput<C> {
        TurnOutput::default()
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.claim = None;
        self.frames.clear();
        self.disconnect.clear();
        self.records.clear();
        self.identity.clear();
        self.commands.clear();
        self.orders.clear();
        self.tasks.clear();
        self.replies.clear();
        self.operated.clear();
        self.evidence.clear();
        self.observations.clear();
        self.halt = None;
    }
}
