//! The start of a durable replica from its data directory, and the making of a new directory.
//!
//! What is read: the metadata, the log, and the state that the metadata name; with a store in memory that is a snapshot file, with a
//! store on disk a generation of it. All of it is durable when this is done, and the start is counted, before anything is said to a
//! peer.

mod disk_store;
mod error;
pub mod kept_state;
#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod refusal_tests;

pub use error::{DurableError, DurableReason};

use crate::beginning::Beginning;
use crate::held_log::HeldLog;
use crate::replicated_settings::check_limits;
use crate::settings::{replicated_limits, replicated_settings};
use crate::shell::storage::NamedSnapshot;
use crate::snapshots::{Directory, LoadState, RemoveGeneration};
use crate::state_machine::{Keeping, LocalMachine, ThreadedMachine};
use quorate_config::{ClusterConfig, Settings, StoreKind, WalSync as ConfiguredSync};
use quorate_executor::snapshot::{MemoryLoader, Restore, SnapshotError, SnapshotName, SnapshotReader};
use quorate_executor::{KvExecutor, MemoryStore, ReplicatedLimits};
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{ClusterId, ExecutedAt, Position, RecoverySpec, ReplicaId, SnapshotBase};
use quorate_recovery::{
    DirectoryVfs, FREE_SEGMENTS, FlushLinger, Identity, METADATA_FILE, Metadata, Recovered, RecoveryBase,
    RecoveryError, StartOptions, WalSettings, WalSync, current_boot, read_metadata,
};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Whose data a replica of a cluster file has.
#[must_use]
pub fn identity(cluster: &ClusterConfig, replica: ReplicaId) -> Identity {
    let settings = cluster.settings();
    let (protocol, replicated_settings) = (settings.consensus.name().to_owned(), replicated_settings(settings));
    Identity { cluster: cluster.cluster_id(), replica, protocol, replicated_settings }
}

/// The settings of the log.
#[must_use]
pub fn wal_settings(settings: &Settings) -> WalSettings {
    WalSettings {
        sync: match settings.wal_sync {
            ConfiguredSync::Always => WalSync::Always,
            ConfiguredSync::Never => WalSync::Never,
        },
        segment_bytes: settings.wal_segment_bytes.next_multiple_of(4_096),
        // What the log between two checkpoints fills, and no more of large segments.
        free_segments: FREE_SEGMENTS.min((settings.checkpoint_log_bytes / settings.wal_segment_bytes) as usize).max(1),
        ..WalSettings::default()
    }
}

/// How long the log waits for more.
#[must_use]
pub fn flush_linger(settings: &Settings) -> FlushLinger {
    FlushLinger {
        wait: Duration::from_micros(settings.wal_flush_wait_us),
        batch: usize::try_from(settings.wal_flush_batch).unwrap_or(usize::MAX),
    }
}

fn at(directory: &Path) -> impl Fn(DurableReason) -> DurableError + '_ {
    |reason| DurableError { directory: directory.to_owned(), reason: Box::new(reason) }
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> DurableReason {
    move |source| DurableReason::Directory { what, source }
}

/// A snapshot file that nothing names could not be removed.
fn stray(error: SnapshotError) -> DurableReason {
    let source = match error {
        SnapshotError::File { source, .. } => source,
        other => io::Error::other(other),
    };
    DurableReason::Directory { what: "snapshot files that nothing names cannot be removed", source }
}

/// Makes the data directory of a new replica, and the folders above it. Blocks.
///
/// # Errors
/// [`DurableError`] if anything is there already, or the disk refuses.
pub fn initialize<R: RecoverySpec>(directory: &Path, identity: &Identity) -> Result<Metadata, DurableError> {
    let work = || -> Result<Metadata, DurableReason> {
        make_durably(directory).map_err(failed("it cannot be made"))?;
        if let Some(kept) = kept_state::first_kept(directory).map_err(failed("it cannot be read"))? {
            return Err(RecoveryError::NotEmpty(kept).into());
        }
        if let Some(other) = anything_else(directory).map_err(failed("it cannot be read"))? {
            return Err(DurableReason::NotEmpty(other));
        }
        let vfs = DirectoryVfs::open(directory)?;
        Ok(RecoveryBase::<R>::init(&vfs, identity, &mut rand::random::<u64>)?)
    };
    work().map_err(at(directory))
}

/// Makes a directory and those above it, so that they survive a loss of power.
fn make_durably(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|place| !place.exists()).collect();
    for place in missing.into_iter().rev() {
        fs::create_dir(place)?;
        if let Some(parent) = place.parent() {
            fs::File::open(parent)?.sync_all()?;
        }
    }
    Ok(())
}

