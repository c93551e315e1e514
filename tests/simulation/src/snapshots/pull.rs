//! The transfer service of the simulated world: a snapshot pulled chunk by chunk, and chunks served.

use super::{Errand, Snapshots};
use quorate_executor::{SnapshotFile, SnapshotName};
use quorate_framework::{ReplicaId, ServedSnapshot, SnapshotId, Time};
use quorate_node::snapshots::coordinator::SnapshotReport;
use std::time::Duration;

/// A source that says nothing for this long is given up.
const SOURCE_PATIENCE: Duration = Duration::from_secs(3);
/// Least time between two signs of a peer's progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// What a chunk that was asked for is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// Bytes at the offset.
    Chunk(Vec<u8>),
    /// The snapshot is not served to this peer (any more), or cannot be read.
    Gone,
}

/// What a pull asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkWanted {
    /// From whom.
    pub from: ReplicaId,
    /// From which offset on.
    pub offset: u64,
}

/// A pull under way.
pub(super) struct Pull {
    from: ReplicaId,
    snapshot: ServedSnapshot,
    file: SnapshotFile,
    heard_at: Time,
}

impl Snapshots {
    pub(super) fn begin_pull(&mut self, now: Time, from: ReplicaId, snapshot: ServedSnapshot) {
        let id = snapshot.id;
        match SnapshotFile::create(&self.vfs, SnapshotName::Fetched(id)) {
            Ok(file) => {
                self.pull = Some(Pull { from, snapshot, file, heard_at: now });
                self.errands.push(Errand::Pull(id));
            }
            Err(error) => {
                let outcome = Err(error.to_string());
                self.coordinator.report(SnapshotReport::Pulled { id, outcome });
            }
        }
    }

    /// Nothing more is written. The end is told when the pull would have gone on.
    pub(super) fn stop_pulling(&mut self) {
        if let Some(pull) = self.pull.take() {
            self.stopped_pulls.insert(pull.snapshot.id);
        }
    }

    fn pull_ended(&mut self, now: Time, id: SnapshotId, outcome: Result<(), String>) {
        self.pull = None;
        self.report(now, SnapshotReport::Pulled { id, outcome });
    }

    /// What the pull of this name wants. A source that was silent for too long is given up.
    pub fn chunk_wanted(&mut self, now: Time, id: SnapshotId) -> Option<ChunkWanted> {
        if self.stopped_pulls.remove(&id) {
            self.report(now, SnapshotReport::Pulled { id, outcome: Err("cancelled".to_owned()) });
            return None;
        }
        let Pull { from, file, heard_at, .. } = self.pull.as_ref().filter(|pull| pull.snapshot.id == id)?;
        if now.since(*heard_at) > SOURCE_PATIENCE {
            self.pull_ended(now, id, Err("nothing has come".to_owned()));
            return None;
        }
        Some(ChunkWanted { from: *from, offset: file.length() })
    }

    /// An answer from the source. Whether it was of use.
    pub fn answered(&mut self, now: Time, id: SnapshotId, offset: u64, served: &Served) -> bool {
        let Some(pull) = self.pull.as_mut().filter(|pull| pull.snapshot.id == id) else { return false };
        match served {
            Served::Chunk(bytes) if pull.file.length() == offset => {
                pull.heard_at = now;
                if let Err(error) = pull.file.append(bytes) {
                    self.pull_ended(now, id, Err(error.to_string()));
                } else if pull.file.length() >= pull.snapshot.length_bytes {
                    self.pull_ended(now, id, Ok(()));
                }
                true
            }
            // Said twice, or late.
            Served::Chunk(_) => false,
            Served::Gone => {
                self.pull_ended(now, id, Err("gone".to_owned()));
                true
            }
        }
    }

    /// A peer asks for bytes.
    pub fn serve(&mut self, now: Time, peer: ReplicaId, id: SnapshotId, offset: u64, bytes: usize) -> Served {
        let Some((ready, told)) = self.served.get_mut(&peer).filter(|(ready, _)| ready.snapshot.id == id) else {
            return Served::Gone;
        };
        let mut chunk = vec![0; bytes];
        let Ok(count) = ready.read(offset, &mut chunk) else { return Served::Gone };
        chunk.truncate(count);
        if now.since(*told) >= PROGRESS_INTERVAL {
            *told = now;
            self.report(now, SnapshotReport::Progress(peer));
        }
        Served::Chunk(chunk)
    }
}
