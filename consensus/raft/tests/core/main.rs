//! The core alone, driven by hand: each test says which messages arrive and which records are durable.

// The workspace allows `unwrap` in tests; clippy does not see that the helpers of this file are one.
#![allow(clippy::unwrap_used)]

mod cluster;
mod elections;
mod replication;
