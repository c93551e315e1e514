//! What the shell has the state machine do: groups of commands, and snapshots in their place among them.

use super::execution::{Done, Task};
use super::{Connections, Runnable, Shell, ShellParts, batches};
use crate::driver::SnapshotOrder;
use crate::snapshots::PIECE_BYTES;
use crate::snapshots::coordinator::{NamingOrder, TakeSteps, TurnStart};
use crate::state_machine::StateMachine;
use crate::status::StateDigest;
use quorate_framework::{ExecutorCommand, ExecutorError, HaltReason, ReplicaCommunicator, SnapshotBase, SnapshotId};

impl<C, L, T, E> Shell<C, L, T, E>
where
    C: Runnable,
    L: Connections,
    T: ReplicaCommunicator,
    E: StateMachine,
{
    /// Whether something waits that could be begun at once.
    pub(super) fn has_work(&mut self) -> bool {
        self.execution.is_idle()
            && (self.parts.board.wants_digest()
                || !self.backlog.is_empty()
                || (self.persist_next.is_some() && !self.execution.is_persisting())
                || self.parts.snapshots.wants_piece())
    }

    /// Lets the state machine do what is next: at most one group, and at most one piece of a snapshot.
    pub(super) async fn work(&mut self) {
        while let Some(done) = self.execution.look().await {
            self.done(done);
        }
        if self.ending.is_some() {
            return;
        }
        if !self.digest_ordered && self.parts.board.takes_digest_order() {
            self.digest_ordered = true;
            self.backlog.append(&mut vec![ExecutorCommand::Digest], &mut Vec::new());
        }
        self.carry_out_orders().await;
        // One at a time; a later one stands for those that waited.
        let may = self.execution.is_idle() && !self.execution.is_persisting();
        if let Some(base) = self.persist_next.take_if(|_| may) {
            self.begin(Task::Persist(base)).await;
        }
        // Where both wait, they take turns.
        if self.group_was_last && self.parts.snapshots.wants_piece() {
            self.make_piece().await;
        }
        self.execute_group().await;
        if self.parts.snapshots.wants_piece() {
            self.make_piece().await;
        }
        self.let_view_go();
        self.name_snapshots();
    }

    /// Carries out the orders about snapshots whose turn it is.
    async fn carry_out_orders(&mut self) {
        while self.execution.is_idle()
            && let Some(order) = self.backlog.take_order()
        {
            match order {
                SnapshotOrder::Take(base) => self.take_snapshot(base).await,
                SnapshotOrder::Install { id, base } => self.install_snapshot(id, &base),
            }
        }
    }

    async fn take_snapshot(&mut self, base: SnapshotBase) {
        let TakeSteps { view, persist } = self.parts.snapshots.take();
        if view {
            self.begin(Task::Begin(base.clone())).await;
        }
        if persist {
            self.persist_next = Some(base);
        }
    }

    fn install_snapshot(&mut self, id: SnapshotId, base: &SnapshotBase) {
        let Some(machine) = self.execution.machine() else { return };
        match self.parts.snapshots.install(id, base, machine) {
            Ok(()) => {
                self.view_is_held = false;
                self.persist_next = None;
                self.execution.forget_persisting();
                self.executed = self.executed.max(base.position);
            }
            Err(reason) => self.parts.driver.halt(HaltReason::Safety(reason), &mut self.output),
        }
    }

    /// Peers may wait for a snapshot that the protocol has not ordered.
    pub(super) async fn remake_snapshot(&mut self, has_ordered: bool) {
        let at_rest = (self.execution.is_idle() && self.backlog.is_empty()).then_some(self.executed);
        if let Some(base) = self.parts.snapshots.after_turn(has_ordered, at_rest)
            && self.ending.is_none()
        {
            self.begin(Task::Begin(base)).await;
        }
    }

    async fn execute_group(&mut self) {
        if !self.execution.is_idle() {
            return;
        }
        let Some(group) = self.execution.group() else { return };
        self.backlog.take_group(group);
        if group.is_empty() {
            return;
        }
        self.counters.groups_executed += 1;
        self.counters.batches_executed += group.iter().map(batches).sum::<u64>();
        self.group_was_last = true;
        self.begin(Task::Execute).await;
    }

    async fn make_piece(&mut self) {
        if self.execution.is_idle() && self.ending.is_none() {
            self.group_was_last = false;
            self.begin(Task::Piece(PIECE_BYTES)).await;
        }
    }

    async fn begin(&mut self, task: Task) {
        if let Some(done) = self.execution.begin(task).await {
            self.done(done);
        }
    }

    fn done(&mut self, done: Result<Done, ExecutorError>) {
        match done {
            Ok(Done::Executed(mut outcome)) => {
                if self.digest_ordered
                    && let Some(digest) = outcome.digest.take()
                {
                    self.digest_ordered = false;
                    self.parts.board.answer_digest(StateDigest { position: outcome.executed, digest });
                }
                self.executed = self.executed.max(outcome.executed);
                self.parts.snapshots.executed(outcome.transactions);
                self.parts.driver.executed(outcome, &mut self.output);
            }
            Ok(Done::Begun(base)) => {
                self.view_is_held = true;
                self.parts.snapshots.begun(base);
            }
            Ok(Done::Piece(bytes, last)) => self.parts.snapshots.piece(bytes, last),
            Ok(Done::Persisted(base)) => self.parts.snapshots.persisted(base),
            Err(error) => self.parts.driver.halt(HaltReason::Executor(error.to_string()), &mut self.output),
        }
    }

    /// Lets a view go that nobody reads any more: it costs while it lives.
    fn let_view_go(&mut self) {
        if self.view_is_held
            && self.execution.is_idle()
            && self.parts.snapshots.is_done_with_view()
            && let Some(machine) = self.execution.machine()
        {
            machine.drop_snapshot();
            self.view_is_held = false;
        }
    }

    /// Submits what the metadata are to name.
    fn name_snapshots(&mut self) {
        let ShellParts { driver, storage, snapshots, .. } = &mut self.parts;
        while let Some(NamingOrder { ticket, snapshot }) = snapshots.submit_naming(|| driver.issue_ticket()) {
            storage.name_snapshot(ticket, snapshot);
        }
    }

    /// Puts into the input what became durable and what became of snapshots, and whether a checkpoint is due.
    pub(super) fn look_at_storage(&mut self) {
        let durable = self.parts.storage.durable();
        if durable > self.told_durable {
            self.told_durable = durable;
            self.input.persisted = Some(durable);
        }
        self.input.storage_is_full = self.parts.storage.pending_bytes() > self.parts.pending_bytes_limit;
        let start = TurnStart {
            now: self.parts.clock.now(),
            durable,
            log_bytes: self.parts.storage.submitted_bytes(),
            is_started: self.parts.driver.is_started(),
        };
        self.parts.snapshots.before_turn(start, &mut self.input.snapshots);
        if let Some(failure) = self.parts.storage.failure()
            && self.ending.is_none()
        {
            self.parts.driver.halt(HaltReason::Storage(failure), &mut self.output);
        }
    }

    /// Carries out the protocol's tasks about snapshots.
    pub(super) fn carry_out_tasks(&mut self) {
        for task in self.output.tasks.drain(..) {
            let members = self.parts.driver.forming().vector();
            self.parts.snapshots.task(&task, |peer| members.and_then(|members| members.get(&peer).copied()));
        }
    }
}
