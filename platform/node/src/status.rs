//! What a replica tells about itself: the `/status` object, and the board by which the core hands a snapshot to whoever asks.

mod board;
mod report;

pub use board::{CoreSnapshot, ShellCounters, Stale, StatusBoard};
pub use report::{COMMIT, Identity, PeerReport, Positions, StatusReport, VERSION};

#[cfg(test)]
pub(crate) use report::tests as testing;
