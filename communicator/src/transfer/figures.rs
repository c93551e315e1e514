//! What the transfer service has done so far.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters over all transfers of a communicator.
#[derive(Debug, Default)]
pub(crate) struct TransferCounters {
    pub(crate) connections_served: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) dials: AtomicU64,
    pub(crate) connections_pulled: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) damaged: AtomicU64,
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransferFigures {
    /// Connections by which peers pulled or pull from here.
    pub connections_served: u64,
    /// Bytes of snapshots sent.
    pub sent_bytes: u64,
    /// Attempts to connect to a source.
    pub dials: u64,
    /// Connections by which snapshots were or are pulled.
    pub connections_pulled: u64,
    /// Bytes of snapshots pulled and written.
    pub written_bytes: u64,
    /// Connections by which snapshots were pulled that ended because of what came.
    pub damaged: u64,
    /// Peers that pull from here now.
    pub serving: usize,
}

pub(crate) fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

impl TransferCounters {
    pub(crate) fn figures(&self, serving: usize) -> TransferFigures {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TransferFigures {
            connections_served: get(&self.connections_served),
            sent_bytes: get(&self.sent_bytes),
            dials: get(&self.dials),
            connections_pulled: get(&self.connections_pulled),
            written_bytes: get(&self.written_bytes),
            damaged: get(&self.damaged),
            serving,
        }
    }
}
