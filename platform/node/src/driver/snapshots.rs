//! What the protocol and the node say to one another about snapshots.

use super::{Driver, TurnOutput};
use quorate_framework::{
    Consensus, Event, HaltReason, Position, ReplicaId, ServedSnapshot, SnapshotBase, SnapshotId, Time,
};

/// What became of snapshots, for the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotEvent {
    /// A checkpoint is due.
    Due,
    /// The one that was ordered is durable, and the metadata name it.
    Taken(Position),
    /// The one that was ordered could not be had.
    NotTaken(Position),
    /// One is ready for a peer.
    Ready {
        /// The peer.
        to: ReplicaId,
        /// The snapshot.
        snapshot: ServedSnapshot,
    },
    /// None can be had for a peer, or the one it was offered is gone.
    Unready(ReplicaId),
    /// A peer has pulled another part.
    Progress(ReplicaId),
    /// All of it is here, checked and synced.
    Fetched(SnapshotId),
    /// It could not be had.
    NotFetched(SnapshotId),
    /// It is the state now, durably.
    Installed(Position),
}

/// What has its place among the orders to the executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotOrder {
    /// Take a snapshot of the state at this position, which is where the executor is then.
    Take(SnapshotBase),
    /// Make the fetched snapshot the state.
    Install {
        /// Its name.
        id: SnapshotId,
        /// What the metadata must say of it.
        base: SnapshotBase,
    },
}

/// An order and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedOrder {
    /// So many of [`TurnOutput::commands`] come before it.
    pub after: usize,
    /// The order.
    pub order: SnapshotOrder,
}

/// What is to be done at once, whatever the executor does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotTask {
    /// Make one ready for a peer.
    Offer {
        /// The peer.
        to: ReplicaId,
        /// The oldest position that is of use.
        at_least: Position,
    },
    /// A peer needs the one made ready for it no longer.
    Withdraw(ReplicaId),
    /// Pull one from a peer.
    Fetch {
        /// From whom.
        from: ReplicaId,
        /// Which.
        snapshot: ServedSnapshot,
    },
    /// What is being fetched, or was, is of no use any more.
    Cancel,
    /// The durable log may forget everything up to here.
    ForgetLog(Position),
}

impl<C: Consensus> Driver<C> {
    /// Tells the protocol what became of a snapshot.
    pub(super) fn snapshot_event(&mut self, now: Time, event: SnapshotEvent, output: &mut TurnOutput<C>) {
        if let SnapshotEvent::Installed(position) = event
            && self.ended.is_none()
        {
            self.executed_position = self.executed_position.max(position);
            self.waiters.executed(position);
            self.tell_unknown(output);
        }
        let event = match event {
            SnapshotEvent::Due => Event::SnapshotDue,
            SnapshotEvent::Taken(position) => Event::SnapshotTaken { position, root: None },
            SnapshotEvent::NotTaken(position) => Event::SnapshotNotTaken { position },
            SnapshotEvent::Ready { to, snapshot } => Event::SnapshotReady { to, snapshot },
            SnapshotEvent::Unready(to) => Event::SnapshotUnready { to },
            SnapshotEvent::Progress(peer) => Event::SnapshotProgress { peer },
            SnapshotEvent::Fetched(id) => Event::SnapshotFetched { id },
            SnapshotEvent::NotFetched(id) => Event::SnapshotNotFetched { id },
            SnapshotEvent::Installed(position) => Event::SnapshotInstalled { position },
        };
        self.deliver(now, event, output);
    }

    /// Hands out an order that has its place among those to the executor.
    pub(super) fn place(&mut self, name: &'static str, order: SnapshotOrder, output: &mut TurnOutput<C>) {
        if self.settings.snapshots {
            output.orders.push(PlacedOrder { after: output.commands.len(), order });
        } else {
            self.halt(HaltReason::EffectUnsupported(name), output);
        }
    }

    /// Hands out a task.
    pub(super) fn task(&mut self, name: &'static str, task: SnapshotTask, output: &mut TurnOutput<C>) {
        if self.settings.snapshots {
            output.tasks.push(task);
        } else {
            self.halt(HaltReason::EffectUnsupported(name), output);
        }
    }
}
