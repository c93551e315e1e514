//! The state machine at work: it has one task at a time, and the core goes on while it is at it.
//!
//! A store in memory is done at once, within the turn. A store that waits for a disk keeps its task, and the shell hears of its end
//! like of anything else that comes in: a disk that hangs stops execution and nothing else.

use crate::state_machine::StateMachine;
use quorate_framework::{ExecutorCommand, ExecutorError, Outcome, SnapshotBase};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What a state machine is to do.
#[derive(Debug)]
pub(super) enum Task {
    /// Carry out the group that was put into [`Execution::group`].
    Execute,
    /// Begin a snapshot.
    Begin(SnapshotBase),
    /// Give the next piece of it, about so many bytes.
    Piece(usize),
    /// Sync its store.
    Persist(SnapshotBase),
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Done {
    Executed(Outcome),
    Begun(SnapshotBase),
    /// The piece, and whether it is the last.
    Piece(Vec<u8>, bool),
    Persisted(SnapshotBase),
}

/// What moves to the task and back.
struct Bench<E> {
    machine: E,
    /// Scratch: what is being executed. Its memory is used again.
    group: Vec<ExecutorCommand>,
}

type Running<E> = Pin<Box<dyn Future<Output = (Box<Bench<E>>, Result<Done, ExecutorError>)> + Send>>;

/// The state machine, idle or at work.
pub(super) struct Execution<E> {
    idle: Option<Box<Bench<E>>>,
    running: Option<Running<E>>,
    finished: Option<Result<Done, ExecutorError>>,
}

impl<E> fmt::Debug for Execution<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Execution").field("idle", &self.idle.is_some()).finish_non_exhaustive()
    }
}

impl<E: StateMachine> Execution<E> {
    pub(super) fn new(machine: E) -> Execution<E> {
        let idle = Some(Box::new(Bench { machine, group: Vec::new() }));
        Execution { idle, running: None, finished: None }
    }

    /// Whether it can be given a task.
    pub(super) fn is_idle(&self) -> bool {
        self.idle.is_some() && self.finished.is_none()
    }

    /// The state machine, while it is idle.
    pub(super) fn machine(&mut self) -> Option<&mut E> {
        self.idle.as_mut().map(|bench| &mut bench.machine)
    }

    /// Where the next group is put, while it is idle.
    pub(super) fn group(&mut self) -> Option<&mut Vec<ExecutorCommand>> {
        self.idle.as_mut().map(|bench| &mut bench.group)
    }

    /// Begins a task and gives what came of it, if that is there at once. Only while idle.
    pub(super) async fn begin(&mut self, task: Task) -> Option<Result<Done, ExecutorError>> {
        let bench = self.idle.take()?;
        self.running = Some(Box::pin(run(bench, task)));
        self.poll_once().await;
        self.finished.take()
    }

    /// What came of a task that took its time, once; none while it is still at it.
    pub(super) async fn look(&mut self) -> Option<Result<Done, ExecutorError>> {
        self.poll_once().await;
        self.finished.take()
    }

    /// Waits for the end of the running task; for ever if there is none. Cancelling it loses nothing.
    pub(super) async fn finished(&mut self) {
        poll_fn(|context| {
            self.poll_running(context);
            if self.finished.is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    async fn poll_once(&mut self) {
        poll_fn(|context| {
            self.poll_running(context);
            Poll::Ready(())
        })
        .await;
    }

    fn poll_running(&mut self, context: &mut Context<'_>) {
        let Some(running) = &mut self.running else { return };
        if let Poll::Ready((bench, done)) = running.as_mut().poll(context) {
            (self.running, self.idle, self.finished) = (None, Some(bench), Some(done));
        }
    }
}

async fn run<E: StateMachine>(mut bench: Box<Bench<E>>, task: Task) -> (Box<Bench<E>>, Result<Done, ExecutorError>) {
    let Bench { machine, group } = &mut *bench;
    let done = match task {
        Task::Execute => {
            let done = machine.execute(group).await.map(Done::Executed);
            group.clear();
            done
        }
        Task::Begin(base) => machine.begin_snapshot(&base).await.map(|()| Done::Begun(base)),
        Task::Piece(budget_bytes) => {
            let mut bytes = Vec::with_capacity(budget_bytes + budget_bytes / 4);
            machine.next_piece(budget_bytes, &mut bytes).await.map(|last| Done::Piece(bytes, last))
        }
        Task::Persist(base) => machine.persist().await.map(|()| Done::Persisted(base)),
    };
    (bench, done)
}
