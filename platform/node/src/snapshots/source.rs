//! The snapshots that peers may pull from here, as the transfer service's thread sees them.

use super::reports::{Report, Reports};
use parking_lot::Mutex;
use quorate_communicator::transfer::{SnapshotSource, SourceError};
use quorate_framework::vfs::VfsFile;
use quorate_framework::{Incarnation, MemberVector, Position, ReplicaId, ServedSnapshot, SnapshotId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A complete snapshot, open for reading. Its file may have lost its name.
#[derive(Clone)]
pub(super) struct ReadySnapshot {
    pub(super) snapshot: ServedSnapshot,
    pub(super) file: Arc<Mutex<Box<dyn VfsFile>>>,
}

impl fmt::Debug for ReadySnapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ReadySnapshot").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

impl ReadySnapshot {
    /// A snapshot with a name of its own.
    pub(super) fn new(position: Position, length_bytes: u64, file: Box<dyn VfsFile>) -> ReadySnapshot {
        let snapshot = ServedSnapshot { id: SnapshotId(rand::random()), position, length_bytes };
        ReadySnapshot { snapshot, file: Arc::new(Mutex::new(file)) }
    }
}

/// What is served to whom.
pub(super) struct Served<E> {
    members: Mutex<MemberVector>,
    by_peer: Mutex<BTreeMap<ReplicaId, ReadySnapshot>>,
    reports: Arc<Reports<E>>,
}

impl<E> Served<E> {
    pub(super) fn new(reports: Arc<Reports<E>>) -> Served<E> {
        Served { members: Mutex::default(), by_peer: Mutex::default(), reports }
    }

    /// From now on these incarnations may pull.
    pub(super) fn set_members(&self, members: &MemberVector) {
        self.members.lock().clone_from(members);
    }

    pub(super) fn serve(&self, peer: ReplicaId, snapshot: ReadySnapshot) {
        self.by_peer.lock().insert(peer, snapshot);
    }

    pub(super) fn withdraw(&self, peer: ReplicaId) {
        self.by_peer.lock().remove(&peer);
    }

    /// Peers that something is served to.
    pub(super) fn count(&self) -> usize {
        self.by_peer.lock().len()
    }

    fn find(&self, id: SnapshotId) -> Option<ReadySnapshot> {
        self.by_peer.lock().values().find(|ready| ready.snapshot.id == id).cloned()
    }
}

impl<E: Send> SnapshotSource for Served<E> {
    fn admits(&self, peer: ReplicaId, incarnation: Incarnation) -> Result<(), String> {
        match self.members.lock().get(&peer) {
            Some(bound) if *bound == incarnation => Ok(()),
            Some(bound) => Err(format!(
                "replica {peer} is bound as incarnation {bound}, and this is {incarnation}: use `quorate cluster replace`"
            )),
            None => Err(format!("replica {peer} is no member")),
        }
    }

    fn served(&self, peer: ReplicaId, id: SnapshotId) -> Option<ServedSnapshot> {
        self.by_peer.lock().get(&peer).map(|ready| ready.snapshot).filter(|snapshot| snapshot.id == id)
    }

    fn read(&self, id: SnapshotId, offset: u64, part: &mut [u8]) -> Result<usize, SourceError> {
        let ready = self.find(id).ok_or(SourceError::Gone)?;
        let left = ready.snapshot.length_bytes.saturating_sub(offset);
        let count = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = ready.file.lock().read_exact_at(&mut part[..count], offset);
        read.map(|()| count).map_err(|error| SourceError::Failed(error.to_string()))
    }

    fn pulled(&self, peer: ReplicaId, _id: SnapshotId, _written: u64) {
        self.reports.push(Report::Progress(peer));
    }
}
