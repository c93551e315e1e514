//! The thread around the pump.

use crate::error::StorageError;
use crate::inbox::{Inbox, InboxBounds, Patience, Refused, Taken};
use crate::log::LogCounters;
use crate::metadata::Metadata;
use crate::progress::{Persisted, Progress};
use crate::pump::Pump;
use crate::settings::{PENDING_BYTES, PENDING_SUBMISSIONS};
use crate::submission::Submission;
use quorate_framework::{RecoverySpec, Ticket};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;

/// An idle writer prepares segments only after a pause of this length, so that a lone appender is not delayed.
const IDLE_BEFORE_HOUSEKEEPING: Duration = Duration::from_millis(1);

/// Waiting on purpose, so that groups grow. The default waits for nothing: groups grow by themselves while the disk is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushLinger {
    /// How long to wait after the first submission of a group (`wal_flush_wait_us`); zero is not at all.
    pub wait: Duration,
    /// Submissions that end the wait (`wal_flush_batch`); zero is no such number.
    pub batch: usize,
}

/// What the writer tells, once per group and once at its end.
#[derive(Clone, Debug)]
pub enum WalEvent {
    /// A group is durable.
    Persisted {
        /// Everything up to it is durable.
        ticket: Ticket,
        /// Log records in the group.
        records: u32,
        /// How long its sync took, a change of metadata included.
        sync_time: Duration,
    },
    /// Writing has failed; final. What was submitted and not told as persisted has an unknown outcome.
    Failed(StorageError),
}

/// Why something could not be submitted. None of it was queued.
#[derive(Clone, Debug, Error)]
pub enum SubmitError {
    /// More is pending than is bearable; admission should have stopped long before.
    #[error("the write-ahead log has {pending_bytes} bytes pending: the disk does not keep up")]
    Full {
        /// Bytes submitted and not yet durable.
        pending_bytes: u64,
    },
    /// The writer has failed or ended.
    #[error(transparent)]
    Ended(#[from] StorageError),
}

/// The operating system gave no thread for a writer. Nothing was written; the log is given back.
#[derive(Error)]
#[error("no thread for the write-ahead log: {source}")]
pub struct NoThread<S> {
    /// The log, as it was.
    pub pump: Box<Pump<S>>,
    /// What the operating system says.
    pub source: io::Error,
}

impl<S> fmt::Debug for NoThread<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NoThread").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Figures of a writer since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalFigures {
    /// What the log did.
    pub log: LogCounters,
    /// Groups of submissions that became durable.
    pub submitted_groups: u64,
    /// Log records that became durable.
    pub records: u64,
    /// Replacements of the metadata file (two syncs each).
    pub metadata_writes: u64,
}

struct Shared<S> {
    inbox: Inbox<Submission<S>>,
    progress: Arc<Progress<StorageError>>,
    figures: Mutex<WalFigures>,
}

/// The thread that writes and syncs, and the way to hand it work.
///
/// Dropping it ends the thread after the group it is at, as a crash would: what is queued is not written, and the stop is not noted as
/// clean. [`WalWriterLoop::stop`] ends it cleanly. Both block until the operation that runs has returned: on a hung disk end the process.
pub struct WalWriterLoop<S> {
    shared: Arc<Shared<S>>,
    thread: Option<JoinHandle<Result<Metadata, StorageError>>>,
}

impl<S: RecoverySpec + Send + 'static> WalWriterLoop<S> {
    /// Starts the thread. `tell` is called on it, once per durable group in order, and once if writing fails; it must be quick.
    ///
    /// # Errors
    /// [`NoThread`], with the log.
    pub fn start(
        pump: Pump<S>,
        linger: FlushLinger,
        tell: impl FnMut(WalEvent) + Send + 'static,
    ) -> Result<WalWriterLoop<S>, NoThread<S>> {
        WalWriterLoop::start_on(thread::Builder::new().name("wal-writer".to_owned()), pump, linger, tell)
    }

    fn start_on(
        thread: thread::Builder,
        pump: Pump<S>,
        linger: FlushLinger,
        tell: impl FnMut(WalEvent) + Send + 'static,
    ) -> Result<WalWriterLoop<S>, NoThread<S>> {
        let bounds = InboxBounds { items: PENDING_SUBMISSIONS, bytes: PENDING_BYTES };
        let shared = Arc::new(Shared {
            inbox: Inbox::new(bounds),
            progress: Arc::new(Progress::new()),
            figures: Mutex::new(WalFigures::default()),
        });
        // A thread that is not given drops what it was to own, so the log waits for it outside.
        let pump = Arc::new(Mutex::new(Some(pump)));
        let (owner, handed_over) = (Arc::clone(&shared), Arc::clone(&pump));
        let run = move || {
            let pump = take(&handed_over);
            Writer { shared: owner, pump, linger, tell: Box::new(tell) }.run()
        };
        let thread = match thread.spawn(run) {
            Ok(thread) => thread,
            Err(source) => {
                let pump = take(&pump).expect("only a thread that was given takes it");
                return Err(NoThread { pump: Box::new(pump), source });
            }
        };
        Ok(WalWriterLoop { shared, thread: Some(thread) })
    }

    /// Hands over submissions in the order of their tickets: all of `submissions`, which is left empty with its memory, or none. Does
    /// not wait for the disk. One call per turn of the core is meant, not one per record.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was queued.
    pub fn submit(&self, submissions: &mut Vec<Submission<S>>) -> Result<(), SubmitError> {
        let bytes = submissions.iter().map(|submission| submission.weight() as u64).sum();
        self.shared.inbox.push(submissions, bytes).map_err(|refused| match refused {
            Refused::Full => SubmitError::Full { pending_bytes: self.pending_bytes() },
            Refused::Closed => SubmitError::Ended(self.shared.progress.failure().unwrap_or(StorageError::Ended)),
        })
    }

    /// Bytes submitted and not yet durable; admission and the deadline of a hung disk go by it.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.shared.inbox.pending_bytes()
    }

    /// The highest durable ticket.
    #[must_use]
    pub fn durable(&self) -> Ticket {
        self.shared.progress.durable()
    }

    /// A future that is ready once the ticket is durable or never will be. It needs no runtime.
    #[must_use]
    pub fn wait_for(&self, ticket: Ticket) -> Persisted<StorageError> {
        self.shared.progress.wait_for(ticket)
    }

    /// Figures since the start.
    #[must_use]
    pub fn figures(&self) -> WalFigures {
        *self.shared.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it cleanly: all that was submitted becomes durable and the clean stop is noted. Blocks until then.
    ///
    /// # Errors
    /// The failure that ended the writer, now or before.
    pub fn stop(mut self) -> Result<Metadata, StorageError> {
        self.shared.inbox.close(false);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            // The thread panicked, which has been reported on stderr.
            Some(Err(_)) | None => Err(StorageError::Ended),
        }
    }
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl<S> Drop for WalWriterLoop<S> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // First, so that the thread does not take the closed inbox for a clean stop.
            self.shared.progress.fail(StorageError::Ended);
            self.shared.inbox.close(true);
            // A panic of the thread has been reported on stderr.
            let _ = thread.join();
        }
    }
}

