//! What a protocol wants done. Effects of one event take effect in their order.

use crate::consensus::Consensus;
use crate::event::MemberVector;
use crate::execution::ExecuteRange;
use crate::ids::{BlockId, Digest, Position, ReplicaId};
use crate::proposal::{Accepted, OperationError, OperationId, Origin, Proposal, Read, Refusal};
use crate::recovery::SnapshotBase;
use crate::request::ClientFrame;
use crate::snapshot::{ServedSnapshot, SnapshotId};
use crate::ticket::{Ticket, TicketSequence};
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// To whom something is sent. Never to oneself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// One peer.
    One(ReplicaId),
    /// All peers.
    All,
    /// These peers.
    Set(Vec<ReplicaId>),
}

/// One thing to be done.
#[derive(Debug)]
pub enum Effect<C: Consensus> {
    /// Make a record durable; answered by `Persisted`.
    Persist {
        /// Its place in the order.
        ticket: Ticket,
        /// The record.
        record: C::Record,
    },
    /// Say something that promises nothing. Leaves at once.
    Send {
        /// To whom.
        to: Destination,
        /// What.
        message: C::Message,
    },
    /// Say something that peers may rely on after a crash. The driver holds it until `after` is durable; later messages pass it.
    Promise {
        /// To whom.
        to: Destination,
        /// What must be durable first.
        after: Ticket,
        /// What.
        promise: C::Promise,
    },
    /// These requests entered the order here; their origins wait.
    Accepted(Vec<Accepted>),
    /// A request that did not enter the order.
    Refused {
        /// Who asked.
        origin: Origin,
        /// Why.
        refusal: Refusal,
    },
    /// A pooled request (see [`Effects::pool`]) is given up: its origin is told that the outcome is unknown, since others may have
    /// got it. Nothing happens if it is not in the pool any more.
    Dropped {
        /// Who asked.
        origin: Origin,
    },
    /// Requests accepted here may or may not come to be executed: tell those that wait from this position on.
    Forsaken {
        /// First position concerned.
        from: Position,
    },
    /// Execute committed batches, and answer those that wait for them.
    Execute(ExecuteRange),
    /// Execute ahead of the commit in an overlay over `base`, and answer speculatively once `reply_after` is durable.
    Speculate {
        /// The block on whose state it is computed.
        base: BlockId,
        /// What to execute.
        range: ExecuteRange,
        /// What must be durable before the answers leave.
        reply_after: Ticket,
    },
    /// Drop every overlay above a position.
    Rollback {
        /// The last position that stays.
        to: Position,
    },
    /// Serve these reads once the state at `at` is executed.
    ServeRead {
        /// The reads.
        reads: Vec<Read>,
        /// The position that must be executed.
        at: Position,
    },
    /// The answer to an operator's wish.
    Operated {
        /// Its number.
        id: OperationId,
        /// How it ended.
        result: Result<(), OperationError>,
    },
    /// Take a snapshot once its position is executed, and before anything after it is: in its place among the execute orders. It
    /// becomes durable together with `base` in the metadata, in the order of tickets. Answered by `SnapshotTaken`, or by
    /// `SnapshotNotTaken`.
    TakeSnapshot {
        /// The position, and what the protocol must know of it at a start.
        base: SnapshotBase,
    },
    /// Everything up to here may go from the durable log: a snapshot covers it, and a tail was kept. Never above the last snapshot
    /// that was taken or installed.
    ForgetLog {
        /// The last position that may go.
        through: Position,
    },
    /// Make a snapshot ready for a peer and let it pull: the newest there is, or a new one if that is older than `at_least`. The
    /// peer is told by the protocol. Answered by `SnapshotReady` or `SnapshotUnready`.
    OfferSnapshot {
        /// The peer.
        to: ReplicaId,
        /// The oldest position that is of use.
        at_least: Position,
    },
    /// A peer needs the snapshot made ready for it no longer, or is given up: what is kept for it may go.
    WithdrawSnapshot {
        /// The peer.
        to: ReplicaId,
    },
    /// Pull a snapshot from a peer, check and sync it, and do not install it. It takes the place of whatever is being fetched; what
    /// came of the very same one is kept. Answered by `SnapshotFetched` or `SnapshotNotFetched`.
    FetchSnapshot {
        /// From whom.
        from: ReplicaId,
        /// Which.
        snapshot: ServedSnapshot,
    },
    /// The snapshot being fetched, or fetched and not installed, is of no use any more.
    CancelFetch,
    /// Install the snapshot that was fetched, in its place among the execute orders: nothing after it is executed on the old state.
    /// Its one commit point is the metadata that name `base`, written in the order of tickets, after every record given out before.
    /// A failure is final. Answered by `SnapshotInstalled`.
    InstallSnapshot {
        /// Its name.
        id: SnapshotId,
        /// The position, and what the protocol must know of it at a start.
        base: SnapshotBase,
    },
    /// Fetch the state at a position from peers.
    FetchState {
        /// The position.
        position: Position,
        /// Root of its digest tree.
        root: Digest,
        /// From whom.
        from: Vec<ReplicaId>,
    },
    /// Fetch a payload by digest.
    FetchPayload {
        /// The digest.
        digest: Digest,
        /// From whom.
        from: Vec<ReplicaId>,
    },
    /// Who leads now, as far as this replica knows.
    LeaderIs {
        /// The leader.
        leader: Option<ReplicaId>,
        /// The term or view it leads.
        view: u64,
    },
    /// The bound member list has changed: from now on links of these incarnations count.
    Members(MemberVector),
    /// The checks before the core have changed.
    Verifier(C::Verifier),
    /// Proof that a replica broke the protocol.
    Evidence {
        /// Who.
        against: ReplicaId,
        /// What it did.
        what: String,
    },
    /// Something measured, for metrics only.
    Observe(Observation),
    /// Stop this replica: going on would be wrong.
    Halt(HaltReason),
}

