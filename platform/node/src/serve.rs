//! The whole of a replica's process, from its cluster file to its end.

use crate::data_directory::{DataDirectoryError, check_durable, check_in_memory};
use crate::descriptors::room_for_connections;
use crate::durable::DurableError;
use crate::http;
use crate::listeners::{Listeners, PortError};
use crate::registry::{Prepared, ProtocolEntry};
use crate::replica::ReplicaSetup;
use crate::shell::{Ending, StopSwitch};
use crate::status::{DurabilityReport, Identity};
use quorate_communicator::InboundLanes;
use quorate_config::{ClusterConfig, ConfigErrors, NoteKind, ReplicaAddress, UnknownReplica, WalSync, load_cluster};
use quorate_framework::{HaltReason, Incarnation};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Which replica of which cluster, and where its data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// The cluster file.
    pub config: PathBuf,
    /// The replica's id, as the user gave it.
    pub id: u64,
    /// Its data directory; by default the one the cluster file says.
    pub data_directory: Option<PathBuf>,
}

/// Why a replica did not start, or why it ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The cluster file is wrong.
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    /// There is no such replica.
    #[error(transparent)]
    UnknownReplica(#[from] UnknownReplica),
    /// What a durable replica begins with cannot be read, or made.
    #[error(transparent)]
    Durable(#[from] DurableError),
    /// The data directory cannot be one.
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    /// A port cannot be bound.
    #[error("{0}; stop what uses it, or write another port into the cluster file")]
    Port(#[from] PortError),
    /// The protocol of the cluster file is not in the registry.
    #[error("the consensus protocol {0} is not part of this version")]
    NoSuchProtocol(&'static str),
    /// The operating system refused something a process always needs.
    #[error("the process cannot be set up: {0}")]
    Setup(#[from] io::Error),
    /// The replica stopped itself.
    #[error("halted: {0}")]
    Halted(HaltReason),
}

impl ServeError {
    /// The process's exit code. 2: what the user typed or configured must change first (cluster file, id, directory, settings, a
    /// directory in which no replica was made). 1: that is right, and something else is not (damaged or lost data, a disk, a port or a
    /// directory that is in use).
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            ServeError::Config(_)
            | ServeError::UnknownReplica(_)
            | ServeError::DataDirectory(_)
            | ServeError::NoSuchProtocol(_) => 2,
            ServeError::Durable(error) if error.reason.is_bad_input() => 2,
            ServeError::Durable(_) | ServeError::Port(_) | ServeError::Setup(_) | ServeError::Halted(_) => 1,
        }
    }
}

/// A replica whose cluster file, id and data directory are in order; nothing is bound or written yet.
#[derive(Debug)]
struct Checked {
    cluster: ClusterConfig,
    address: ReplicaAddress,
    config: PathBuf,
    data_directory: PathBuf,
}

fn check(options: &ServeOptions) -> Result<Checked, ServeError> {
    let accepted = load_cluster(&options.config)?;
    for note in &accepted.notes {
        match note.kind {
            NoteKind::Warning => tracing::warn!("{note}"),
            NoteKind::NoEffect => tracing::info!("{note}"),
        }
    }
    let cluster = accepted.config;
    let address = cluster.replica(options.id)?.clone();
    let config = std::path::absolute(&options.config)?;
    let data_directory = match &options.data_directory {
        _ if cluster.settings().recovery_enabled => {
            let named = match &options.data_directory {
                Some(directory) => directory.clone(),
                None => cluster.data_directory(&options.config, address.id)?,
            };
            check_durable(&named)?
        }
        Some(directory) => check_in_memory(directory)?,
        // A directory that nobody named and that nothing will be written to need not be possible.
        None => match cluster.data_directory(&options.config, address.id)? {
            directory if directory.exists() => check_in_memory(&directory)?,
            directory => directory,
        },
    };
    Ok(Checked { cluster, address, config, data_directory })
}

/// What came of making a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initialized {
    /// Recovery is off: there is nothing to make, and nothing was written. This is the directory that the replica would use.
    NothingToMake(PathBuf),
    /// The directory was made, with this incarnation.
    Made {
        /// The directory.
        directory: PathBuf,
        /// The incarnation.
        incarnation: Incarnation,
    },
}

/// Makes the data directory of a replica once. Blocks for a few syncs.
///
/// # Errors
/// [`ServeError`]; nothing was written, unless a write failed.
pub fn initialize(options: &ServeOptions) -> Result<Initialized, ServeError> {
    let Checked { cluster, address, data_directory, .. } = check(options)?;
    if !cluster.settings().recovery_enabled {
        return Ok(Initialized::NothingToMake(data_directory));
    }
    let metadata = protocol_of(&cluster)?.initialize(&cluster, address.id, &data_directory)?;
    Ok(Initialized::Made { directory: data_directory, incarnation: metadata.incarnation })
}

fn protocol_of(cluster: &ClusterConfig) -> Result<&'static ProtocolEntry, ServeError> {
    ProtocolEntry::of(cluster).ok_or_else(|| ServeError::NoSuchProtocol(cluster.settings().consensus.name()))
}

