//! The thread that writes one snapshot file, so that no write and no sync of it takes a turn of the core.

use super::coordinator::{ReadySnapshot, SnapshotReport};
use super::files::{SharedFile, finish_file};
use super::parts::{Directory, OpenDirectory};
use super::reports::{Reports, Told};
use quorate_executor::snapshot::{SnapshotError, SnapshotFile, SnapshotName};
use quorate_framework::{SnapshotBase, SnapshotId};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

/// Pieces that may wait for the disk.
const PIECES: usize = 4;

/// A piece for the file.
enum Piece {
    More(Vec<u8>),
    Last(Vec<u8>),
}

/// A file being written. Dropping it before its end gives it up: nothing of it stays.
#[derive(Debug)]
pub(super) struct FileWriter {
    base: SnapshotBase,
    pieces: SyncSender<Piece>,
    /// A piece for which there was no room.
    held: Option<Piece>,
    /// Whether the last piece was given.
    complete: bool,
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, bytes) = match self {
            Piece::More(bytes) => ("More", bytes.len()),
            Piece::Last(bytes) => ("Last", bytes.len()),
        };
        write!(formatter, "{name}({bytes} bytes)")
    }
}

impl FileWriter {
    /// Starts the thread that writes the snapshot of a base.
    pub(super) fn start<E: Send + 'static>(
        directory: &Directory,
        base: SnapshotBase,
        reports: Arc<Reports<E>>,
    ) -> io::Result<FileWriter> {
        let (pieces, received) = sync_channel(PIECES);
        let written = base.clone();
        let open = Arc::clone(&directory.open);
        let keeps_name = directory.keeps_files;
        thread::Builder::new().name("snapshot-writer".to_owned()).spawn(move || {
            if let Some(outcome) = write(&open, &written, keeps_name, &received, &reports) {
                let outcome = outcome.map_err(|error| error.to_string());
                reports.report(SnapshotReport::Written { base: written, outcome });
            }
        })?;
        Ok(FileWriter { base, pieces, held: None, complete: false })
    }

    /// Of which state it is.
    pub(super) fn base(&self) -> &SnapshotBase {
        &self.base
    }

    /// Whether another piece is wanted now.
    pub(super) fn has_room(&mut self) -> bool {
        if let Some(piece) = self.held.take() {
            self.try_send(piece);
        }
        self.held.is_none() && !self.complete
    }

    /// Gives the next piece.
    pub(super) fn push(&mut self, bytes: Vec<u8>, last: bool) {
        self.complete = last;
        self.try_send(if last { Piece::Last(bytes) } else { Piece::More(bytes) });
    }

    /// Whether all of it was given.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    fn try_send(&mut self, piece: Piece) {
        // If the thread has ended it has said why.
        if let Err(TrySendError::Full(piece)) = self.pieces.try_send(piece) {
            self.held = Some(piece);
        }
    }
}

/// Writes the file; none if it was given up before its end.
fn write<E>(
    open: &OpenDirectory,
    base: &SnapshotBase,
    keeps_name: bool,
    pieces: &Receiver<Piece>,
    reports: &Reports<E>,
) -> Option<Result<ReadySnapshot<SharedFile>, SnapshotError>> {
    let unfinished = SnapshotName::Temporary(base.position);
    let failed = |what| move |source| SnapshotError::File { what, source };
    let work = || -> Result<Option<ReadySnapshot<SharedFile>>, SnapshotError> {
        let vfs = open().map_err(failed("opening the data directory"))?;
        let mut file = SnapshotFile::create(&*vfs, unfinished)?;
        loop {
            let (bytes, last) = match pieces.recv() {
                Ok(Piece::More(bytes)) => (bytes, false),
                Ok(Piece::Last(bytes)) => (bytes, true),
                Err(_) => {
                    vfs.remove(&unfinished.path()).map_err(failed("removing an unfinished snapshot"))?;
                    return Ok(None);
                }
            };
            reports.push(Told::Room);
            file.append(&bytes)?;
            if last {
                break;
            }
        }
        finish_file(&*vfs, file, base.position, SnapshotId(rand::random()), keeps_name).map(Some)
    };
    let done = work();
    if done.is_err()
        && let Ok(vfs) = open()
    {
        // What stays all the same is removed by the next start.
        let _ = vfs.remove(&unfinished.path());
    }
    done.transpose()
}
