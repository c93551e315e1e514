//! What the threads that work on snapshots tell the shell.

use super::source::ReadySnapshot;
use crate::shell::storage::Wake;
use parking_lot::Mutex;
use quorate_communicator::transfer::PullEnd;
use quorate_executor::snapshot::SnapshotName;
use quorate_framework::{ReplicaId, SnapshotBase, SnapshotId};

/// Reports that wait at most but for those of which there is one for each task; what is more is a sign of life that is not needed.
const SIGNS_OF_LIFE: usize = 256;

/// One thing told.
pub(super) enum Report<E> {
    /// The file of a snapshot that was taken here is complete and durable, or cannot be had.
    Written { base: SnapshotBase, outcome: Result<ReadySnapshot, String> },
    /// The writer has taken a piece: there is room for the next.
    Room,
    /// A pull has ended.
    Pulled { id: SnapshotId, end: PullEnd },
    /// What was pulled is checked, durable under its name, and loaded; or is of no use.
    Loaded { id: SnapshotId, outcome: Result<Loaded<E>, String> },
    /// A peer pulls.
    Progress(ReplicaId),
}

/// A state machine made of a snapshot.
pub(super) struct Loaded<E> {
    /// The state machine.
    pub(super) machine: E,
    /// What the file says of its position.
    pub(super) base: SnapshotBase,
    /// The file.
    pub(super) name: SnapshotName,
    /// The file again, to be served.
    pub(super) ready: ReadySnapshot,
    /// Which generation of the store it is.
    pub(super) store_generation: u64,
    /// What was loaded, for the log.
    pub(super) summary: String,
}

/// Where it is told.
pub(super) struct Reports<E> {
    waiting: Mutex<Vec<Report<E>>>,
    wake: Wake,
}

impl<E> Reports<E> {
    pub(super) fn new(wake: Wake) -> Reports<E> {
        Reports { waiting: Mutex::default(), wake }
    }

    /// Tells, and wakes the shell.
    pub(super) fn push(&self, report: Report<E>) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < SIGNS_OF_LIFE || !matches!(report, Report::Progress(_) | Report::Room) {
            waiting.push(report);
        }
        drop(waiting);
        (self.wake)();
    }

    /// Takes what was told, in its order.
    pub(super) fn take(&self) -> Vec<Report<E>> {
        std::mem::take(&mut *self.waiting.lock())
    }
}