/// Runs one replica until it is told to stop by SIGTERM or SIGINT. Blocks until then.
///
/// # Errors
/// [`ServeError`] if it could not start, or had to stop itself.
pub fn serve(options: &ServeOptions) -> Result<(), ServeError> {
    let started = Instant::now();
    let checked = check(options)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    // Before anything is bound, so that a signal in between ends the process as any other does.
    let signals = {
        let _inside = runtime.enter();
        [(signal(SignalKind::terminate())?, "SIGTERM"), (signal(SignalKind::interrupt())?, "SIGINT")]
    };
    let protocol = protocol_of(&checked.cluster)?;
    let prepared = protocol.prepare(&checked.cluster, checked.address.id, &checked.data_directory)?;
    let listeners = Listeners::bind(&checked.address)?;
    announce(&checked, &*prepared);
    let Checked { cluster, address, .. } = checked;
    let identity = Identity {
        id: address.id,
        cluster_id: cluster.cluster_id(),
        incarnation: prepared.incarnation(),
        durability: DurabilityReport::new(cluster.settings(), prepared.report()),
        protocol: protocol.name,
        settings: cluster.effective_settings(),
        started,
    };
    let mut setup = ReplicaSetup::new(cluster, address.id, listeners.peer);
    setup.connections = room_for_connections(setup.connections);
    http::start(listeners.http, identity, Arc::clone(&setup.board))?;
    let (stop, lanes) = (setup.stop.clone(), Arc::clone(&setup.lanes));
    let replica = prepared.run(setup);
    let ending = runtime.block_on(async move {
        for (signal, name) in signals {
            tokio::spawn(stop_at(signal, name, stop.clone(), Arc::clone(&lanes)));
        }
        replica.await
    })?;
    match ending {
        Ending::Stopped => {
            tracing::info!("stopped");
            Ok(())
        }
        Ending::Halted(reason) => Err(ServeError::Halted(reason)),
    }
}

/// Says at the start what will be in force.
fn announce(checked: &Checked, prepared: &dyn Prepared) {
    let Checked { cluster, address, config, data_directory } = checked;
    let shown = |path: &Path| path.display().to_string();
    tracing::info!(
        replica = %address.id,
        cluster = %cluster.cluster_id(),
        incarnation = %prepared.incarnation(),
        config = shown(config),
        data_directory = shown(data_directory),
        version = crate::status::VERSION,
        commit = crate::status::COMMIT,
        "replica {} of {} starts: peers and clients at {}, status at port {} on loopback",
        address.id,
        cluster.replicas().len(),
        address.peer_address(),
        address.http_port,
    );
    tracing::info!("effective settings: {}", cluster.effective_settings());
    let settings = cluster.settings();
    match prepared.report() {
        None => {
            tracing::warn!("not durable: recovery_enabled is false, everything is in memory and lost with the process");
        }
        Some(report) => {
            tracing::info!("{report}");
            match settings.wal_sync {
                WalSync::Always => tracing::info!("durable: wal_sync is always, what is acknowledged is on disk"),
                WalSync::Never => tracing::warn!(
                    "durable against the death of the process only: wal_sync is never, a loss of power loses what was acknowledged"
                ),
            }
        }
    }
}

