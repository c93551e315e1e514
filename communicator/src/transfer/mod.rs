//! The transfer service: a replica pulls a snapshot from another, on a connection of its own to the source's peer port.
//!
//! ```text
//! puller  ── Hello (transfer) ─▶ source    as between peers: cluster, ids, claim, agreement; the node judges the incarnation
//! puller  ◀─ Answer ───────────  source    the same of the source, or a refusal that says why
//! puller  ── Confirm ──────────▶ source    the source is the incarnation that was meant
//! puller  ── Fetch ────────────▶ source    which snapshot, how far it is written, up to where more may be sent
//! puller  ◀─ Chunk ... ────────  source    parts in order from there on, each with its offset and a CRC
//! ```
//! A `Fetch` after each part written moves the window on, so at most [`WINDOW_BYTES`] are under way. A connection that is lost is
//! dialled again, and the next `Fetch` goes on from what is written. What does not belong (another snapshot, length or offset, a
//! damaged or oversized part) ends the connection before anything of it is written.
//!
//! *Threads.* Connections shake hands on the core's runtime and are then handed to one thread with a runtime of its own, on which
//! reading and writing snapshot files may block. So no file, no CRC over a snapshot and no copy into a socket takes a turn of the
//! core; and a hop between threads, which a pool of blocking threads would cost for every part, is paid once a connection. The thread
//! is started by the first transfer and ends with the communicator. A disk that hangs stops the transfers and nothing else.
//!
//! *Memory.* A connection holds a read buffer and one part at the source, a read buffer and at most two parts at the puller.
//!
//! The digest over the whole snapshot, the sync and the rename are the caller's.

mod connection;
mod figures;
mod handle;
mod message;
mod pull;
mod serve;
mod service;
mod source;
mod throttle;

pub use figures::TransferFigures;
pub use message::{CHUNK_HEADER_BYTES, Chunk, FETCH_BYTES, Fetch, Outcome, WINDOW_BYTES};
pub use pull::{PullEnd, PullError, PullHandle, PullOrder, SnapshotSink};
pub(crate) use serve::serve;
pub(crate) use service::Transfers;
pub use source::{SnapshotSource, SourceError};
