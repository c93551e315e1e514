//! The async shell around the driver: one task that waits, drains, takes a turn, and carries out what the turn wants.
//!
//! It runs as one task of a current-thread runtime beside the connections' reader and writer tasks. A turn takes everything that has
//! come in, under quotas. What it wants is carried out in this order: claim, frames to peers, lost links, records to the storage,
//! execution, answers to clients. So appends are on their way before their sync begins and before anything is executed, and one call
//! serves a whole group. A turn is bounded: by quotas what it takes in, and by the size of a group what it executes; the rest has to wait
//! for the next turn, which comes at once.
//!
//! At its end, by a wish or by a halt, it lets nobody in any more, tells those that wait that the outcome is unknown, refuses what
//! still comes, closes the links to peers once what waits for them is written so that they need not wait for a timeout, and goes when
//! everything is written, at the latest after [`FAREWELL`]. A replica that stops by a wish waits for its storage, too, which notes the
//! clean end: at most [`STORAGE_FAREWELL`].
//!
//! A failure of the storage is final: the replica halts. Nothing in a turn waits for a disk.

mod alarm;
mod backlog;
mod connections;
mod execution;
mod narrator;
pub mod round_trips;
pub mod storage;
#[cfg(test)]
mod tests;
mod work;

pub use crate::snapshots::CheckpointSettings;
pub use connections::{ConnectionFigures, Connections, TcpConnections};

use crate::clock::Clock;
use crate::driver::{Disconnect, Driver, TurnInput, TurnOutput};
use crate::snapshots::Snapshots;
use crate::state_machine::StateMachine;
use crate::status::{CoreSnapshot, ShellCounters, StatusBoard};
use alarm::Alarm;
use backlog::Backlog;
use execution::Execution;
use narrator::Narrator;
use quorate_framework::{
    Consensus, ExecutorCommand, HaltReason, Position, RecoverySpec, ReplicaCommunicator, SnapshotBase, Ticket, Time,
};
use round_trips::RoundTrips;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use storage::Storage;

/// A replica that stops waits for its storage for this long at most: the next start can bear an end that was not clean.
pub const STORAGE_FAREWELL: Duration = Duration::from_secs(20);
/// A replica that ends stays for this long at most to answer and to refuse.
pub const FAREWELL: Duration = Duration::from_secs(2);
/// A replica that ends looks this often whether everything is written. It goes at the first such look at the earliest: requests that
/// were on their way are refused rather than cut off.
const LOOK: Duration = Duration::from_millis(5);

/// A protocol that a task can run; every protocol without references or thread-bound parts is.
pub trait Runnable:
    Consensus<Message: Send, Promise: Send, Record: RecoverySpec<State: Send> + Send, Verifier: Send> + Send + 'static
{
}

impl<C> Runnable for C where
    C: Consensus<Message: Send, Promise: Send, Record: RecoverySpec<State: Send> + Send, Verifier: Send>
        + Send
        + 'static
{
}

/// How a replica ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By the operator's wish.
    Stopped,
    /// By itself: going on would be wrong.
    Halted(HaltReason),
}

/// Tells a shell to end, from any thread. Clones are the same switch. Whoever switches it must wake the shell.
#[derive(Clone, Debug, Default)]
pub struct StopSwitch {
    on: Arc<AtomicBool>,
}

impl StopSwitch {
    /// Switches it on, for good.
    pub fn switch_on(&self) {
        self.on.store(true, Ordering::Release);
    }

    /// Whether it is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }
}

/// What a shell is put together from.
pub struct Parts<C: Consensus, L, T, E> {
    /// The driver with its protocol.
    pub driver: Driver<C>,
    /// What comes in, and the doors.
    pub connections: L,
    /// What goes out.
    pub communicator: T,
    /// The state machine.
    pub executor: E,
    /// The position whose effects its state holds.
    pub executed: Position,
    /// Where records become durable.
    pub storage: Box<dyn Storage<C>>,
    /// Bytes that may wait to become durable before requests are refused as busy.
    pub pending_bytes_limit: u64,
    /// The snapshots.
    pub snapshots: Snapshots<E>,
    /// When a checkpoint is due; never, if none.
    pub checkpoints: Option<CheckpointSettings>,
    /// The time.
    pub clock: Clock,
    /// Where snapshots are asked for.
    pub board: Arc<StatusBoard>,
    /// The switch that ends it.
    pub stop: StopSwitch,
}