async fn stop_at(mut signal: Signal, name: &'static str, stop: StopSwitch, lanes: Arc<InboundLanes>) {
    if signal.recv().await.is_some() {
        tracing::info!("{name}: stopping");
        stop.switch_on();
        lanes.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::DurableReason;
    use crate::replicated_settings::OtherLimits;
    use quorate_config::StoreKind;
    use quorate_executor::lsm::LsmOpenError;
    use quorate_executor::snapshot::SnapshotError;
    use quorate_framework::{ClusterId, Position, ReplayError, ReplicaId};
    use quorate_recovery::{METADATA_FILE, RecoveryError, ReplicatedSettings, StorageError};

    #[test]
    fn a_halt_is_a_failure_with_its_reason_and_a_wrong_input_is_the_users() {
        let halted = ServeError::Halted(HaltReason::Safety("two leaders of term 4".to_owned()));
        assert_eq!((halted.exit_code(), halted.to_string().as_str()), (1, "halted: safety: two leaders of term 4"));
        let unknown = ServeError::UnknownReplica(UnknownReplica { id: 7, known: Vec::new() });
        assert_eq!(unknown.exit_code(), 2);
        assert_eq!(ServeError::Setup(io::ErrorKind::OutOfMemory.into()).exit_code(), 1);
    }

    #[test]
    fn a_data_directory_that_is_refused_is_bad_input_if_another_must_be_named_and_a_failure_if_its_data_or_the_machine_are_to_blame()
     {
        let code = |reason: DurableReason| {
            ServeError::Durable(DurableError { directory: PathBuf::from("data"), reason: Box::new(reason) }).exit_code()
        };
        let of_recovery = |error: RecoveryError| code(DurableReason::Recovery(error));
        let file = || PathBuf::from(METADATA_FILE);
        let position = Position(3);
        let identity = |replica| quorate_recovery::Identity {
            cluster: ClusterId([1; 16]),
            replica: ReplicaId(replica),
            protocol: "raft".to_owned(),
            replicated_settings: ReplicatedSettings::new(),
        };
        let identity = |replica| Box::new(identity(replica));
        for wrong in [
            of_recovery(RecoveryError::NotInitialised),
            of_recovery(RecoveryError::NotEmpty(file())),
            of_recovery(RecoveryError::Foreign { file: file(), found: identity(1), expected: identity(2) }),
            of_recovery(RecoveryError::Version { file: file(), found: 9, expected: 1 }),
            of_recovery(RecoveryError::OtherSettings { differences: Vec::new() }),
            of_recovery(RecoveryError::Settings(String::new())),
            code(DurableReason::NotEmpty(file())),
            code(DurableReason::OtherStore { kept_by: StoreKind::Lsm }),
            code(DurableReason::OtherMembers { formed: Vec::new(), listed: Vec::new() }),
            code(DurableReason::Store(LsmOpenError::KeysTooLong { given: 9, limit: 8 })),
            code(DurableReason::Store(LsmOpenError::OtherVersion { found: 1, known: 2 })),
            code(DurableReason::Store(LsmOpenError::Foreign {
                found: ClusterId([1; 16]),
                expected: ClusterId([2; 16]),
            })),
            code(DurableReason::Snapshot { position, error: SnapshotError::UnknownVersion { found: 9, known: 1 } }),
        ] {
            assert_eq!(wrong, 2);
        }
        for failed in [
            of_recovery(RecoveryError::Storage(StorageError::Ended)),
            of_recovery(RecoveryError::Locked(file())),
            of_recovery(RecoveryError::MetadataMissing(file())),
            of_recovery(RecoveryError::MetadataDamaged { reason: String::new() }),
            of_recovery(RecoveryError::LogMissing { first_group: 1 }),
            of_recovery(RecoveryError::LogUnexpected(file())),
            of_recovery(RecoveryError::Damaged { file: file(), offset: 0, reason: String::new() }),
            of_recovery(RecoveryError::Replay { file: file(), offset: 0, error: ReplayError(String::new()) }),
            code(DurableReason::Snapshot { position, error: SnapshotError::Foreign { what: "position" } }),
            code(DurableReason::OtherLimits { position, error: OtherLimits { differences: Vec::new() } }),
            code(DurableReason::StateMissing { position, snapshot: file(), generation: file() }),
            code(DurableReason::StoreLost(LsmOpenError::Damaged { reason: String::new() })),
            code(DurableReason::Store(LsmOpenError::InUse)),
            code(DurableReason::Directory { what: "it cannot be read", source: io::ErrorKind::Other.into() }),
        ] {
            assert_eq!(failed, 1);
        }
    }
}
