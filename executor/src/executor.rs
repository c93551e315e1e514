//! The executor: committed ranges in order, one range ahead of the commit, digests.
//!
//! ```text
//!                    executed
//!                        │        speculation (at most one range)
//! store, sessions ───────┤ - - - - - - - - - - - - - -
//!                        │  store: a write set over it;  sessions: changed in place, undone by a journal
//! ```

mod checkpoint;

use crate::frame::{State, keys_of};
use crate::overlay::{Overlaid, WriteSet};
use crate::replicated_limits::ReplicatedLimits;
use crate::session::SessionTable;
use crate::store::{KeyValue, OrderedStore, StoreError};
use async_trait::async_trait;
use quorate_framework::entry::EntryKind;
use quorate_framework::{
    Answer, Batch, BlockId, Digest, ExecuteRange, ExecutedAt, ExecutorCommand, ExecutorError, Outcome, Position,
    ReplyKind, TransactionExecutor,
};

/// What the error names when reads outside the log are asked for.
const READS: &str = "reads outside the log (they are served as commands in it)";

/// Keys that are announced to the store ahead of their use: enough to keep several memory accesses under way, few enough to stay in
/// the near caches until then.
const KEYS_AHEAD: usize = 64;

/// The key-value state machine over a store.
///
/// The replicated state is the store's entries, the session table, the limits and the executed position; its digest covers those.
/// After an error the executor answers every call with it.
#[derive(Debug)]
pub struct KvExecutor<S> {
    store: S,
    sessions: SessionTable,
    limits: ReplicatedLimits,
    executed: Position,
    block: BlockId,
    speculation: Option<Speculation>,
    results: Vec<u8>,
    failed: Option<ExecutorError>,
}

/// A range executed ahead of its commit. The session table's part is in its journal.
#[derive(Debug)]
struct Speculation {
    range: ExecuteRange,
    writes: WriteSet,
    answers: Vec<Answer>,
}

impl<S: OrderedStore> KvExecutor<S> {
    /// An executor over a store, with an empty session table. The store's applied position is the last executed one.
    #[must_use]
    pub fn new(store: S, limits: ReplicatedLimits) -> KvExecutor<S> {
        KvExecutor::restore(store, SessionTable::new(), limits, BlockId::default())
    }

    /// An executor over a state that was stored: `block` stands at the store's applied position.
    #[must_use]
    pub fn restore(store: S, sessions: SessionTable, limits: ReplicatedLimits, block: BlockId) -> KvExecutor<S> {
        let executed = store.applied();
        KvExecutor { store, sessions, limits, executed, block, speculation: None, results: Vec::new(), failed: None }
    }

    /// The store: the committed state, whatever is executed ahead.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// A view of the committed entries, to be read through [`KvExecutor::store`] while execution goes on.
    ///
    /// # Errors
    /// [`StoreError::Medium`].
    pub fn view(&mut self) -> Result<S::View, StoreError> {
        self.store.view()
    }

    /// The session table; while a range is executed ahead it shows the table after that.
    #[must_use]
    pub fn sessions(&self) -> &SessionTable {
        &self.sessions
    }

    /// The limits of the replicated state.
    #[must_use]
    pub fn limits(&self) -> &ReplicatedLimits {
        &self.limits
    }

    /// The last executed committed position.
    #[must_use]
    pub fn executed(&self) -> Position {
        self.executed
    }

    /// The last executed position with the block that stands there.
    #[must_use]
    pub fn executed_at(&self) -> ExecutedAt {
        ExecutedAt { position: self.executed, block: self.block }
    }

