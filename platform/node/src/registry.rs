//! The protocols a replica can run: the one place where their types are forgotten.

use crate::beginning::{self, Beginning};
use crate::durable::{self, DurableError};
use crate::replica::{Replica, ReplicaSetup};
use crate::settings::raft_settings;
use crate::shell::{Ending, Runnable};
use crate::state_machine::StateMachine;
use quorate_config::{ClusterConfig, Settings, StoreKind};
use quorate_framework::{Incarnation, ReplicaId};
use quorate_raft::Raft;
use quorate_recovery::{Metadata, RecoveryReport};
use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;

/// A running replica, whatever its protocol.
pub type Running = Pin<Box<dyn Future<Output = io::Result<Ending>> + Send>>;

/// A replica that has what it begins with, whatever its protocol and store.
pub trait Prepared: Debug + Send {
    /// Which life of its data it is.
    fn incarnation(&self) -> Incarnation;

    /// What was recovered; none with recovery off.
    fn report(&self) -> Option<&RecoveryReport>;

    /// The replica; it starts when it is first polled.
    fn run(self: Box<Self>, setup: ReplicaSetup) -> Running;
}

/// Makes or reads back a replica of a cluster, with this data directory.
type Prepare = fn(&ClusterConfig, ReplicaId, &Path) -> Result<Box<dyn Prepared>, DurableError>;

/// One protocol.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolEntry {
    /// The name by which a cluster file selects it.
    pub name: &'static str,
    initialize: fn(&ClusterConfig, ReplicaId, &Path) -> Result<Metadata, DurableError>,
    prepare: Prepare,
}

/// Every protocol, one a line.
pub const PROTOCOLS: &[ProtocolEntry] = &[protocol::<Raft>(|cluster, replica, directory| {
    prepare(|settings| Raft::new(raft_settings(settings)), cluster, replica, directory)
})];

const fn protocol<C: Runnable>(prepare: Prepare) -> ProtocolEntry {
    ProtocolEntry {
        name: C::NAME,
        initialize: |cluster, replica, directory| {
            durable::initialize::<C::Record>(directory, &durable::identity(cluster, replica))
        },
        prepare,
    }
}

impl ProtocolEntry {
    /// The protocol that a cluster file selects; none if this version does not have it.
    #[must_use]
    pub fn of(cluster: &ClusterConfig) -> Option<&'static ProtocolEntry> {
        let name = cluster.settings().consensus.name();
        PROTOCOLS.iter().find(|entry| entry.name == name)
    }

    /// Makes the data directory of a new durable replica. Blocks.
    ///
    /// # Errors
    /// [`DurableError`].
    pub fn initialize(
        &self,
        cluster: &ClusterConfig,
        replica: ReplicaId,
        directory: &Path,
    ) -> Result<Metadata, DurableError> {
        (self.initialize)(cluster, replica, directory)
    }

    /// Makes or reads back what a replica begins with. Blocks while a log is read.
    ///
    /// # Errors
    /// [`DurableError`].
    pub fn prepare(
        &self,
        cluster: &ClusterConfig,
        replica: ReplicaId,
        directory: &Path,
    ) -> Result<Box<dyn Prepared>, DurableError> {
        (self.prepare)(cluster, replica, directory)
    }
}

/// A replica of a protocol and a store.
#[derive(Debug)]
struct PreparedReplica<C: Runnable, M> {
    core: C,
    beginning: Beginning<C::Record, M>,
}

impl<C: Runnable, M: StateMachine + Debug> Prepared for PreparedReplica<C, M> {
    fn incarnation(&self) -> Incarnation {
        self.beginning.incarnation
    }

    fn report(&self) -> Option<&RecoveryReport> {
        self.beginning.report.as_ref()
    }

    fn run(self: Box<Self>, setup: ReplicaSetup) -> Running {
        Box::pin(Replica::new(self.core, self.beginning, setup).run())
    }
}

fn prepare<C: Runnable>(
    core: fn(&Settings) -> C,
    cluster: &ClusterConfig,
    replica: ReplicaId,
    directory: &Path,
) -> Result<Box<dyn Prepared>, DurableError> {
    let settings = cluster.settings();
    let core = core(settings);
    if !settings.recovery_enabled {
        if settings.store == StoreKind::Lsm {
            tracing::warn!(
                "store is lsm and recovery_enabled is false: nothing is kept on disk, the store is in memory"
            );
        }
        let beginning = beginning::in_memory(cluster.cluster_id(), settings);
        return Ok(Box::new(PreparedReplica { core, beginning }));
    }
    Ok(match settings.store {
        StoreKind::Memory => {
            let beginning = durable::open_in_memory_store(directory, cluster, replica)?;
            Box::new(PreparedReplica { core, beginning })
        }
        StoreKind::Lsm => {
            let beginning = durable::open_disk_store(directory, cluster, replica)?;
            Box::new(PreparedReplica { core, beginning })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_config::Protocol;

    #[test]
    fn every_protocol_of_the_configuration_can_be_run_and_the_other_way_round() {
        let configured: Vec<&str> = Protocol::ALL.iter().map(|protocol| protocol.name()).collect();
        let registered: Vec<&str> = PROTOCOLS.iter().map(|entry| entry.name).collect();
        assert_eq!(registered, configured);
    }
}
