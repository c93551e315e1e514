//! What decides about the snapshots of a replica: when a checkpoint is due, what is taken, fetched, served, installed, kept and removed,
//! what the metadata are to name, and what the protocol is told.
//!
//! A state machine without threads, clock, files or sockets: calls and [reports](SnapshotReport) in, ordered
//! [effects](SnapshotEffect) and [events](SnapshotEvent) out. The node's shell drives it with threads ([`super::Snapshots`]); the
//! simulator drives the very same one step by step and crashes in between.
//!
//! ```text
//! a turn:    before_turn ─▶ the driver's turn ─▶ task* ─▶ after_turn ─▶ take | install ─▶ submit_naming*
//! a taking:  take ─▶ begun ─▶ Write ─▶ Written ─▶ submit_naming ─▶ durable ─▶ Taken
//! a fetch:   task(Fetch) ─▶ Pull ─▶ Pulled ─▶ Load ─▶ Loaded ─▶ Fetched ─▶ install ─▶ submit_naming ─▶ durable ─▶ Installed
//! ```
//!
//! The rules it keeps:
//!
//! 1. Taken and Installed are told when the metadata name the snapshot durably, not before.
//! 2. What the metadata name, or may name once a change on its way is written, keeps its file and its generation of the store.
//! 3. A snapshot is installed only when all of it was checked, loaded and made durable, and only if it is the one that was ordered.
//! 4. One snapshot is fetched and one taken at a time, and none is fetched again while threads still work on an earlier fetch of it.
//! 5. Peers that wait for a snapshot get it, or are told that none can be had; so is the protocol.

mod checkpoints;
mod effects;
mod fetching;
mod naming;
mod offers;

#[cfg(test)]
mod tests;

pub use checkpoints::CheckpointSettings;
pub use effects::{
    LoadedSnapshot, NamingOrder, ReadySnapshot, SnapshotEffect, SnapshotNote, SnapshotReport, TakeSteps, TurnStart,
};

use super::figures::SnapshotFigures;
use crate::driver::{SnapshotEvent, SnapshotTask};
use crate::shell::storage::NamedSnapshot;
use checkpoints::Checkpoints;
use fetching::{Fetch, Fetching};
use naming::Naming;
use offers::Offers;
use quorate_executor::snapshot::SnapshotName;
use quorate_framework::{Incarnation, Position, ReplicaId, SnapshotBase, Ticket, Time};
use std::collections::VecDeque;

/// What a checkpoint of a replica consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// Nothing outlives the process: there are no metadata, and a snapshot lives while it is served.
    Passing,
    /// A snapshot file that the metadata name.
    File,
    /// The store on disk, all of it written out, whose base the metadata name. A file is made only for peers, and keeps no name.
    Store,
}

/// Decides about the snapshots of one replica. `M` is its state machine, `F` an open snapshot file.
#[derive(Clone, Debug)]
pub struct Coordinator<M, F> {
    kind: CheckpointKind,
    checkpoints: Checkpoints,
    /// The protocol was told in this turn that one is due because peers wait for it.
    due_for_peers: bool,
    naming: Naming,
    offers: Offers<F>,
    /// The state that is being written to a file.
    writing: Option<SnapshotBase>,
    fetching: Fetching<M, F>,
    /// State machines whose place was taken, with their generations, until no start may need them any more.
    retired: Vec<(M, u64)>,
    events: Vec<SnapshotEvent>,
    effects: VecDeque<SnapshotEffect<M, F>>,
    figures: SnapshotFigures,
}

impl<M, F: Clone> Coordinator<M, F> {
    /// For a replica that starts: what its metadata name, if anything, and the file of that, if there is one. A checkpoint is due only
    /// for peers.
    #[must_use]
    pub fn new(
        kind: CheckpointKind,
        named: Option<NamedSnapshot>,
        newest: Option<ReadySnapshot<F>>,
    ) -> Coordinator<M, F> {
        let naming = Naming::new(named);
        Coordinator {
            kind,
            checkpoints: Checkpoints::new(None, Time::ZERO),
            due_for_peers: false,
            offers: Offers::new(newest),
            writing: None,
            fetching: Fetching::new(naming.latest().store_generation),
            naming,
            retired: Vec::new(),
            events: Vec::new(),
            effects: VecDeque::new(),
            figures: SnapshotFigures::default(),
        }
    }

    /// What a checkpoint consists of.
    #[must_use]
    pub fn kind(&self) -> CheckpointKind {
        self.kind
    }