    /// Whether a range is executed ahead of its commit.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.speculation.is_some()
    }

    /// Carries out a group of commands in order and adds what comes of it to `outcome`. A digest is that of the state after the
    /// whole group. Waits only where the store does.
    ///
    /// # Errors
    /// [`ExecutorError`]; final. Part of the group may have been carried out.
    pub fn apply(
        &mut self,
        group: impl IntoIterator<Item = ExecutorCommand>,
        outcome: &mut Outcome,
    ) -> Result<(), ExecutorError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let done = self.apply_group(group, outcome);
        if let Err(error) = &done {
            self.failed = Some(error.clone());
        }
        done
    }

    fn apply_group(
        &mut self,
        group: impl IntoIterator<Item = ExecutorCommand>,
        outcome: &mut Outcome,
    ) -> Result<(), ExecutorError> {
        let mut digest = false;
        for command in group {
            match command {
                ExecutorCommand::Execute { range, answers } => self.execute_range(range, answers, outcome)?,
                ExecutorCommand::Speculate { base, range } => self.speculate_range(base, range, outcome)?,
                ExecutorCommand::Rollback { to } => self.roll_back(to)?,
                ExecutorCommand::Read(_) => return Err(ExecutorError::Unsupported(READS)),
                ExecutorCommand::Digest => digest = true,
            }
        }
        if digest {
            outcome.digest = Some(self.digest()?);
        }
        outcome.executed = self.executed;
        Ok(())
    }

    /// The digest of the committed state: entries, sessions, limits, position.
    ///
    /// # Errors
    /// [`ExecutorError::Store`].
    pub fn digest(&mut self) -> Result<Digest, ExecutorError> {
        let ahead = self.drop_speculation();
        let mut hasher = blake3::Hasher::new_derive_key("quorate executor state, version 1");
        hasher.update(&self.executed.0.to_le_bytes());
        hasher.update(&self.limits.to_bytes());
        hasher.update(&self.store.digest().map_err(store_failed)?.0);
        self.sessions.encode(|piece| {
            hasher.update(piece);
        });
        if let Some(range) = ahead {
            self.run_ahead(range)?;
        }
        Ok(Digest(*hasher.finalize().as_bytes()))
    }

    fn execute_range(
        &mut self,
        range: ExecuteRange,
        answers: bool,
        outcome: &mut Outcome,
    ) -> Result<(), ExecutorError> {
        let Some(last) = self.check_next(&range)? else { return Ok(()) };
        let (promoted, remainder) = self.settle_speculation(&range, answers, outcome)?;
        if promoted < range.batches.len() {
            let mut wanted = answers.then_some(&mut outcome.answers);
            let mut state = State {
                store: &mut self.store,
                sessions: &mut self.sessions,
                limits: &self.limits,
                results: &mut self.results,
            };
            let position = Position(range.first.0 + promoted as u64);
            if S::KEEPS_EXECUTOR_STATE {
                state.sessions.open_journal();
            }
            outcome.transactions +=
                run(&mut state, position, &range.batches[promoted..], ReplyKind::Committed, &mut wanted)?;
            self.keep_state(last)?;
            self.store.commit(range.last()).map_err(store_failed)?;
        }
        self.executed = range.last();
        self.block = last;
        match remainder {
            Some(remainder) => self.run_ahead(remainder).map(drop),
            None => Ok(()),
        }
    }

    fn speculate_range(
        &mut self,
        base: BlockId,
        range: ExecuteRange,
        outcome: &mut Outcome,
    ) -> Result<(), ExecutorError> {
        if self.continues_speculation(base, &range) {
            return self.extend_speculation(range, outcome);
        }
        self.drop_speculation();
        if base != self.block {
            return Err(ExecutorError::BadBase);
        }
        if self.check_next(&range)?.is_none() {
            return Ok(());
        }
        outcome.transactions += self.run_ahead(range)?;
        if let Some(speculation) = &self.speculation {
            outcome.answers.extend_from_slice(&speculation.answers);
        }
        Ok(())
    }

    /// Whether a range goes on where what lies ahead ends.
    fn continues_speculation(&self, base: BlockId, range: &ExecuteRange) -> bool {
        self.speculation.as_ref().is_some_and(|ahead| {
            let last = ahead.range.batches.last().map(|batch| batch.block);
            last == Some(base) && range.first == ahead.range.last().next()
        })
    }

    /// Executes a range ahead, over what lies ahead already.
    fn extend_speculation(&mut self, range: ExecuteRange, outcome: &mut Outcome) -> Result<(), ExecutorError> {
        let Some(mut speculation) = self.speculation.take() else { return Ok(()) };
        let mut state = State {
            store: &mut Overlaid::new(&self.store, &mut speculation.writes),
            sessions: &mut self.sessions,
            limits: &self.limits,
            results: &mut self.results,
        };
        let before = speculation.answers.len();
        let mut answers = Some(&mut speculation.answers);
        outcome.transactions += run(&mut state, range.first, &range.batches, ReplyKind::Speculative, &mut answers)?;
        outcome.answers.extend_from_slice(&speculation.answers[before..]);
        speculation.range.batches.extend(range.batches);
        self.speculation = Some(speculation);
        Ok(())
    }

    fn roll_back(&mut self, to: Position) -> Result<(), ExecutorError> {
        if to < self.executed {
            return Err(ExecutorError::RollbackBelowCommit { to, committed: self.executed });
        }
        if self.speculation.as_ref().is_none_or(|speculation| to >= speculation.range.last()) {
            return Ok(());
        }
        let Some(mut range) = self.drop_speculation() else { return Ok(()) };
        range.batches.truncate((to.0 - self.executed.0) as usize);
        if range.batches.is_empty() { Ok(()) } else { self.run_ahead(range).map(drop) }
    }

    /// Checks that a range continues what is executed; gives its last block, or none if it is empty.
    fn check_next(&self, range: &ExecuteRange) -> Result<Option<BlockId>, ExecutorError> {
        let Some(last) = range.batches.last() else { return Ok(None) };
        let expected = self.executed.next();
        if range.first == expected {
            Ok(Some(last.block))
        } else {
            Err(ExecutorError::OutOfOrder { expected, given: range.first })
        }
    }

    /// Promotes the speculation if the range begins with it, else drops it. Gives how many batches are thereby executed, and what
    /// of the speculation still lies ahead after the range.
    fn settle_speculation(
        &mut self,
        range: &ExecuteRange,
        answers: bool,
        outcome: &mut Outcome,
    ) -> Result<(usize, Option<ExecuteRange>), ExecutorError> {
        let Some(speculation) = &self.speculation else { return Ok((0, None)) };
        let ahead = &speculation.range.batches;
        let same = ahead.iter().zip(&range.batches).all(|(ahead, batch)| ahead.block == batch.block);
        let (length, covered) = (ahead.len(), range.batches.len());
        if !same || length > covered {
            // Rare: only a part of what lies ahead was committed. It is executed, and the rest is run ahead again behind it.
            let rest = self.drop_speculation().filter(|_| same).map(|mut ahead| ExecuteRange {
                first: Position(range.first.0 + covered as u64),
                batches: ahead.batches.split_off(covered),
            });
            return Ok((0, rest));
        }
        let Some(speculation) = self.speculation.take() else { return Ok((0, None)) };
        self.keep_state(last_block(&speculation.range, self.block))?;
        self.sessions.keep_changes();
        speculation.writes.promote(&mut self.store, speculation.range.last()).map_err(store_failed)?;
        if answers {
            let committed = |answer| Answer { kind: ReplyKind::Committed, ..answer };
            outcome.answers.extend(speculation.answers.into_iter().map(committed));
        }
        Ok((length, None))
    }

    /// Executes a range ahead, over the committed state; gives the transactions executed.
    fn run_ahead(&mut self, range: ExecuteRange) -> Result<u64, ExecutorError> {
        let mut writes = WriteSet::new();
        let mut answers = Vec::with_capacity(range.batches.len());
        self.sessions.open_journal();
        let mut state = State {
            store: &mut Overlaid::new(&self.store, &mut writes),
            sessions: &mut self.sessions,
            limits: &self.limits,
            results: &mut self.results,
        };
        let transactions =
            run(&mut state, range.first, &range.batches, ReplyKind::Speculative, &mut Some(&mut answers))?;
        self.speculation = Some(Speculation { range, writes, answers });
        Ok(transactions)
    }

    /// Back to the committed state; gives the range that was ahead.
    fn drop_speculation(&mut self) -> Option<ExecuteRange> {
        let speculation = self.speculation.take()?;
        self.sessions.undo_changes();
        Some(speculation.range)
    }
}

