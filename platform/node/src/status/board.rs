//! The hand-over of snapshots from the core to another thread.
//!
//! A snapshot costs, so the core makes one only when somebody has asked: asking raises a number and wakes the core; the core's
//! next turn publishes a snapshot that answers every number raised until then.

use crate::driver::DriverStatus;
use crate::shell::round_trips::RoundTripFigures;
use crate::shell::storage::StorageFigures;
use crate::snapshots::SnapshotFigures;
use parking_lot::Mutex;
use quorate_communicator::{PeerLinkStatus, TrafficFigures};
use quorate_framework::{Digest, Position};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// What the shell has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShellCounters {
    /// Turns, idle ones included.
    pub turns: u64,
    /// Committed batches given to the executor.
    pub batches_executed: u64,
    /// Groups of commands given to the executor.
    pub groups_executed: u64,
    /// Answers to clients handed to the communicator.
    pub replies_sent: u64,
    /// Times the core's thread had nothing left to do and waited in the kernel, as of the snapshot.
    pub parks: u64,
}

/// A picture of the core at one moment.
#[derive(Clone, Debug)]
pub struct CoreSnapshot {
    /// The driver and its protocol.
    pub driver: DriverStatus,
    /// The last executed position.
    pub executed: Position,
    /// The log on disk; none with recovery off.
    pub storage: Option<StorageFigures>,
    /// The snapshots.
    pub snapshots: SnapshotFigures,
    /// What the shell has counted.
    pub shell: ShellCounters,
    /// What the communicator has counted.
    pub traffic: TrafficFigures,
    /// Connections of clients.
    pub clients: usize,
    /// The links to the peers.
    pub links: Vec<PeerLinkStatus>,
    /// Round trips to peers, as the protocol measured them.
    pub round_trips: Option<RoundTripFigures>,
}

/// The core did not answer in time.
#[derive(Clone, Debug)]
pub struct Stale {
    /// Its last snapshot and the age of it, if there is one.
    pub last: Option<(Arc<CoreSnapshot>, Duration)>,
}

#[derive(Debug, Default)]
struct Latest {
    answers: u64,
    snapshot: Option<(Arc<CoreSnapshot>, Instant)>,
}

/// The digest of the replicated state at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateDigest {
    /// The last executed position.
    pub position: Position,
    /// The digest of the state there; equal on all replicas.
    pub digest: Digest,
}

/// Where a core publishes and others ask. One per replica.
pub struct StatusBoard {
    /// Who waits for a digest.
    digest_askers: Mutex<Vec<oneshot::Sender<StateDigest>>>,
    digest_wanted: AtomicBool,
    wanted: AtomicU64,
    answered: AtomicU64,
    latest: Mutex<Latest>,
    published: Notify,
    wake_core: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for StatusBoard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StatusBoard")
            .field("wanted", &self.wanted)
            .field("answered", &self.answered)
            .finish_non_exhaustive()
    }
}

impl StatusBoard {
    /// An empty board; `wake_core` makes the core's task run its next turn, from any thread.
    #[must_use]
    pub fn new(wake_core: Box<dyn Fn() + Send + Sync>) -> StatusBoard {
        StatusBoard {
            digest_askers: Mutex::default(),
            digest_wanted: AtomicBool::new(false),
            wanted: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            latest: Mutex::default(),
            published: Notify::new(),
            wake_core,
        }
    }

    /// Asks the core for a snapshot made from now on and waits for it, at most `within`.
    ///
    /// # Errors
    /// [`Stale`] if none came.
    pub async fn ask(&self, within: Duration) -> Result<Arc<CoreSnapshot>, Stale> {
        let number = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        (self.wake_core)();
        let answer = tokio::time::timeout(within, self.answer_to(number)).await;
        answer.map_err(|_| Stale {
            last: self.latest.lock().snapshot.as_ref().map(|(snapshot, at)| (Arc::clone(snapshot), at.elapsed())),
        })
    }

    async fn answer_to(&self, number: u64) -> Arc<CoreSnapshot> {
        loop {
            let published = self.published.notified();
            tokio::pin!(published);
            // Enlisted before looking, or a snapshot published in between would be missed.
            published.as_mut().enable();
            {
                let latest = self.latest.lock();
                if let Some((snapshot, _)) = latest.snapshot.as_ref().filter(|_| latest.answers >= number) {
                    return Arc::clone(snapshot);
                }
            }
            published.await;
        }
    }

    /// Asks the core for the digest of its state and waits for it, at most `within`; none if it does not come. Costs reading the whole
    /// state, during which a store in memory executes nothing else.
    pub async fn ask_digest(&self, within: Duration) -> Option<StateDigest> {
        let (answer, answered) = oneshot::channel();
        self.digest_askers.lock().push(answer);
        self.digest_wanted.store(true, Ordering::Release);
        (self.wake_core)();
        tokio::time::timeout(within, answered).await.ok()?.ok()
    }

    /// The core's side: whether a digest is still to be ordered.
    #[must_use]
    pub fn wants_digest(&self) -> bool {
        self.digest_wanted.load(Ordering::Relaxed)
    }

    /// The core's side: whether somebody has asked for a digest since this was last called.
    pub fn takes_digest_order(&self) -> bool {
        self.digest_wanted.load(Ordering::Acquire) && self.digest_wanted.swap(false, Ordering::AcqRel)
    }

    /// The core's side: answers everybody who has asked so far.
    pub fn answer_digest(&self, digest: StateDigest) {
        for asker in self.digest_askers.lock().drain(..) {
            // Whoever has lost patience is gone.
            let _ = asker.send(digest);
        }
    }

    /// The core's side: whether somebody waits. Cheap enough for every turn.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > self.answered.load(Ordering::Relaxed)
    }

    /// The core's side: publishes a snapshot made by `make`, which answers everybody who has asked so far.
    pub fn publish(&self, make: impl FnOnce() -> CoreSnapshot) {
        let answers = self.wanted.load(Ordering::Acquire);
        let snapshot = Arc::new(make());
        *self.latest.lock() = Latest { answers, snapshot: Some((snapshot, Instant::now())) };
        self.answered.store(answers, Ordering::Relaxed);
        self.published.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::report::tests::snapshot;

    #[tokio::test]
    async fn an_answer_is_made_after_the_question_and_serves_all_who_asked() {
        let (woken, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let wake = Arc::clone(&woken);
        let board = Arc::new(StatusBoard::new(Box::new(move || {
            wake.fetch_add(1, Ordering::Relaxed);
        })));
        board.publish(|| snapshot(1));
        assert!(!board.is_wanted());
        let ask = || {
            let (board, count) = (Arc::clone(&board), Arc::clone(&count));
            tokio::spawn(async move {
                let answer = board.ask(Duration::from_secs(10)).await;
                count.fetch_add(1, Ordering::Relaxed);
                answer.unwrap().executed
            })
        };
        let (first, second) = (ask(), ask());
        while woken.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(count.load(Ordering::Relaxed), 0, "the snapshot of before the question is no answer");
        assert!(board.is_wanted());
        board.publish(|| snapshot(2));
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Position(2), Position(2)));
        assert!(!board.is_wanted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_core_that_does_not_answer_leaves_the_last_snapshot_and_its_age() {
        let board = StatusBoard::new(Box::new(|| ()));
        assert!(board.ask(Duration::from_secs(1)).await.unwrap_err().last.is_none());
        board.publish(|| snapshot(7));
        let (last, _age) = board.ask(Duration::from_secs(1)).await.unwrap_err().last.unwrap();
        assert_eq!(last.executed, Position(7));
    }
}
