//! What PBFT's records rebuild.

use crate::record::{PbftRecord, Signatures, ViewMode};
use bytes::Bytes;
use quorate_framework::{Digest, Position, ReplayError, SnapshotBase};
use std::collections::BTreeMap;

/// A prepared proof.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prepared {
    /// The view it prepared in.
    pub view: u64,
    /// Digest of the body.
    pub digest: Digest,
    /// The proof.
    pub signatures: Signatures,
}

/// What is known of one sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The proposals accepted, by view: digest and body. At most one of each view.
    pub candidates: BTreeMap<u64, (Digest, Bytes)>,
    /// The highest view in which it prepared here.
    pub prepared: Option<Prepared>,
    /// View and digest it committed with.
    pub committed: Option<(u64, Digest)>,
}

/// A checkpoint that a quorum has signed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StableCheckpoint {
    /// Its sequence: the low watermark.
    pub position: Position,
    /// Digest of the state there.
    pub digest: Digest,
    /// The proof.
    pub signatures: Signatures,
}

/// What PBFT starts from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PbftState {
    /// The active or last active view.
    pub view: u64,
    /// Whether it is active.
    pub mode: ViewMode,
    /// The snapshot the store begins with: position and digest of the state. Committed slots above it are executed again, in order.
    pub snapshot: Option<(Position, Digest)>,
    /// The latest stable checkpoint.
    pub stable: Option<StableCheckpoint>,
    /// The slots above the snapshot.
    pub slots: BTreeMap<Position, Slot>,
    /// The latest VIEW-CHANGE that may have been sent: the view it asks for, and the message.
    pub view_change: Option<(u64, Bytes)>,
    /// The NEW-VIEW that began the latest view.
    pub new_view: Option<(u64, Bytes)>,
}

impl PbftState {
    pub(crate) fn from_snapshot(snapshot: Option<&SnapshotBase>) -> Result<PbftState, ReplayError> {
        let Some(snapshot) = snapshot else { return Ok(PbftState::default()) };
        let digest = snapshot
            .protocol
            .as_slice()
            .try_into()
            .map_err(|_| ReplayError(format!("the snapshot at {} names no digest", snapshot.position)))?;
        Ok(PbftState { snapshot: Some((snapshot.position, Digest(digest))), ..PbftState::default() })
    }

    /// Last sequence that the snapshot holds.
    fn base(&self) -> Position {
        self.snapshot.map_or(Position::ZERO, |(position, _)| position)
    }

    /// The slot of a sequence; none if the snapshot holds it.
    fn slot(&mut self, position: Position) -> Option<&mut Slot> {
        (position > self.base()).then(|| self.slots.entry(position).or_default())
    }

    pub(crate) fn replay(&mut self, record: PbftRecord) -> Result<(), ReplayError> {
        match record {
            PbftRecord::ViewState { view, mode } => self.enter(view, mode)?,
            PbftRecord::PrePrepare { view, position, digest, body } => {
                let Some(slot) = self.slot(position) else { return Ok(()) };
                let (known, _) = slot.candidates.entry(view).or_insert((digest, body));
                if *known != digest {
                    return wrong(format!("two proposals for view {view}, sequence {position}: {known} and {digest}"));
                }
            }
            PbftRecord::Prepared { view, position, digest, signatures } => {
                let Some(slot) = self.slot(position) else { return Ok(()) };
                if slot.candidates.get(&view).is_none_or(|(known, _)| *known != digest) {
                    return wrong(format!(
                        "sequence {position} prepared {digest} in view {view}, which was not proposed"
                    ));
                }
                if slot.prepared.as_ref().is_none_or(|prepared| prepared.view <= view) {
                    slot.prepared = Some(Prepared { view, digest, signatures });
                }
            }
            PbftRecord::Committed { view, position, digest } => {
                let Some(slot) = self.slot(position) else { return Ok(()) };
                match slot.committed {
                    Some((_, known)) if known != digest => {
                        return wrong(format!("sequence {position} is committed with {known} and with {digest}"));
                    }
                    Some(_) => {}
                    None => slot.committed = Some((view, digest)),
                }
            }
            PbftRecord::StableCheckpoint { position, digest, signatures } => {
                if let Some(stable) = &self.stable
                    && position < stable.position
                {
                    return wrong(format!("stable checkpoint {position} after {}", stable.position));
                }
                self.stable = Some(StableCheckpoint { position, digest, signatures });
            }
            PbftRecord::ViewChangeSent { to, message } => {
                self.enter(self.view, ViewMode::Changing { to })?;
                self.view_change = Some((to, message));
            }
            PbftRecord::NewView { view, message } => {
                self.enter(view, ViewMode::Normal)?;
                self.new_view = Some((view, message));
            }
        }
        Ok(())
    }

    /// A replica never goes back: neither to a view below, nor into one that it has left.
    fn enter(&mut self, view: u64, mode: ViewMode) -> Result<(), ReplayError> {
        let reached = |view: u64, mode: ViewMode| match mode {
            ViewMode::Normal => view,
            ViewMode::Changing { to } => to,
        };
        let (before, after) = (reached(self.view, self.mode), reached(view, mode));
        if view < self.view || after < before {
            return wrong(format!("view {view} ({mode:?}) after view {} ({:?})", self.view, self.mode));
        }
        (self.view, self.mode) = (view, mode);
        Ok(())
    }

    pub(crate) fn anomalies(&self) -> Vec<String> {
        let Some(stable) = &self.stable else { return Vec::new() };
        let first = self.base().next();
        let is_committed =
            |position: &u64| self.slots.get(&Position(*position)).is_some_and(|slot| slot.committed.is_some());
        let missing = (first.0..=stable.position.0).find(|position| !is_committed(position));
        missing.map_or_else(Vec::new, |position| {
            vec![format!(
                "checkpoint {} is stable, and sequence {position} below it is not known to be committed: the state is fetched from others",
                stable.position
            )]
        })
    }
}

fn wrong<T>(text: String) -> Result<T, ReplayError> {
    Err(ReplayError(text))
}