/// Something measured inside a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Observation {
    /// A round trip to a peer and back, by a heartbeat.
    RoundTrip {
        /// The peer.
        peer: ReplicaId,
        /// How long it took.
        duration: Duration,
    },
}

/// Why a replica stops itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
pub enum HaltReason {
    /// A safety rule would be broken; the text names rule and figures.
    #[error("safety: {0}")]
    Safety(String),
    /// An effect whose room this version does not have.
    #[error("this version cannot carry out the effect {0}")]
    EffectUnsupported(&'static str),
    /// Writing or syncing failed; final.
    #[error("storage failed: {0}")]
    Storage(String),
    /// The executor found its state damaged or out of order.
    #[error("executor: {0}")]
    Executor(String),
}

/// A source of random numbers: the operating system's in a node, seeded in a simulation.
pub trait RandomSource: Send {
    /// The next number.
    fn next_u64(&mut self) -> u64;
}

impl<F: FnMut() -> u64 + Send> RandomSource for F {
    fn next_u64(&mut self) -> u64 {
        self()
    }
}

/// Takes the effects of events, in order. One per replica, kept by its driver.
pub struct Effects<C: Consensus> {
    list: Vec<Effect<C>>,
    tickets: TicketSequence,
    random: Box<dyn RandomSource>,
}

impl<C: Consensus> fmt::Debug for Effects<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Effects").field("list", &self.list).field("tickets", &self.tickets).finish()
    }
}

impl<C: Consensus> Effects<C> {
    /// No effects yet.
    #[must_use]
    pub fn new(random: Box<dyn RandomSource>) -> Effects<C> {
        Effects { list: Vec::new(), tickets: TicketSequence::default(), random }
    }

    /// Takes what has gathered, in order.
    pub fn take(&mut self) -> Vec<Effect<C>> {
        std::mem::take(&mut self.list)
    }

    /// Moves what has gathered to the end of `list`, keeping the room of both.
    pub fn drain_into(&mut self, list: &mut Vec<Effect<C>>) {
        list.append(&mut self.list);
    }

    /// Whether nothing has gathered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// A random number. Draw a deadline from it and keep the deadline, never a generator.
    pub fn random_u64(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// A ticket for something the driver itself persists.
    pub fn driver_ticket(&mut self) -> Ticket {
        self.tickets.next_ticket()
    }

    /// Makes a record durable and gives the ticket that promises about it need.
    pub fn persist(&mut self, record: C::Record) -> Ticket {
        let ticket = self.tickets.next_ticket();
        self.list.push(Effect::Persist { ticket, record });
        ticket
    }

    /// Sends a message that promises nothing.
    pub fn send(&mut self, to: Destination, message: C::Message) {
        self.list.push(Effect::Send { to, message });
    }

    /// Sends a promise once all of `after` is durable. There is no other way to send one.
    pub fn promise(&mut self, to: Destination, after: Ticket, promise: C::Promise) {
        self.list.push(Effect::Promise { to, after, promise });
    }

    /// Accepts a proposal at a position and gives its frame to be logged.
    pub fn accept(&mut self, proposal: Proposal, position: Position, block: BlockId) -> ClientFrame {
        let (origin, frame) = proposal.into_parts();
        let accepted = Accepted { origin, position, block };
        match self.list.last_mut() {
            Some(Effect::Accepted(list)) => list.push(accepted),
            _ => self.list.push(Effect::Accepted(vec![accepted])),
        }
        frame
    }

    /// Takes a proposal into the protocol's own pool, without a position yet: it may be executed from now on, and counts against
    /// admission until an [`Effect::Accepted`] or an [`Effect::Dropped`] names its origin.
    pub fn pool(&mut self, proposal: Proposal) -> (Origin, ClientFrame) {
        proposal.into_parts()
    }

    /// Refuses a proposal: it was not and will not be proposed.
    pub fn refuse(&mut self, proposal: Proposal, refusal: Refusal) {
        let (origin, _) = proposal.into_parts();
        self.list.push(Effect::Refused { origin, refusal });
    }

    /// Adds any other effect.
    pub fn push(&mut self, effect: Effect<C>) {
        self.list.push(effect);
    }
}
