//! The thread that checks and loads one fetched snapshot.

use super::coordinator::SnapshotReport;
use super::files::load_fetched;
use super::parts::{LoadState, OpenDirectory, RemoveGeneration};
use super::reports::Reports;
use quorate_framework::vfs::VfsFile;
use quorate_framework::{ServedSnapshot, SnapshotId};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What is said of a loading that nobody waits for.
const GIVEN_UP: &str = "it was given up";

/// A snapshot being loaded. Dropping it gives that up: the thread ends at its next read of the file, and nothing of it stays.
#[derive(Debug)]
pub(super) struct Loading {
    given_up: Arc<AtomicBool>,
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

/// The file that is loaded, which cannot be read any more once the loading is given up.
struct UntilGivenUp {
    file: Box<dyn VfsFile>,
    given_up: Arc<AtomicBool>,
}

impl VfsFile for UntilGivenUp {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        if self.given_up.load(Ordering::Relaxed) {
            return Err(io::Error::other(GIVEN_UP));
        }
        self.file.read_exact_at(bytes, offset)
    }

    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }
}

impl Loading {
    /// Starts the thread, which tells the end by a report. If that is a failure, the generation of the store is removed before: a
    /// disk that is full does not become fuller with each attempt.
    pub(super) fn start<E: Send + 'static>(
        snapshot: ServedSnapshot,
        store_generation: u64,
        open: OpenDirectory,
        load: LoadState<E>,
        remove_generation: RemoveGeneration,
        reports: Arc<Reports<E>>,
    ) -> io::Result<Loading> {
        let loading = Loading { given_up: Arc::default() };
        let given_up = Arc::clone(&loading.given_up);
        let work = move || {
            let own_id = SnapshotId(rand::random());
            let load = |open: super::OpenFile<'_>, generation| {
                let open = || -> io::Result<Box<dyn VfsFile>> {
                    Ok(Box::new(UntilGivenUp { file: open()?, given_up: Arc::clone(&given_up) }))
                };
                load(&open, generation)
            };
            let outcome = open()
                .map_err(|error| error.to_string())
                .and_then(|vfs| load_fetched(&*vfs, snapshot, load, store_generation, own_id));
            if outcome.is_err() {
                remove_generation(store_generation);
            }
            reports.report(SnapshotReport::Loaded { id: snapshot.id, outcome });
        };
        thread::Builder::new().name("snapshot-loader".to_owned()).spawn(work)?;
        Ok(loading)
    }
}