/// The shell of one replica.
pub struct Shell<C: Consensus, L, T, E> {
    parts: ShellParts<C, L, T, E>,
    input: TurnInput,
    output: TurnOutput<C>,
    alarm: Alarm,
    /// The lanes hold more than the last turn's quotas allowed.
    more: bool,
    /// What is to be executed.
    backlog: Backlog,
    execution: Execution<E>,
    /// The last thing the state machine did was a group of commands.
    group_was_last: bool,
    /// The state machine holds a view for a snapshot.
    view_is_held: bool,
    /// The store is to be synced, as a checkpoint of this base.
    persist_next: Option<SnapshotBase>,
    /// A digest was ordered for somebody who asked at the board.
    digest_ordered: bool,
    /// The protocol knows that everything up to here is durable.
    told_durable: Ticket,
    ending: Option<Ending>,
    /// With an ending: when to go at the latest, and when to look next whether everything is written.
    farewell: (Time, Time),
    executed: Position,
    round_trips: RoundTrips,
    counters: ShellCounters,
    narrator: Narrator,
}

/// The parts that stay as they are.
struct ShellParts<C: Consensus, L, T, E> {
    driver: Driver<C>,
    connections: L,
    communicator: T,
    storage: Box<dyn Storage<C>>,
    pending_bytes_limit: u64,
    snapshots: Snapshots<E>,
    clock: Clock,
    board: Arc<StatusBoard>,
    stop: StopSwitch,
}

impl<C: Consensus, L, T, E> fmt::Debug for Shell<C, L, T, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Shell")
            .field("driver", &self.parts.driver)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}

