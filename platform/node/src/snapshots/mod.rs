//! Snapshots of a replica: which there are, who is served, what is being taken and fetched.
//!
//! ```text
//! shell ──▶ Snapshots (keeper): threads, files, the transfer service ◀─┐ reports
//!             └─▶ Coordinator: every decision ─▶ effects ──────────────┘
//! ```
//! [`coordinator`] decides and does nothing; the simulator drives the same one. [`files`] holds the steps on files that both take.

pub mod coordinator;
mod figures;
pub mod files;
mod keeper;
mod loading;
mod parts;
mod puller;
mod reports;
mod scratch;
mod source;
mod writer;

#[cfg(test)]
mod tests;

pub use coordinator::CheckpointSettings;
pub use figures::SnapshotFigures;
pub use keeper::Snapshots;
pub use parts::{Directory, LoadState, LoadedState, OpenDirectory, OpenFile, RemoveGeneration, SnapshotParts};
pub use puller::Puller;
pub use scratch::Scratch;

/// Bytes of a snapshot that are made in one go between two groups of commands.
pub const PIECE_BYTES: usize = 128 << 10;
