//! The snapshot that is being fetched: pulled, checked and loaded, in this order, and then waiting to be installed.

use super::Coordinator;
use super::effects::{LoadedSnapshot, SnapshotEffect, SnapshotNote};
use crate::driver::SnapshotEvent;
use quorate_executor::snapshot::SnapshotName;
use quorate_framework::{Incarnation, ReplicaId, ServedSnapshot, SnapshotBase, SnapshotId};
use std::collections::BTreeSet;

/// How far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage<M, F> {
    Pulling,
    Loading,
    Loaded(Box<LoadedSnapshot<M, F>>),
}

/// One that is being fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetch<M, F> {
    snapshot: ServedSnapshot,
    stage: Stage<M, F>,
}

impl<M, F> Fetch<M, F> {
    pub(super) fn snapshot(&self) -> ServedSnapshot {
        self.snapshot
    }

    pub(super) fn is_loaded(&self) -> bool {
        matches!(self.stage, Stage::Loaded(_))
    }

    pub(super) fn loaded_machine(&mut self) -> Option<&mut M> {
        match &mut self.stage {
            Stage::Loaded(loaded) => Some(&mut loaded.machine),
            Stage::Pulling | Stage::Loading => None,
        }
    }

    /// The files that belong to it.
    pub(super) fn names(&self) -> [SnapshotName; 2] {
        [SnapshotName::Fetched(self.snapshot.id), SnapshotName::Complete(self.snapshot.position)]
    }
}

/// What is fetched, and what was given up and is still being worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetching<M, F> {
    pub(super) current: Option<Fetch<M, F>>,
    /// Given up, and its end is not told yet: until then its files may be written and renamed behind our back, so that none of the same
    /// name may be begun.
    given_up: BTreeSet<SnapshotId>,
    /// The last generation of the store that was begun.
    last_generation: u64,
}

impl<M, F> Fetching<M, F> {
    pub(super) fn new(last_generation: u64) -> Fetching<M, F> {
        Fetching { current: None, given_up: BTreeSet::new(), last_generation }
    }

    fn current_of(&mut self, id: SnapshotId) -> Option<&mut Fetch<M, F>> {
        self.current.as_mut().filter(|fetch| fetch.snapshot.id == id)
    }
}

impl<M, F: Clone> Coordinator<M, F> {
    /// `incarnation` is the bound one of the peer.
    pub(super) fn fetch(&mut self, from: ReplicaId, incarnation: Option<Incarnation>, snapshot: ServedSnapshot) {
        let id = snapshot.id;
        if self.fetching.current_of(id).is_some() {
            return;
        }
        self.drop_fetch();
        let Some(incarnation) = incarnation else {
            return self.refuse_fetch(id, "its source is no member");
        };
        if self.fetching.given_up.contains(&id) {
            return self.refuse_fetch(id, "an earlier fetch of it, which was given up, has not ended yet");
        }
        self.note(SnapshotNote::Fetching { from, snapshot });
        self.effects.push_back(SnapshotEffect::Pull { from, incarnation, snapshot });
        self.fetching.current = Some(Fetch { snapshot, stage: Stage::Pulling });
    }

    fn refuse_fetch(&mut self, id: SnapshotId, reason: &str) {
        self.note(SnapshotNote::NotFetched { id, reason: reason.to_owned() });
        self.events.push(SnapshotEvent::NotFetched(id));
    }

    /// Lets go of what is being fetched.
    pub(super) fn drop_fetch(&mut self) {
        let Some(Fetch { snapshot, stage }) = self.fetching.current.take() else { return };
        match stage {
            Stage::Pulling => {
                self.fetching.given_up.insert(snapshot.id);
                self.effects.push_back(SnapshotEffect::StopPulling);
            }
            Stage::Loading => {
                self.fetching.given_up.insert(snapshot.id);
                self.effects.push_back(SnapshotEffect::StopLoading);
            }
            Stage::Loaded(loaded) => self.discard(loaded.machine, loaded.store_generation),
        }
        self.remove_useless_files();
    }

    pub(super) fn pulled(&mut self, id: SnapshotId, outcome: Result<(), String>) {
        if self.fetching.given_up.remove(&id) {
            return self.remove_useless_files();
        }
        let Fetching { current, last_generation, .. } = &mut self.fetching;
        let Some(fetch) = current.as_mut().filter(|fetch| fetch.snapshot.id == id) else { return };
        match outcome {
            Ok(()) => {
                // Never one that was begun before and may still be open.
                *last_generation += 1;
                let (snapshot, store_generation) = (fetch.snapshot, *last_generation);
                fetch.stage = Stage::Loading;
                self.effects.push_back(SnapshotEffect::Load { snapshot, store_generation });
            }
            Err(reason) => {
                // It has ended: nothing is to be stopped.
                self.fetching.current = None;
                self.remove_useless_files();
                self.refuse_fetch(id, &reason);
            }
        }
    }

    pub(super) fn loaded(&mut self, id: SnapshotId, outcome: Result<LoadedSnapshot<M, F>, String>) {
        let is_given_up = self.fetching.given_up.remove(&id);
        match (outcome, self.fetching.current_of(id)) {
            (Ok(loaded), Some(fetch)) => {
                fetch.stage = Stage::Loaded(Box::new(loaded));
                self.events.push(SnapshotEvent::Fetched(id));
            }
            (Ok(loaded), None) => {
                self.discard(loaded.machine, loaded.store_generation);
                self.remove_useless_files();
            }
            (Err(reason), Some(_)) => {
                self.fetching.current = None;
                self.remove_useless_files();
                self.refuse_fetch(id, &reason);
            }
            (Err(_), None) if is_given_up => self.remove_useless_files(),
            (Err(_), None) => {}
        }
    }

    /// Makes the fetched state machine the present one, `machine`. The one before is discarded when the metadata name the new one.
    ///
    /// # Errors
    /// In words, if what was ordered is not what is ready. The replica must then stop.
    pub fn install(&mut self, id: SnapshotId, base: &SnapshotBase, machine: &mut M) -> Result<(), String> {
        let loaded = match self.fetching.current.take_if(|fetch| fetch.snapshot.id == id) {
            Some(Fetch { stage: Stage::Loaded(loaded), .. }) => *loaded,
            _ => return Err(format!("the snapshot at {} was to be installed and is not loaded", base.position)),
        };
        if loaded.base != *base {
            return Err(format!("the snapshot at {} is not the one that its source announced", base.position));
        }
        self.note(SnapshotNote::Installed(loaded.summary));
        self.figures.installed += 1;
        if self.writing.take().is_some() {
            // It is of the state before.
            self.effects.push_back(SnapshotEffect::StopWriting);
        }
        self.offers.newest = Some(loaded.ready);
        let before = std::mem::replace(machine, loaded.machine);
        self.retired.push((before, self.naming.latest().store_generation));
        self.name(loaded.base, loaded.store_generation, SnapshotEvent::Installed);
        Ok(())
    }
}
