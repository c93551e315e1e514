//! The transfer service as the node sees it.

use crate::communicator::CommunicatorHandle;
use crate::transfer::figures::TransferFigures;
use crate::transfer::pull::{self, PullEnd, PullHandle, PullOrder, SnapshotSink};
use crate::transfer::source::SnapshotSource;
use std::sync::Arc;

impl CommunicatorHandle {
    /// Lets peers pull what this source has ready, from now on. Before that they are refused.
    pub fn serve_snapshots(&self, source: Arc<dyn SnapshotSource>) {
        if !self.hub.is_stopping() {
            *self.hub.transfers.source.lock() = Some(source);
        }
    }

    /// Pulls a snapshot from its source, from the given offset on, until it is complete or cannot be had; lost connections are dialled
    /// again meanwhile. The sink is written to in order, on the transfer thread, and dropped before `on_end` is called: exactly once,
    /// on the transfer thread, or on this one before this returns if no pull can begin any more. It must not block. Nothing is
    /// checked of the whole: its digest, and making it durable, are the caller's.
    #[must_use = "dropping the handle cancels the pull"]
    pub fn pull_snapshot(
        &self,
        order: PullOrder,
        sink: Box<dyn SnapshotSink>,
        on_end: Box<dyn FnOnce(PullEnd) + Send>,
    ) -> PullHandle {
        pull::start(&self.hub, order, sink, on_end)
    }

    /// What the transfer service has done so far.
    #[must_use]
    pub fn transfers(&self) -> TransferFigures {
        self.hub.transfers.counters.figures(self.hub.registry.lock().served.len())
    }
}
