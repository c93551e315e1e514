//! The snapshots that peers may pull from here, as the transfer service's thread sees them.

use super::coordinator::{ReadySnapshot, SnapshotReport};
use super::files::SharedFile;
use super::reports::Reports;
use parking_lot::Mutex;
use quorate_communicator::transfer::{SnapshotSource, SourceError};
use quorate_framework::{Incarnation, LOST_DATA, MemberVector, ReplicaId, ServedSnapshot, SnapshotId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is served to whom.
pub(super) struct Served<E> {
    members: Mutex<MemberVector>,
    by_peer: Mutex<BTreeMap<ReplicaId, ReadySnapshot<SharedFile>>>,
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

    pub(super) fn serve(&self, peer: ReplicaId, snapshot: ReadySnapshot<SharedFile>) {
        self.by_peer.lock().insert(peer, snapshot);
    }

    pub(super) fn withdraw(&self, peer: ReplicaId) {
        self.by_peer.lock().remove(&peer);
    }

    fn find(&self, id: SnapshotId) -> Option<ReadySnapshot<SharedFile>> {
        self.by_peer.lock().values().find(|ready| ready.snapshot.id == id).cloned()
    }
}

impl<E: Send> SnapshotSource for Served<E> {
    fn admits(&self, peer: ReplicaId, incarnation: Incarnation) -> Result<(), String> {
        match self.members.lock().get(&peer) {
            Some(bound) if *bound == incarnation => Ok(()),
            Some(bound) => {
                Err(format!("replica {peer} is bound as incarnation {bound}, and this is {incarnation}; {LOST_DATA}"))
            }
            None => Err(format!("replica {peer} is not one of those with which the cluster was formed")),
        }
    }

    fn served(&self, peer: ReplicaId, id: SnapshotId) -> Option<ServedSnapshot> {
        self.by_peer.lock().get(&peer).map(|ready| ready.snapshot).filter(|snapshot| snapshot.id == id)
    }

    fn read(&self, id: SnapshotId, offset: u64, part: &mut [u8]) -> Result<usize, SourceError> {
        let ready = self.find(id).ok_or(SourceError::Gone)?;
        ready.read(offset, part).map_err(|error| SourceError::Failed(error.to_string()))
    }

    fn pulled(&self, peer: ReplicaId, _id: SnapshotId, _written: u64) {
        self.reports.report(SnapshotReport::Progress(peer));
    }
}