    /// From now on a checkpoint is due by these settings, too.
    pub fn schedule(&mut self, settings: Option<CheckpointSettings>, now: Time) {
        self.checkpoints = Checkpoints::new(settings, now);
    }

    /// When a turn is wanted, because a checkpoint may be due then.
    #[must_use]
    pub fn next_look(&self) -> Option<Time> {
        self.checkpoints.next_look()
    }

    /// So many more transactions were executed.
    pub fn executed(&mut self, transactions: u64) {
        self.checkpoints.executed(transactions);
    }

    /// Takes up what has become durable, and puts what the protocol must hear in its next turn into `events`, also that a checkpoint
    /// is due.
    pub fn before_turn(&mut self, start: TurnStart, events: &mut Vec<SnapshotEvent>) {
        if self.naming.durable(start.durable, &mut self.events) {
            self.clean_up();
        }
        events.append(&mut self.events);
        self.checkpoints.logged(start.log_bytes);
        let may = start.is_started && !self.is_busy();
        self.due_for_peers = may && self.offers.asks_for_one();
        if self.due_for_peers || self.checkpoints.is_due(start.now, may) {
            events.push(SnapshotEvent::Due);
        }
    }

    /// After the turn that [`Coordinator::before_turn`] began. If peers wait for a snapshot and the protocol has ordered none, since
    /// nothing was executed after the last one, that one is made again from the state, which is still the same: gives the base of
    /// which the state machine is to hold a view. `at_rest` is how far it has executed, if nothing waits to be.
    #[must_use]
    pub fn after_turn(&mut self, has_ordered: bool, at_rest: Option<Position>) -> Option<SnapshotBase> {
        if !std::mem::take(&mut self.due_for_peers) || has_ordered {
            return None;
        }
        let base = &self.naming.latest().base;
        if base.position > Position::ZERO && Some(base.position) == at_rest {
            return Some(base.clone());
        }
        // It is asked again when more was executed.
        self.offers.has_asked = false;
        None
    }

    /// Carries out a task of the protocol. `incarnation_of` gives the bound incarnation of a peer.
    pub fn task(&mut self, task: &SnapshotTask, incarnation_of: impl Fn(ReplicaId) -> Option<Incarnation>) {
        match *task {
            SnapshotTask::Offer { to, at_least } => self.offer(to, at_least),
            SnapshotTask::Withdraw(from) => self.withdraw(from),
            SnapshotTask::Fetch { from, snapshot } => self.fetch(from, incarnation_of(from), snapshot),
            SnapshotTask::Cancel => self.drop_fetch(),
            SnapshotTask::ForgetLog(through) if self.kind != CheckpointKind::Passing => self.naming.release(through),
            SnapshotTask::ForgetLog(_) => {}
        }
    }

    /// The turn of an order for a checkpoint has come: what the state machine is to do for it.
    #[must_use]
    pub fn take(&self) -> TakeSteps {
        let persist = self.kind == CheckpointKind::Store;
        let needs_file = !persist || !self.offers.waiting.is_empty();
        TakeSteps { view: needs_file && !self.is_busy(), persist }
    }

    /// The state machine holds a view of its state, of this base.
    pub fn begun(&mut self, base: SnapshotBase) {
        self.effects.push_back(SnapshotEffect::Write(base.clone()));
        self.writing = Some(base);
    }

    /// The store holds the state of a base, durably.
    pub fn persisted(&mut self, base: SnapshotBase) {
        self.figures.taken += 1;
        self.name(base, self.naming.latest().store_generation, SnapshotEvent::Taken);
    }

    /// Takes up what has come of an effect, or what a peer does.
    pub fn report(&mut self, report: SnapshotReport<M, F>) {
        match report {
            SnapshotReport::Progress(peer) => self.events.push(SnapshotEvent::Progress(peer)),
            SnapshotReport::Written { base, outcome } => self.written(base, outcome),
            SnapshotReport::Pulled { id, outcome } => self.pulled(id, outcome),
            SnapshotReport::Loaded { id, outcome } => self.loaded(id, outcome),
        }
    }

