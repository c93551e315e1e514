//! What the threads that work on snapshots tell the shell.

use super::coordinator::SnapshotReport;
use super::files::SharedFile;
use crate::shell::storage::Wake;
use parking_lot::Mutex;

/// What waits at most but for those of which there is one for each task; what is more is a sign of life that is not needed.
const SIGNS_OF_LIFE: usize = 256;

/// One thing told.
pub(super) enum Told<E> {
    /// Something for the coordinator.
    Report(SnapshotReport<E, SharedFile>),
    /// The writer has taken a piece: there is room for the next.
    Room,
}

/// Where it is told.
pub(super) struct Reports<E> {
    waiting: Mutex<Vec<Told<E>>>,
    wake: Wake,
}

impl<E> Reports<E> {
    pub(super) fn new(wake: Wake) -> Reports<E> {
        Reports { waiting: Mutex::default(), wake }
    }

    /// Tells, and wakes the shell.
    pub(super) fn push(&self, told: Told<E>) {
        let is_sign_of_life = matches!(told, Told::Room | Told::Report(SnapshotReport::Progress(_)));
        let mut waiting = self.waiting.lock();
        if waiting.len() < SIGNS_OF_LIFE || !is_sign_of_life {
            waiting.push(told);
        }
        drop(waiting);
        (self.wake)();
    }

    /// Tells the coordinator something, and wakes the shell.
    pub(super) fn report(&self, report: SnapshotReport<E, SharedFile>) {
        self.push(Told::Report(report));
    }

    /// Takes what was told, in its order.
    pub(super) fn take(&self) -> Vec<Told<E>> {
        std::mem::take(&mut *self.waiting.lock())
    }
}
