//! The snapshot that is being fetched: pulled, checked and loaded, in this order, and then waiting to be installed.

use super::reports::{Loaded, Report, Reports};
use super::source::ReadySnapshot;
use super::{Directory, LoadState, OpenDirectory};
use quorate_communicator::transfer::{PullEnd, PullOrder, SnapshotSink};
use quorate_executor::snapshot::SnapshotName;
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{Incarnation, Position, ReplicaId, ServedSnapshot, SnapshotId};
use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;

/// Moves snapshots between replicas.
pub trait Puller: Send {
    /// Pulls a snapshot as [`quorate_communicator::CommunicatorHandle::pull_snapshot`] does. Dropping what is given cancels it.
    fn pull(
        &self,
        order: PullOrder,
        sink: Box<dyn SnapshotSink>,
        on_end: Box<dyn FnOnce(PullEnd) + Send>,
    ) -> Box<dyn Any + Send>;
}

impl Puller for quorate_communicator::CommunicatorHandle {
    fn pull(
        &self,
        order: PullOrder,
        sink: Box<dyn SnapshotSink>,
        on_end: Box<dyn FnOnce(PullEnd) + Send>,
    ) -> Box<dyn Any + Send> {
        Box::new(self.pull_snapshot(order, sink, on_end))
    }
}

/// How far it has come.
enum Stage<E> {
    Pulling { _pull: Box<dyn Any + Send> },
    Loading,
    Loaded(Box<Loaded<E>>),
}

/// A fetch. Dropping it cancels it; what the thread that loads it still tells then is of nobody's use.
pub(super) struct Fetch<E> {
    snapshot: ServedSnapshot,
    stage: Stage<E>,
}

impl<E> fmt::Debug for Fetch<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Fetch").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

/// The file being filled.
struct Sink(Box<dyn VfsFile>);

impl SnapshotSink for Sink {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }
}

/// What opens its file at its first use, on the thread that uses it.
struct LateSink {
    open: OpenDirectory,
    name: SnapshotName,
    sink: Option<Sink>,
}

impl SnapshotSink for LateSink {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.sink.is_none() {
            let vfs = (self.open)()?;
            match vfs.remove(&self.name.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            self.sink = Some(Sink(vfs.create(&self.name.path())?));
        }
        match &mut self.sink {
            Some(sink) => sink.write(offset, bytes),
            None => Ok(()),
        }
    }
}

impl<E: Send + 'static> Fetch<E> {
    /// Begins to pull.
    pub(super) fn begin(
        puller: &dyn Puller,
        directory: &Directory,
        from: (ReplicaId, Incarnation),
        snapshot: ServedSnapshot,
        reports: &Arc<Reports<E>>,
    ) -> Fetch<E> {
        let order = PullOrder { from: from.0, incarnation: from.1, snapshot, written: 0 };
        let (id, told) = (snapshot.id, Arc::clone(reports));
        let sink = LateSink { open: Arc::clone(&directory.open), name: SnapshotName::Fetched(id), sink: None };
        let on_end = Box::new(move |end| told.push(Report::Pulled { id, end }));
        Fetch { snapshot, stage: Stage::Pulling { _pull: puller.pull(order, Box::new(sink), on_end) } }
    }

    pub(super) fn position(&self) -> Position {
        self.snapshot.position
    }

    pub(super) fn id(&self) -> SnapshotId {
        self.snapshot.id
    }

    /// The files that belong to it.
    pub(super) fn names(&self) -> [SnapshotName; 2] {
        let complete = match &self.stage {
            Stage::Loaded(loaded) => loaded.name,
            _ => SnapshotName::Complete(self.snapshot.position),
        };
        [SnapshotName::Fetched(self.snapshot.id), complete]
    }

    /// All of it is here: checks and loads it on a thread of its own.
    pub(super) fn load(
        &mut self,
        directory: &Directory,
        load: &LoadState<E>,
        store_generation: u64,
        reports: &Arc<Reports<E>>,
    ) -> io::Result<()> {
        let (snapshot, open, load) = (self.snapshot, Arc::clone(&directory.open), Arc::clone(load));
        let reports = Arc::clone(reports);
        thread::Builder::new().name("snapshot-loader".to_owned()).spawn(move || {
            let outcome = load_file(&open, snapshot, &load, store_generation);
            reports.push(Report::Loaded { id: snapshot.id, outcome });
        })?;
        self.stage = Stage::Loading;
        Ok(())
    }

    pub(super) fn loaded(&mut self, loaded: Loaded<E>) {
        self.stage = Stage::Loaded(Box::new(loaded));
    }

    pub(super) fn into_loaded(self) -> Option<Loaded<E>> {
        match self.stage {
            Stage::Loaded(loaded) => Some(*loaded),
            _ => None,
        }
    }
}

/// Checks and loads what was pulled, and gives its file the final name: what is told as loaded is durable.
fn load_file<E>(
    open: &OpenDirectory,
    snapshot: ServedSnapshot,
    load: &LoadState<E>,
    store_generation: u64,
) -> Result<Loaded<E>, String> {
    let vfs = open().map_err(|error| error.to_string())?;
    let fetched = SnapshotName::Fetched(snapshot.id);
    let work = || -> Result<Loaded<E>, String> {
        let file = vfs.open(&fetched.path()).map_err(|error| error.to_string())?;
        let length = file.length().map_err(|error| error.to_string())?;
        if length != snapshot.length_bytes {
            return Err(format!("{length} bytes were pulled of {}", snapshot.length_bytes));
        }
        drop(file);
        let (machine, base, summary) = load(&|| vfs.open(&fetched.path()), store_generation)?;
        if base.position != snapshot.position {
            return Err(format!("it is of position {}, and {} was announced", base.position, snapshot.position));
        }
        let name = SnapshotName::Complete(base.position);
        let file = keep(&*vfs, fetched, name).map_err(|error| error.to_string())?;
        let ready = ReadySnapshot::new(base.position, length, file);
        Ok(Loaded { machine, base, name, ready, store_generation, summary })
    };
    let done = work();
    if done.is_err() {
        // What stays all the same is removed by the next start.
        let _ = vfs.remove(&fetched.path());
    }
    done
}

/// Syncs a checked file, gives it its final name and syncs the directory, in this order.
fn keep(vfs: &dyn Vfs, fetched: SnapshotName, name: SnapshotName) -> io::Result<Box<dyn VfsFile>> {
    vfs.open(&fetched.path())?.sync_data()?;
    vfs.rename(&fetched.path(), &name.path())?;
    vfs.sync_directory()?;
    vfs.open(&name.path())
}