/// A file in the directory that no replica makes. Metadata and log of a replica are for `init` itself to judge.
fn anything_else(directory: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // What a file system puts into its own root.
        let is_ours = [METADATA_FILE, "metadata.tmp", "lock", "lost+found"].contains(&&*name);
        if !is_ours && !name.ends_with(".wal") {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Refuses a directory without metadata and log, before even a lock file is put there: no replica was made in it, or its metadata are
/// missing beside the state that it kept.
fn check_initialised(directory: &Path) -> Result<(), DurableReason> {
    if !directory.exists() {
        return Err(RecoveryError::NotInitialised.into());
    }
    let entries = fs::read_dir(directory).map_err(failed("it cannot be read"))?;
    for entry in entries {
        let name = entry.map_err(failed("it cannot be read"))?.file_name();
        let name = name.to_string_lossy();
        if name == METADATA_FILE || name.ends_with(".wal") {
            return Ok(());
        }
    }
    match kept_state::first_kept(directory).map_err(failed("it cannot be read"))? {
        Some(kept) => Err(RecoveryError::MetadataMissing(kept).into()),
        None => Err(RecoveryError::NotInitialised.into()),
    }
}

/// The state of a replica that was read back, and what belongs to its kind of store.
pub struct StateStart<M> {
    /// The state machine.
    pub machine: M,
    /// Where its state ends.
    pub executed: ExecutedAt,
    /// What makes one of a fetched snapshot.
    pub load: LoadState<M>,
    /// Whether a checkpoint is a snapshot file.
    pub keeps_files: bool,
    /// What removes a generation of the store that is no longer live.
    pub remove_generation: RemoveGeneration,
}

impl<M> std::fmt::Debug for StateStart<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StateStart").field("executed", &self.executed).finish_non_exhaustive()
    }
}

/// Refuses a cluster file that lists other replicas than the cluster was formed with: the members of a formed cluster are those of its
/// metadata, and one that the file leaves out would be waited for without ever being reached. Metadata that belong to somebody else, or
/// that are missing, are for recovery to refuse.
fn check_members(vfs: &dyn Vfs, identity: &Identity, cluster: &ClusterConfig) -> Result<(), DurableReason> {
    let Some(metadata) = read_metadata(vfs)? else { return Ok(()) };
    let is_ours = (metadata.cluster, metadata.replica) == (identity.cluster, identity.replica);
    let Some(members) = metadata.members.filter(|_| is_ours) else { return Ok(()) };
    let formed: Vec<ReplicaId> = members.keys().copied().collect();
    let mut listed: Vec<ReplicaId> = cluster.replicas().iter().map(|replica| replica.id).collect();
    listed.sort_unstable();
    if formed == listed { Ok(()) } else { Err(DurableReason::OtherMembers { formed, listed }) }
}

/// Reads a replica back. Blocks for as long as that takes. `state` gives the state that the metadata name.
fn open<R: RecoverySpec, M>(
    directory: &Path,
    cluster: &ClusterConfig,
    replica: ReplicaId,
    state: impl FnOnce(&Directory, Option<&NamedSnapshot>) -> Result<StateStart<M>, DurableReason>,
) -> Result<Beginning<R, M>, DurableError> {
    let settings = cluster.settings();
    let work = || -> Result<Beginning<R, M>, DurableReason> {
        check_initialised(directory)?;
        let vfs = DirectoryVfs::open(directory)?;
        let identity = identity(cluster, replica);
        check_members(&vfs, &identity, cluster)?;
        let options = StartOptions {
            identity,
            boot: current_boot(),
            settings: wal_settings(settings),
            random: Box::new(rand::random::<u64>),
        };
        let Recovered { state: protocol, pump, report } = RecoveryBase::<R>::open(Box::new(vfs), options)?;
        let metadata = pump.metadata().clone();
        // Whatever refuses the start from here on, the log is stopped cleanly.
        let log = HeldLog::new(pump, flush_linger(settings));
        let snapshots = snapshot_directory(directory);
        let named = metadata.snapshot.map(|base| NamedSnapshot {
            base,
            store_generation: metadata.store_generation,
            released: Position::ZERO,
        });
        let StateStart { machine, executed, load, keeps_files, remove_generation } = state(&snapshots, named.as_ref())?;
        Ok(Beginning {
            incarnation: metadata.incarnation,
            start_counter: metadata.start_counter,
            members: metadata.members,
            state: protocol,
            machine,
            executed,
            log: Some(log),
            report: Some(report),
            snapshots: Directory { keeps_files, ..snapshots },
            load,
            remove_generation,
            named,
        })
    };
    work().map_err(at(directory))
}

