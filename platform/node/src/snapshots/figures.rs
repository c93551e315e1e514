//! What operators are shown of snapshots.

use serde::Serialize;

/// Figures for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SnapshotFigures {
    /// Position of the newest snapshot; 0 if there is none.
    pub position: u64,
    /// Bytes of its file; 0 if it has none.
    pub bytes: u64,
    /// Snapshots taken since the process began.
    pub taken: u64,
    /// Snapshots that could not be taken.
    pub failed: u64,
    /// Snapshots fetched and installed.
    pub installed: u64,
    /// Peers that are served now.
    pub serving: u64,
    /// Whether one is being taken now.
    pub taking: bool,
    /// Position of the one that is being fetched; 0 if none is.
    pub fetching: u64,
}
