//! The state machine at work: it has one task at a time, and the core goes on while it is at it.
//!
//! A store in memory is done at once, within the turn. A store that waits for a disk keeps its task, and the shell hears of its end
//! like of anything else that comes in: a disk that hangs stops execution and nothing else.

use crate::state_machine::{Persisting, StateMachine};
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
    /// Begin to make its store durable. Other tasks may follow before that is done.
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

/// Where a task leads.
enum Step {
    Done(Done),
    Persisting(SnapshotBase, Persisting),
}

type Running<E> = Pin<Box<dyn Future<Output = (Box<Bench<E>>, Result<Step, ExecutorError>)> + Send>>;

/// The state machine, idle or at work, and its checkpoint that is under way.
pub(super) struct Execution<E> {
    idle: Option<Box<Bench<E>>>,
    running: Option<Running<E>>,
    finished: Option<Result<Done, ExecutorError>>,
    /// A state that is being made durable, beside whatever else is done.
    persisting: Option<(SnapshotBase, Persisting)>,
    persisted: Option<Result<Done, ExecutorError>>,
}

impl<E> fmt::Debug for Execution<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Execution").field("idle", &self.idle.is_some()).finish_non_exhaustive()
    }
}

impl<E: StateMachine> Execution<E> {
    pub(super) fn new(machine: E) -> Execution<E> {
        let idle = Some(Box::new(Bench { machine, group: Vec::new() }));
        Execution { idle, running: None, finished: None, persisting: None, persisted: None }
    }

    /// Whether a state is being made durable, or that it is was not taken up yet.
    pub(super) fn is_persisting(&self) -> bool {
        self.persisting.is_some() || self.persisted.is_some()
    }

    /// What is being made durable is not the state any more: nobody hears of its end.
    pub(super) fn forget_persisting(&mut self) {
        (self.persisting, self.persisted) = (None, None);
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
        self.look().await
    }

    /// What came of a task that took its time, once; none while it is still at it. Asked again for what else may have ended.
    pub(super) async fn look(&mut self) -> Option<Result<Done, ExecutorError>> {
        self.poll_once().await;
        self.finished.take().or_else(|| self.persisted.take())
    }

    /// Waits for the end of the running task, or of what is being made durable; for ever if there is neither. Cancelling it loses nothing.
    pub(super) async fn finished(&mut self) {
        poll_fn(|context| {
            self.poll_running(context);
            if self.finished.is_some() || self.persisted.is_some() { Poll::Ready(()) } else { Poll::Pending }
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
        if let Some(running) = &mut self.running
            && let Poll::Ready((bench, step)) = running.as_mut().poll(context)
        {
            (self.running, self.idle) = (None, Some(bench));
            match step {
                Ok(Step::Persisting(base, persisting)) => self.persisting = Some((base, persisting)),
                Ok(Step::Done(done)) => self.finished = Some(Ok(done)),
                Err(error) => self.finished = Some(Err(error)),
            }
        }
        if let Some((_, persisting)) = &mut self.persisting
            && let Poll::Ready(done) = persisting.as_mut().poll(context)
            && let Some((base, _)) = self.persisting.take()
        {
            self.persisted = Some(done.map(|()| Done::Persisted(base)));
        }
    }
}

async fn run<E: StateMachine>(mut bench: Box<Bench<E>>, task: Task) -> (Box<Bench<E>>, Result<Step, ExecutorError>) {
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
        Task::Persist(base) => {
            let begun = machine.persist().await;
            return (bench, begun.map(|persisting| Step::Persisting(base, persisting)));
        }
    };
    (bench, done.map(Step::Done))
}