/// Reads a replica back whose store is in memory.
///
/// # Errors
/// [`DurableError`].
pub fn open_in_memory_store<R: RecoverySpec>(
    directory: &Path,
    cluster: &ClusterConfig,
    replica: ReplicaId,
) -> Result<Beginning<R, LocalMachine<MemoryStore>>, DurableError> {
    let settings = cluster.settings();
    open(directory, cluster, replica, |snapshots, named| {
        let cluster = cluster.cluster_id();
        let machine = memory_machine(snapshots, cluster, named, settings)?;
        Ok(StateStart {
            executed: machine.executed(),
            machine,
            load: load_memory(cluster, replicated_limits(settings)),
            keeps_files: true,
            remove_generation: Arc::new(|_| ()),
        })
    })
}

/// Reads a replica back whose store is on disk.
///
/// # Errors
/// [`DurableError`].
pub fn open_disk_store<R: RecoverySpec>(
    directory: &Path,
    cluster: &ClusterConfig,
    replica: ReplicaId,
) -> Result<Beginning<R, ThreadedMachine>, DurableError> {
    open(directory, cluster, replica, |snapshots, named| {
        disk_store::state(directory, snapshots, cluster.cluster_id(), named, cluster.settings())
    })
}

/// Where the snapshots of a durable replica are.
fn snapshot_directory(directory: &Path) -> Directory {
    let directory = directory.to_owned();
    let open = move || -> io::Result<Box<dyn Vfs>> {
        match DirectoryVfs::open_unlocked(&directory) {
            Ok(vfs) => Ok(Box::new(vfs)),
            Err(error) => Err(io::Error::other(error)),
        }
    };
    Directory { open: Arc::new(open), keeps_files: true }
}

/// The state of a store in memory: the named snapshot, or nothing. Files of other snapshots are strays, and removed.
fn memory_machine(
    directory: &Directory,
    cluster: ClusterId,
    named: Option<&NamedSnapshot>,
    settings: &Settings,
) -> Result<LocalMachine<MemoryStore>, DurableReason> {
    let vfs = (directory.open)().map_err(failed("it cannot be read"))?;
    let position = named.map_or(Position::ZERO, |named| named.base.position);
    let limits = replicated_limits(settings);
    let wrong = |error| DurableReason::Snapshot { position, error };
    let executor = match named {
        None => KvExecutor::new(MemoryStore::new(), limits),
        Some(named) => {
            let file = vfs.open(&kept_state::snapshot_name(position)).map_err(|source| {
                let found = wrong(SnapshotError::File { what: "opening the snapshot", source });
                kept_state::unusable(directory, position, named.store_generation, StoreKind::Memory, found)
            })?;
            let (executor, report) = restore_memory(file, cluster, &named.base).map_err(wrong)?;
            check_limits(executor.limits(), &limits).map_err(|error| DurableReason::OtherLimits { position, error })?;
            tracing::info!("state: {report}");
            executor
        }
    };
    let keep: Vec<SnapshotName> = named.map(|_| SnapshotName::Complete(position)).into_iter().collect();
    SnapshotName::remove_others(&*vfs, &keep).map_err(stray)?;
    Ok(LocalMachine::new(executor, cluster, Keeping::InSnapshots))
}

fn restore_memory(
    file: Box<dyn VfsFile>,
    cluster: ClusterId,
    base: &SnapshotBase,
) -> Result<(KvExecutor<MemoryStore>, String), SnapshotError> {
    let (executor, report) = Restore::begin(file, cluster, base, MemoryLoader::default())?.finish()?;
    let summary = format!(
        "the snapshot at {} with {} entries, {} sessions, {} bytes",
        report.position, report.entries, report.sessions, report.file_bytes
    );
    Ok((executor, summary))
}

/// Makes machines with a store in memory of fetched snapshots that were made by these limits.
#[must_use]
pub fn load_memory(cluster: ClusterId, limits: ReplicatedLimits) -> LoadState<LocalMachine<MemoryStore>> {
    Arc::new(move |open, _generation| {
        let reader = open()
            .map_err(|error| error.to_string())
            .and_then(|file| SnapshotReader::open(file).map_err(|error| error.to_string()))?;
        // Of which base it should be is known only when it is installed; what the file says is compared then.
        let base = reader.header().base.clone();
        check_limits(&reader.header().limits, &limits).map_err(|error| error.to_string())?;
        let file = open().map_err(|error| error.to_string())?;
        let (executor, summary) = restore_memory(file, cluster, &base).map_err(|error| error.to_string())?;
        Ok((LocalMachine::new(executor, cluster, Keeping::InSnapshots), base, summary))
    })
}