struct Writer<S: RecoverySpec> {
    shared: Arc<Shared<S>>,
    pump: Option<Pump<S>>,
    linger: FlushLinger,
    tell: Box<dyn FnMut(WalEvent) + Send>,
}

impl<S: RecoverySpec> Drop for Writer<S> {
    /// However the thread ends, a panic included, nobody waits for it in vain.
    fn drop(&mut self) {
        self.shared.inbox.close(true);
        self.shared.progress.fail(StorageError::Ended);
    }
}

impl<S: RecoverySpec> Writer<S> {
    fn run(mut self) -> Result<Metadata, StorageError> {
        let mut pump = self.pump.take().ok_or(StorageError::Ended)?;
        let written = self.write_all(&mut pump).and_then(|()| match self.shared.progress.failure() {
            Some(abandoned) => Err(abandoned),
            None => pump.stop(),
        });
        if let Err(error) = &written
            && !matches!(error, StorageError::Ended)
        {
            self.shared.progress.fail(error.clone());
            self.shared.inbox.close(true);
            (self.tell)(WalEvent::Failed(error.clone()));
        }
        written
    }

    /// Writes what comes in until the inbox is closed.
    fn write_all(&mut self, pump: &mut Pump<S>) -> Result<(), StorageError> {
        let mut items = Vec::new();
        loop {
            let patience =
                if pump.has_maintenance() { Patience::For(IDLE_BEFORE_HOUSEKEEPING) } else { Patience::Unlimited };
            match self.shared.inbox.take(&mut items, patience) {
                Taken::Items => self.linger_and_queue(&mut items, pump)?,
                Taken::Nothing => pump.maintain()?,
                Taken::Closed => return Ok(()),
            }
            while self.write_group(pump)? {
                // What came in meanwhile goes into the next group.
                if self.shared.inbox.take(&mut items, Patience::Now) == Taken::Items {
                    queue(&mut items, pump)?;
                }
            }
        }
    }

    fn linger_and_queue(&mut self, items: &mut Vec<Submission<S>>, pump: &mut Pump<S>) -> Result<(), StorageError> {
        let FlushLinger { wait, batch } = self.linger;
        let first = items.len();
        queue(items, pump)?;
        let batch = if batch == 0 { usize::MAX } else { batch };
        if !wait.is_zero() && first < batch {
            let deadline = Instant::now() + wait;
            if self.shared.inbox.take_until(items, batch - first, deadline) == Taken::Items {
                queue(items, pump)?;
            }
        }
        Ok(())
    }

    /// Writes and syncs one group; false if there is none.
    fn write_group(&mut self, pump: &mut Pump<S>) -> Result<bool, StorageError> {
        let Some(group) = pump.take_group()? else { return Ok(false) };
        let (records, weight) = (group.records(), group.weight());
        let written = pump.write(group)?;
        let running = pump.sync_started(written);
        let started = Instant::now();
        let ticket = pump.sync(running)?;
        let sync_time = started.elapsed();
        self.shared.inbox.done(weight);
        {
            let mut figures = self.shared.figures.lock().unwrap_or_else(PoisonError::into_inner);
            figures.log = pump.counters();
            figures.submitted_groups += 1;
            figures.records += u64::from(records);
            figures.metadata_writes = pump.metadata_writes();
        }
        self.shared.progress.reached(ticket);
        (self.tell)(WalEvent::Persisted { ticket, records, sync_time });
        if pump.maintenance_is_due() {
            pump.maintain()?;
        }
        Ok(true)
    }
}

fn queue<S: RecoverySpec>(items: &mut Vec<Submission<S>>, pump: &mut Pump<S>) -> Result<(), StorageError> {
    items.drain(..).try_for_each(|submission| pump.submit(submission))
}

#[cfg(test)]
#[path = "writer_loop_tests.rs"]
mod tests;
