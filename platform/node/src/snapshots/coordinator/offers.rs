//! What is ready for peers, and who waits for something newer.

use super::Coordinator;
use super::effects::{ReadySnapshot, SnapshotEffect};
use crate::driver::SnapshotEvent;
use quorate_framework::{Position, ReplicaId};
use std::collections::{BTreeMap, BTreeSet};

/// Peers, and the newest snapshot with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offers<F> {
    pub(super) newest: Option<ReadySnapshot<F>>,
    /// Peers for whom one is to be made ready, and from where on it is of use.
    pub(super) waiting: BTreeMap<ReplicaId, Position>,
    /// Peers that something is served to.
    pub(super) serving: BTreeSet<ReplicaId>,
    /// The protocol was told that one is due, for peers that wait.
    pub(super) has_asked: bool,
}

impl<F> Offers<F> {
    pub(super) fn new(newest: Option<ReadySnapshot<F>>) -> Offers<F> {
        Offers { newest, waiting: BTreeMap::new(), serving: BTreeSet::new(), has_asked: false }
    }

    /// Whether the protocol is to be told that one is due because peers wait. Once for each that comes of it.
    pub(super) fn asks_for_one(&mut self) -> bool {
        let asks = !self.waiting.is_empty() && !self.has_asked;
        self.has_asked |= asks;
        asks
    }
}

impl<M, F: Clone> Coordinator<M, F> {
    pub(super) fn offer(&mut self, to: ReplicaId, at_least: Position) {
        self.offers.waiting.insert(to, at_least);
        self.serve_newest();
    }

    /// Serves the newest to those it is of use to.
    pub(super) fn serve_newest(&mut self) {
        let Offers { newest: Some(ready), waiting, serving, has_asked } = &mut self.offers else { return };
        waiting.retain(|to, at_least| {
            let is_of_use = *at_least <= ready.snapshot.position;
            if is_of_use {
                serving.insert(*to);
                self.effects.push_back(SnapshotEffect::Serve { to: *to, ready: ready.clone() });
                self.events.push(SnapshotEvent::Ready { to: *to, snapshot: ready.snapshot });
            }
            !is_of_use
        });
        *has_asked &= !waiting.is_empty();
    }

    pub(super) fn withdraw(&mut self, from: ReplicaId) {
        self.offers.waiting.remove(&from);
        self.offers.has_asked &= !self.offers.waiting.is_empty();
        self.offers.serving.remove(&from);
        self.effects.push_back(SnapshotEffect::Withdraw(from));
    }

    /// None can be had for those that wait: they are told.
    pub(super) fn disappoint(&mut self) {
        let waiting = std::mem::take(&mut self.offers.waiting);
        self.events.extend(waiting.into_keys().map(SnapshotEvent::Unready));
        self.offers.has_asked = false;
    }
}
