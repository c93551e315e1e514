//! The contracts and the vocabulary of Quorate: the consensus seam, events, effects, identities, errors, the wire and entry
//! codec, the forming machine and the named limits. No I/O, no clock, no thread.
//!
//! [`Consensus`] is the seam a protocol plugs into. A protocol is a state machine: events in, ordered effects out; nothing in it
//! is async and nothing blocks. The node, the simulator and a model checker drive the very same code.
//!
//! The feature `testing` adds mocks of the async traits and of [`vfs::Vfs`].

pub mod communication;
pub mod consensus;
pub mod control;
pub mod effect;
pub mod entry;
pub mod event;
pub mod execution;
pub mod forming;
pub mod ids;
pub mod limits;
pub mod lost_data;
mod next_step;
pub mod performance;
pub mod proposal;
pub mod recovery;
pub mod reply;
pub mod request;
pub mod snapshot;
pub mod starts;
pub mod ticket;
pub mod time;
pub mod verify;
pub mod vfs;
pub mod wire;

pub use communication::{ClientReply, FrameClass, PeerFrame, ReplicaCommunicator};
pub use consensus::{Capabilities, ClientPolicy, Consensus, PeerStatus, ProtocolStatus, SubmitTo};
pub use effect::{Destination, Effect, Effects, HaltReason, Observation, RandomSource};
pub use event::{Event, ExecutedAt, MemberVector, Start};
pub use execution::{Answer, Batch, ExecuteRange, ExecutorCommand, ExecutorError, Outcome, TransactionExecutor};
pub use forming::{Forming, FormingEffect, FormingMessage, FormingStatus, MemberClaim};
pub use ids::{
    BlockId, ClusterId, ConnectionId, Digest, Incarnation, LinkId, Position, ReplicaId, Sequence, SessionId,
};
pub use lost_data::LOST_DATA;
pub use next_step::next_step;
pub use performance::{LoadBatch, LoadFigures, PerformanceManager};
pub use proposal::{
    Accepted, Operation, OperationError, OperationId, Origin, Proposal, Read, ReadConsistency, Refusal,
};
pub use recovery::{Completion, RecordPlace, RecoverySpec, ReplayError, SnapshotBase};
pub use reply::{ReplyHeader, ReplyKind, Status};
pub use request::{ClientFrame, RequestHeader};
pub use snapshot::{ServedSnapshot, SnapshotId};
pub use starts::Starts;
pub use ticket::{Ticket, TicketSequence};
pub use time::Time;
pub use verify::{Incoming, Rejected, TrustedLinks, Verified, Verifier};
pub use wire::{Decoder, Encoded, Encoder, Lane, Wire, WireError};
