//! What replicas and their protocol say of snapshots. Taking, serving, fetching and installing one is the node's work; when and of
//! what, and what follows for the log, is the protocol's.
//!
//! - *Checkpoint*: [`Event::SnapshotDue`] · [`Effect::TakeSnapshot`] · [`Event::SnapshotTaken`] or
//!   [`Event::SnapshotNotTaken`] · [`Effect::ForgetLog`].
//! - *Serving*: [`Effect::OfferSnapshot`] · [`Event::SnapshotReady`] or [`Event::SnapshotUnready`] · then the protocol's own offer
//!   to the peer · [`Event::SnapshotProgress`] while the peer pulls · [`Effect::WithdrawSnapshot`] at the end.
//! - *Fetching*: [`Effect::FetchSnapshot`] · [`Event::SnapshotFetched`] or [`Event::SnapshotNotFetched`] ·
//!   [`Effect::InstallSnapshot`] or [`Effect::CancelFetch`] · [`Event::SnapshotInstalled`].
//!
//! [`Event::SnapshotDue`]: crate::Event::SnapshotDue
//! [`Event::SnapshotTaken`]: crate::Event::SnapshotTaken
//! [`Event::SnapshotNotTaken`]: crate::Event::SnapshotNotTaken
//! [`Event::SnapshotReady`]: crate::Event::SnapshotReady
//! [`Event::SnapshotUnready`]: crate::Event::SnapshotUnready
//! [`Event::SnapshotProgress`]: crate::Event::SnapshotProgress
//! [`Event::SnapshotFetched`]: crate::Event::SnapshotFetched
//! [`Event::SnapshotNotFetched`]: crate::Event::SnapshotNotFetched
//! [`Event::SnapshotInstalled`]: crate::Event::SnapshotInstalled
//! [`Effect::TakeSnapshot`]: crate::Effect::TakeSnapshot
//! [`Effect::ForgetLog`]: crate::Effect::ForgetLog
//! [`Effect::OfferSnapshot`]: crate::Effect::OfferSnapshot
//! [`Effect::WithdrawSnapshot`]: crate::Effect::WithdrawSnapshot
//! [`Effect::FetchSnapshot`]: crate::Effect::FetchSnapshot
//! [`Effect::InstallSnapshot`]: crate::Effect::InstallSnapshot
//! [`Effect::CancelFetch`]: crate::Effect::CancelFetch

use crate::ids::Position;
use serde::{Deserialize, Serialize};

/// Names one prepared snapshot. Drawn at random by the replica that serves it, so that no two are ever mixed up, whoever serves them
/// and however often it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SnapshotId(pub u64);

/// A snapshot that a replica has ready to be pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServedSnapshot {
    /// Its name.
    pub id: SnapshotId,
    /// The last position whose effects it holds.
    pub position: Position,
    /// Its length, in bytes. Announced only; a receiver checks it before it makes room.
    pub length_bytes: u64,
}
