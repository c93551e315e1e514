//! The core alone, driven by hand: each test says which messages arrive and which records are durable.

// The workspace allows `unwrap` in tests; clippy does not see that the helpers of this file are one.
#![allow(clippy::unwrap_used)]

mod checkpoints;
mod cluster;
mod disk;
mod elections;
mod installs;
mod random_snapshots;
mod recovery;
mod replication;
mod snapshots;
mod stalls;
