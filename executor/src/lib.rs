//! The key-value state machine: commands, sessions, ordered stores, overlays, digests.
//!
//! [`KvExecutor`] carries out what a protocol ordered. A client's frame goes through the session table ([`session`]), then its
//! commands ([`command`]) are applied to a store ([`store`]), and its results ([`result`]) are its answer, stored for repetitions.
//! Everything here is deterministic: equal orders make equal states and equal answers on every replica. No thread, clock or
//! random number is used, but by the store on disk ([`lsm`], a cargo feature): it has a thread that sorts and merges its files, and
//! measures how long it is held up.
//!
//! A state at one position becomes a file, and a file a state, in [`snapshot`].

pub mod command;
pub mod conformance;
mod digest;
mod entry_buffer;
pub mod executor;
mod frame;
mod lengths;
#[cfg(feature = "lsm")]
pub mod lsm;
pub mod memory_store;
pub mod overlay;
pub mod replicated_limits;
pub mod result;
pub mod session;
mod short;
pub mod snapshot;
pub mod store;
mod view;

pub use command::{Command, CommandWriter, Commands, MalformedBody};
pub use executor::KvExecutor;
pub use memory_store::MemoryStore;
pub use replicated_limits::ReplicatedLimits;
pub use result::{CommandResult, CommandResults, ResultValue};
pub use session::SessionTable;
pub use snapshot::{Restore, SnapshotError, SnapshotFile, SnapshotName, SnapshotReader, SnapshotWriter};
pub use store::{KeyValue, OrderedStore, PersistLater, StoreError};
pub use view::MemoryView;