    fn written(&mut self, base: SnapshotBase, outcome: Result<ReadySnapshot<F>, String>) {
        if self.writing.take_if(|writing| *writing == base).is_none() {
            // Another state has taken the place of the one it was of.
            return self.remove_useless_files();
        }
        match outcome {
            Ok(ready) => {
                self.note(SnapshotNote::Taken(ready.snapshot));
                self.offers.newest = Some(ready);
                self.serve_newest();
                // Those that it is too old for need another.
                self.offers.has_asked = false;
                if self.kind != CheckpointKind::Store {
                    self.figures.taken += 1;
                    self.name(base, self.naming.latest().store_generation, SnapshotEvent::Taken);
                }
            }
            Err(reason) => {
                // The next checkpoint tries again. Whoever asked for this one need not wait for that.
                self.note(SnapshotNote::NotTaken { position: base.position, reason });
                self.figures.failed += 1;
                if self.kind != CheckpointKind::Store {
                    self.events.push(SnapshotEvent::NotTaken(base.position));
                }
                self.disappoint();
            }
        }
    }

    /// The generation of the store that the state machine is, by the latest change of the metadata, which may still be on its way.
    #[must_use]
    pub fn store_generation(&self) -> u64 {
        self.naming.latest().store_generation
    }

    /// Has the metadata name a snapshot; without metadata it counts at once.
    fn name(&mut self, base: SnapshotBase, store_generation: u64, then: impl FnOnce(Position) -> SnapshotEvent) {
        let then = then(base.position);
        if self.kind == CheckpointKind::Passing {
            self.naming.set(base, store_generation);
            self.events.push(then);
            self.clean_up();
        } else {
            self.naming.name(base, store_generation, then);
        }
    }

    /// The next change of the metadata that is to be submitted, if any, with the ticket that it draws.
    pub fn submit_naming(&mut self, ticket: impl FnOnce() -> Ticket) -> Option<NamingOrder> {
        self.naming.submit_next(ticket).map(|(ticket, snapshot)| NamingOrder { ticket, snapshot })
    }

    /// The next thing to be done.
    pub fn next_effect(&mut self) -> Option<SnapshotEffect<M, F>> {
        self.effects.pop_front()
    }

    /// Whether there is something for the protocol or the metadata.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.events.is_empty() || self.naming.wants_a_ticket()
    }

    /// Whether one is being taken, or made known.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.writing.is_some() || self.naming.is_changing()
    }

    /// Whether one is being written.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Whether one is being fetched, and not loaded yet.
    #[must_use]
    pub fn is_fetching(&self) -> bool {
        self.fetching.current.as_ref().is_some_and(|fetch| !fetch.is_loaded())
    }

    /// The state machine that was made of a fetched snapshot and is not installed.
    pub fn loaded_machine(&mut self) -> Option<&mut M> {
        self.fetching.current.as_mut().and_then(Fetch::loaded_machine)
    }

    /// Figures for operators.
    #[must_use]
    pub fn figures(&self) -> SnapshotFigures {
        let newest = self.offers.newest.as_ref().map(|ready| ready.snapshot);
        let position = newest.map_or(Position::ZERO, |newest| newest.position).max(self.naming.latest().base.position);
        SnapshotFigures {
            position: position.0,
            bytes: newest.map_or(0, |newest| newest.length_bytes),
            serving: self.offers.serving.len() as u64,
            taking: self.writing.is_some(),
            fetching: self.fetching.current.as_ref().map_or(0, |fetch| fetch.snapshot().position.0),
            ..self.figures
        }
    }

    fn note(&mut self, note: SnapshotNote) {
        self.effects.push_back(SnapshotEffect::Note(note));
    }

    fn discard(&mut self, machine: M, store_generation: u64) {
        self.effects.push_back(SnapshotEffect::Discard { machine, store_generation });
    }

    /// The metadata name another snapshot: what only the one before needed goes.
    fn clean_up(&mut self) {
        self.remove_useless_files();
        let naming = &self.naming;
        let useless: Vec<(M, u64)> = self
            .retired
            .extract_if(.., |(_, generation)| naming.all().all(|named| named.store_generation != *generation))
            .collect();
        for (machine, store_generation) in useless {
            self.discard(machine, store_generation);
        }
    }

    /// Removes the files that neither the metadata nor anything under way needs.
    fn remove_useless_files(&mut self) {
        let mut keep = Vec::new();
        if self.kind == CheckpointKind::File {
            let positions = self.naming.all().map(|named| named.base.position);
            keep.extend(positions.filter(|position| *position > Position::ZERO).map(SnapshotName::Complete));
        }
        if let Some(SnapshotBase { position, .. }) = self.writing {
            keep.extend([SnapshotName::Temporary(position), SnapshotName::Complete(position)]);
        }
        keep.extend(self.fetching.current.iter().flat_map(Fetch::names));
        self.effects.push_back(SnapshotEffect::RemoveFilesBut(keep));
    }
}