/// Executes batches from `first` on; gives the transactions executed.
fn run<K: KeyValue>(
    state: &mut State<'_, K>,
    first: Position,
    batches: &[Batch],
    kind: ReplyKind,
    answers: &mut Option<&mut Vec<Answer>>,
) -> Result<u64, ExecutorError> {
    let mut transactions = 0;
    // The batches before this one were announced to the store.
    let mut announced = if state.store.wants_announcements() { 0 } else { batches.len() };
    for (number, batch) in batches.iter().enumerate() {
        if number == announced {
            announced += announce(&*state.store, &batches[number..]);
        }
        let position = Position(first.0 + number as u64);
        // Everything that stands at a position moves it; only a request changes the state.
        if batch.kind != EntryKind::Request {
            continue;
        }
        let done = state.apply(position, &batch.payload).map_err(store_failed)?;
        transactions += u64::from(done.commands);
        if let Some(answers) = answers {
            answers.push(Answer {
                position,
                block: batch.block,
                kind,
                session: done.session,
                sequence: done.sequence,
                status: done.answer.status,
                body: done.answer.body,
            });
        }
    }
    Ok(transactions)
}

/// Announces the keys of the next batches to the store; gives how many batches.
fn announce<K: KeyValue>(store: &K, batches: &[Batch]) -> usize {
    let mut keys = Vec::with_capacity(KEYS_AHEAD);
    let mut announced = 0;
    for batch in batches {
        if keys.len() >= KEYS_AHEAD {
            break;
        }
        keys_of(&batch.payload, &mut keys);
        announced += 1;
    }
    store.announce(&keys);
    announced
}

/// The block of a range's last batch.
fn last_block(range: &ExecuteRange, before: BlockId) -> BlockId {
    range.batches.last().map_or(before, |batch| batch.block)
}

fn store_failed(error: StoreError) -> ExecutorError {
    ExecutorError::Store(error.to_string())
}

#[async_trait]
impl<S: OrderedStore> TransactionExecutor for KvExecutor<S> {
    async fn execute(&mut self, group: &mut Vec<ExecutorCommand>) -> Result<Outcome, ExecutorError> {
        let mut outcome = Outcome::default();
        self.apply(group.drain(..), &mut outcome)?;
        Ok(outcome)
    }
}