impl<C, L, T, E> Shell<C, L, T, E>
where
    C: Runnable,
    L: Connections,
    T: ReplicaCommunicator,
    E: StateMachine,
{
    /// A shell that has done nothing yet.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(parts: Parts<C, L, T, E>) -> Shell<C, L, T, E> {
        let forming = parts.driver.forming();
        let (replica, formed_before) = (forming.replica(), forming.vector().is_some());
        let Parts { driver, connections, communicator, executor, executed, storage, pending_bytes_limit, .. } = parts;
        debug_assert_eq!(executor.keeping(), parts.snapshots.keeping());
        let Parts { mut snapshots, checkpoints, clock, board, stop, .. } = parts;
        snapshots.schedule(checkpoints, clock.now());
        if let Some(members) = driver.forming().vector() {
            snapshots.set_members(members);
        }
        let parts = ShellParts {
            driver,
            connections,
            communicator,
            storage,
            pending_bytes_limit,
            snapshots,
            clock,
            board,
            stop,
        };
        Shell {
            parts,
            input: TurnInput::new(),
            output: TurnOutput::new(),
            alarm: Alarm::new(),
            more: false,
            backlog: Backlog::default(),
            execution: Execution::new(executor),
            group_was_last: false,
            view_is_held: false,
            persist_next: None,
            digest_ordered: false,
            told_durable: Ticket::RECOVERED,
            ending: None,
            farewell: (Time::ZERO, Time::ZERO),
            executed,
            round_trips: RoundTrips::default(),
            counters: ShellCounters::default(),
            narrator: Narrator::new(replica, formed_before),
        }
    }

    /// Runs the replica until it is stopped or halts.
    pub async fn run(mut self) -> Ending {
        loop {
            self.wait().await;
            if self.parts.stop.is_on() && self.ending.is_none() {
                self.backlog.clear();
                self.parts.driver.stop(&mut self.output);
                self.carry_out().await;
                self.end(Ending::Stopped);
                self.parts.storage.begin_stop();
            }
            self.turn().await;
            if self.parts.board.is_wanted() {
                self.publish();
            }
            if self.ending.is_some()
                && self.may_go()
                && let Some(ending) = self.ending.take()
            {
                return self.judge(ending);
            }
        }
    }

    /// A stop whose storage did not end well is a failure.
    fn judge(&self, ending: Ending) -> Ending {
        match (ending, self.parts.storage.failure()) {
            (Ending::Stopped, Some(failure)) => Ending::Halted(HaltReason::Storage(failure)),
            (Ending::Stopped, None) if !self.parts.storage.is_stopped() => {
                let text = format!("the log was not synced within {} s of the stop", STORAGE_FAREWELL.as_secs());
                Ending::Halted(HaltReason::Storage(text))
            }
            (ending, _) => ending,
        }
    }

    /// With an ending: whether everything is written, or must be given up.
    fn may_go(&mut self) -> bool {
        let now = self.parts.clock.now();
        let (latest, look) = self.farewell;
        if now >= look {
            self.farewell.1 = now + LOOK;
        }
        if self.ending == Some(Ending::Stopped) && !self.parts.storage.is_stopped() {
            return now >= latest + (STORAGE_FAREWELL - FAREWELL);
        }
        now >= latest || (now >= look && !self.more && self.parts.connections.is_flushed())
    }

    /// Waits until there is something to do; lets the other tasks run in any case.
    async fn wait(&mut self) {
        let now = self.parts.clock.now();
        let deadline = self.next_deadline();
        let is_late = deadline.is_some_and(|deadline| deadline <= now);
        let is_news = self.parts.snapshots.has_news();
        if self.more || is_late || (self.ending.is_none() && (is_news || self.has_work())) {
            return tokio::task::yield_now().await;
        }
        let at = deadline.map(|deadline| self.parts.clock.instant(deadline));
        tokio::select! {
            biased;
            () = self.parts.connections.wait() => {}
            () = self.execution.finished() => {}
            () = self.alarm.ring_at_if(at) => {}
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let own = match self.ending {
            Some(_) => Some(self.farewell.1),
            None => [self.narrator.next_look(), self.parts.snapshots.next_look()].into_iter().flatten().min(),
        };
        [self.parts.driver.next_deadline(), own].into_iter().flatten().min()
    }

    /// Takes what has come in and lets the driver have its turn, if there is anything for it.
    async fn turn(&mut self) {
        self.more = self.parts.connections.take(&mut self.input);
        self.look_at_storage();
        let now = self.parts.clock.now();
        let is_due = self.parts.driver.next_deadline().is_some_and(|deadline| deadline <= now);
        if is_due || !self.input.is_empty() {
            self.counters.turns += 1;
            self.parts.driver.turn(now, &mut self.input, &mut self.output);
            self.carry_out().await;
        } else if self.output.halt.is_some()
            // At work, perhaps done: nobody else looks while there is always something to take in.
            || !self.execution.is_idle()
            || self.execution.is_persisting()
            || (self.ending.is_none() && (self.parts.snapshots.has_news() || self.has_work()))
        {
            self.carry_out().await;
        }
        if self.ending.is_none() {
            self.narrator.look(now, &self.parts.driver);
        }
    }

    /// Carries out what a turn wants, in the order said above.
    async fn carry_out(&mut self) {
        if let Some(claim) = self.output.claim.take() {
            self.parts.connections.announce(claim);
            if let Some(members) = self.parts.driver.forming().vector() {
                self.parts.snapshots.set_members(members);
            }
        }
        if !self.output.frames.is_empty() {
            self.parts.communicator.send(&mut self.output.frames).await;
        }
        self.disconnect().await;
        if !self.output.records.is_empty() || !self.output.identity.is_empty() {
            self.parts.storage.submit(&mut self.output.records, &mut self.output.identity);
        }
        self.carry_out_tasks();
        let has_ordered = !self.output.orders.is_empty();
        self.backlog.append(&mut self.output.commands, &mut self.output.orders);
        self.remake_snapshot(has_ordered).await;
        self.work().await;
        if !self.output.replies.is_empty() {
            self.counters.replies_sent += self.output.replies.len() as u64;
            self.parts.communicator.reply(&mut self.output.replies).await;
        }
        self.output.observations.drain(..).for_each(|observation| self.round_trips.observe(observation));
        for (against, what) in self.output.evidence.drain(..) {
            self.narrator.evidence(against, &what);
        }
        let halt = self.output.halt.take();
        self.output.clear();
        if let Some(reason) = halt.filter(|_| self.ending.is_none()) {
            tracing::error!("halting: {reason}");
            self.end(Ending::Halted(reason));
        }
    }

    /// Closes the links that must be closed, those and no others.
    async fn disconnect(&mut self) {
        for Disconnect { peer, link, reason } in self.output.disconnect.drain(..) {
            self.narrator.disconnected(peer, &reason);
            self.parts.communicator.disconnect(peer, link).await;
        }
    }

    /// Begins the end: nobody is let in any more, and the time to go is set.
    fn end(&mut self, ending: Ending) {
        self.ending = Some(ending);
        self.backlog.clear();
        self.parts.connections.close_doors();
        let now = self.parts.clock.now();
        self.farewell = (now + FAREWELL, now + LOOK);
    }

    fn publish(&self) {
        self.parts.board.publish(|| {
            let ConnectionFigures { traffic, clients, links } = self.parts.connections.figures();
            CoreSnapshot {
                driver: self.parts.driver.status(),
                executed: self.executed,
                storage: self.parts.storage.figures(),
                snapshots: self.parts.snapshots.figures(),
                shell: ShellCounters { parks: parks(), ..self.counters },
                traffic,
                clients,
                links,
                round_trips: self.round_trips.figures(),
            }
        });
    }
}

/// Times the threads of this runtime have waited in the kernel.
fn parks() -> u64 {
    let metrics = tokio::runtime::Handle::current().metrics();
    (0..metrics.num_workers()).map(|worker| metrics.worker_park_count(worker)).sum()
}

/// Committed batches of a command.
fn batches(command: &ExecutorCommand) -> u64 {
    match command {
        ExecutorCommand::Execute { range, .. } => range.batches.len() as u64,
        _ => 0,
    }
}
