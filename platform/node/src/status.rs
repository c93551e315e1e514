//! What a replica tells about itself: the `/status` object, and the board by which the core hands a snapshot to whoever asks.

mod board;
mod durability;
mod report;
mod threads;

pub use board::{CoreSnapshot, ShellCounters, Stale, StateDigest, StatusBoard};
pub use durability::DurabilityReport;
pub use report::{COMMIT, Identity, PeerReport, Positions, StatusReport, SyncReport, VERSION};

#[cfg(test)]
pub(crate) use report::tests as testing;
