//! Raft as a pure state machine behind the consensus seam of `quorate-framework`: elections with PreVote, CheckQuorum and
//! stickiness, pipelined replication under a window, backtracking by conflicting term, commit in the own term only, start from a
//! recovered state, snapshots, and no leadership on a hung disk or executor. No socket, file, thread, clock or random generator.
//!
//! Section numbers are those of Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm (Extended Version)".
//!
//! # Invariants
//! Within one replica (checked by `validate()` after each event in debug builds, and by the simulator):
//! - *log pointers*: base <= executed <= handed <= commit <= last; verified <= last; persisted <= last; the last entry's term is
//!   not above the current one. Only what was handed over without the log may be above the commit: what the executor's state held at
//!   the start, and a snapshot that is being installed.
//! - *votes*: a candidate and a leader voted for themselves; a leader's term is durable.
//! - *window*: for each follower matched < next <= last + 1; messages in flight within the window; nothing in flight without a link.
//! - *snapshots*: forgotten <= snapshot <= commit; what is fetched is above the commit; while a snapshot is installed, everything up
//!   to it counts as handed over; nobody is served without a link.
//!
//! Between replicas (each has a checker of the same name in the simulator):
//! - *election safety*: at most one leader a term (§5.2).
//! - *leader append-only*: a leader never overwrites or drops its own entries (§5.3).
//! - *log matching*: logs that hold an entry of equal index and term are equal up to it (§5.3).
//! - *leader completeness*: what is committed in a term is in the log of each later leader (§5.4).
//! - *state-machine safety*: no two replicas execute different entries at one index (§5.4.3).
//!
//! # How the safety arguments map to the code
//! - A reply to an append says how far *that* request matched, never the follower's own last index ([`AppendOutcome::Matched`]).
//! - A follower commits at most what it verified against the leader of its term (`verified`).
//! - A vote, an acknowledgement and a refusal leave only after term, vote and entries are durable: they are promises.
//! - A leader counts its own entries, and a candidate its own vote, only once they are durable, also alone.
//! - A snapshot is installed in its place among the execute orders, and only above the commit at that moment: the state never goes
//!   back. The log is dropped after the install is durable, and promised on after the record of that is durable.
//! - What the executor's state holds beyond the log's commit is committed, but its entries are not known here: it is neither executed
//!   again nor taken for a commit index. Its last entry must be found among what is committed later, or the replica halts (`ahead.rs`).

mod ahead;
mod append;
mod checkpoint;
mod commit;
mod durability;
mod election;
mod fetch;
mod install;
mod invariants;
mod links;
mod log;
mod message;
mod progress;
mod quorum;
mod raft;
mod record;
mod replay;
mod replicate;
mod role;
mod serve;
mod settings;
mod stall;
mod start;
mod term;
mod votes;

pub use election::LeaderElectionManager;
pub use install::{InstallOutcome, InstallSnapshot, InstallSnapshotReply};
pub use message::{
    Append, AppendOutcome, AppendReply, Heartbeat, HeartbeatReply, RaftMessage, RaftPromise, VoteReply, VoteRequest,
};
pub use raft::Raft;
pub use record::{HardState, RaftRecord};
pub use replay::{RaftState, ReplayCursor, snapshot_base};
pub use settings::RaftSettings;
pub use term::{Term, block_of};
