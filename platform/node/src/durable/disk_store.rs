//! The state of a replica whose store is on disk.

use super::kept_state::unusable;
use super::{DurableReason, StateStart, failed, stray};
use crate::replicated_settings::check_limits;
use crate::settings::replicated_limits;
use crate::shell::storage::NamedSnapshot;
use crate::snapshots::{Directory, LoadState};
use crate::state_machine::{Keeping, LocalMachine, ThreadedMachine};
use quorate_config::{Settings, StoreKind};
use quorate_executor::lsm::{LsmLoader, LsmOpenError, LsmOptions, LsmStore, generation_path, remove_other_generations};
use quorate_executor::snapshot::{Restore, SnapshotError, SnapshotName, SnapshotReader};
use quorate_executor::{KvExecutor, ReplicatedLimits};
use quorate_framework::{ClusterId, Position};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The state of the live generation. One that is lost is made again from the log, as long as that reaches back to the beginning.
/// Generations that are not live, and all snapshot files, are strays, and removed.
pub(super) fn state(
    directory: &Path,
    snapshots: &Directory,
    cluster: ClusterId,
    named: Option<&NamedSnapshot>,
    settings: &Settings,
) -> Result<StateStart<ThreadedMachine>, DurableReason> {
    let generation = named.map_or(0, |named| named.store_generation);
    let limits = replicated_limits(settings);
    let needed = named.map_or(Position::ZERO, |named| named.base.position);
    let executor = match LsmStore::open(directory, generation, options(cluster), needed) {
        Ok((executor, report)) => {
            tracing::info!(
                "state: the store at {} with about {} entries, {} sessions, {} bytes on disk",
                report.position,
                report.entries,
                report.sessions,
                report.disk_bytes
            );
            executor
        }
        Err(error) if error.must_rebuild() && named.is_none() => anew(directory, generation, cluster, limits)?,
        Err(error) if error.must_rebuild() => {
            let found = DurableReason::StoreLost(error);
            return Err(unusable(snapshots, needed, generation, StoreKind::Lsm, found));
        }
        Err(error) => return Err(DurableReason::Store(error)),
    };
    let executed = executor.executed_at();
    let position = executed.position;
    check_limits(executor.limits(), &limits).map_err(|error| DurableReason::OtherLimits { position, error })?;
    // Only now: what is no stray to another store (a snapshot of the memory store) must outlive a start that is refused.
    remove_other_generations(directory, Some(generation)).map_err(failed("strays cannot be removed"))?;
    let vfs = (snapshots.open)().map_err(failed("it cannot be read"))?;
    SnapshotName::remove_others(&*vfs, &[]).map_err(stray)?;
    let machine = LocalMachine::new(executor, cluster, Keeping::OnDisk);
    let folder = directory.to_owned();
    Ok(StateStart {
        executed,
        machine: ThreadedMachine::start(machine).map_err(failed("no thread for the store"))?,
        load: load(cluster, directory.to_owned(), limits),
        keeps_files: false,
        remove_generation: Arc::new(move |generation| remove(&folder, generation)),
    })
}

fn options(cluster: ClusterId) -> LsmOptions {
    LsmOptions { cluster, ..LsmOptions::default() }
}

/// Removes a generation that nothing names. What cannot be removed is told, and removed by the next start.
fn remove(directory: &Path, generation: u64) {
    if let Err(error) = fs::remove_dir_all(generation_path(directory, generation))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!("store generation {generation} is left for the next start: {error}");
    }
}

/// An empty generation in the place of a lost one or none: the log makes the state again.
fn anew(
    directory: &Path,
    generation: u64,
    cluster: ClusterId,
    limits: ReplicatedLimits,
) -> Result<KvExecutor<LsmStore>, DurableReason> {
    match fs::remove_dir_all(generation_path(directory, generation)) {
        Ok(()) => tracing::warn!("the store was lost and is made again from the log"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("a lost store cannot be removed")(error)),
    }
    LsmStore::create(directory, generation, options(cluster), limits).map_err(DurableReason::Store)
}

/// Makes a fresh generation of a fetched snapshot that was made by these limits, synced when it is given.
pub(super) fn load(cluster: ClusterId, directory: PathBuf, limits: ReplicatedLimits) -> LoadState<ThreadedMachine> {
    Arc::new(move |open, generation| {
        let text = |error: SnapshotError| error.to_string();
        let reader =
            open().map_err(|error| error.to_string()).and_then(|file| SnapshotReader::open(file).map_err(text))?;
        // Of which base it should be is known only when it is installed; what the file says is compared then.
        let base = reader.header().base.clone();
        check_limits(&reader.header().limits, &limits).map_err(|error| error.to_string())?;
        let lost = |error: LsmOpenError| error.to_string();
        let loader = LsmLoader::create(&directory, generation, options(cluster), limits).map_err(lost)?;
        let file = open().map_err(|error| error.to_string())?;
        let (executor, report) =
            Restore::begin(file, cluster, &base, loader).and_then(Restore::finish).map_err(text)?;
        let summary = format!(
            "the snapshot at {} with {} entries, {} sessions, {} bytes, as store generation {generation}",
            report.position, report.entries, report.sessions, report.file_bytes
        );
        let machine = ThreadedMachine::start(LocalMachine::new(executor, cluster, Keeping::OnDisk));
        Ok((machine.map_err(|error| error.to_string())?, base, summary))
    })
}
