//! One replica with a concrete protocol: driver, transport and state machine put together.

use crate::beginning::Beginning;
use crate::clock::Clock;
use crate::driver::{Driver, Durability};
use crate::settings;
use crate::shell::storage::{NoStorage, Storage, Wake, WalStorage};
use crate::shell::{Ending, Parts, Runnable, Shell, StopSwitch, TcpConnections};
use crate::snapshots::{SnapshotParts, Snapshots};
use crate::state_machine::StateMachine;
use crate::status::StatusBoard;
use quorate_communicator::{CommunicatorConfiguration, InboundLanes, TcpCommunicator};
use quorate_config::ClusterConfig;
use quorate_framework::{Forming, MemberClaim, ReplicaId};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

/// What a replica is put together from, whatever its protocol.
#[derive(Debug)]
pub struct ReplicaSetup {
    /// The cluster.
    pub cluster: ClusterConfig,
    /// Which of its replicas this is.
    pub replica: ReplicaId,
    /// The bound, non-blocking port for peers and clients.
    pub listener: TcpListener,
    /// Connections at a time, of peers, clients and those that still shake hands.
    pub connections: usize,
    /// What comes in.
    pub lanes: Arc<InboundLanes>,
    /// Where snapshots are asked for.
    pub board: Arc<StatusBoard>,
    /// The switch that ends it.
    pub stop: StopSwitch,
}

impl ReplicaSetup {
    /// A setup with lanes, board and switch of its own.
    #[must_use]
    pub fn new(cluster: ClusterConfig, replica: ReplicaId, listener: TcpListener) -> ReplicaSetup {
        let lanes = Arc::new(settings::inbound_lanes(cluster.settings()));
        let woken = Arc::clone(&lanes);
        let board = Arc::new(StatusBoard::new(Box::new(move || woken.notify())));
        let connections = settings::connections(cluster.settings());
        ReplicaSetup { cluster, replica, listener, connections, lanes, board, stop: StopSwitch::default() }
    }
}

/// A replica that runs the protocol `C` over the state machine `M`.
#[derive(Debug)]
pub struct Replica<C: Runnable, M> {
    core: C,
    beginning: Beginning<C::Record, M>,
    setup: ReplicaSetup,
}

impl<C: Runnable, M: StateMachine> Replica<C, M> {
    /// A replica that has not started.
    #[must_use]
    pub fn new(core: C, beginning: Beginning<C::Record, M>, setup: ReplicaSetup) -> Replica<C, M> {
        Replica { core, beginning, setup }
    }

    /// Runs it on the current runtime, which should be one of one thread, until it is stopped or halts.
    ///
    /// # Errors
    /// If the listener cannot be taken over, or the operating system gives no thread for the log.
    pub async fn run(self) -> io::Result<Ending> {
        let ReplicaSetup { cluster, replica, listener, connections, lanes, board, stop } = self.setup;
        let Beginning { incarnation, start_counter, members, state, machine, executed, log, .. } = self.beginning;
        let Beginning { snapshots: directory, load, named, remove_generation, .. } = self.beginning;
        // One claim for forming and handshakes alike; its nonce is this start's, drawn here and nowhere else.
        let claim = MemberClaim { incarnation, formed_on: None, start_counter, start_nonce: rand::random() };
        let seed = cluster.replicas().iter().map(|replica| replica.id).collect();
        let forming = Forming::new(replica, claim, seed, members);
        // As forming claims it: with what the cluster was formed on.
        let claim = forming.claim();
        let durability = if log.is_some() { Durability::External } else { Durability::InMemory };
        let driver_settings = settings::driver_settings(cluster.settings(), durability);
        let driver = Driver::new(self.core, driver_settings, forming, Box::new(rand::random::<u64>))
            .with_recovered(state)
            .with_executed(executed);
        let configuration = CommunicatorConfiguration {
            cluster: cluster.cluster_id(),
            replica,
            peers: cluster.replicas().iter().map(|replica| (replica.id, replica.peer_address())).collect(),
            agreement: settings::agreement(&cluster),
            claim,
            options: settings::communicator_options(&cluster, connections),
        };
        let woken = Arc::clone(&lanes);
        let wake: Wake = Arc::new(move || woken.notify());
        let checkpoints = log.is_some().then(|| settings::checkpoints(cluster.settings()));
        let durable = log.is_some();
        // Before the log has its writer: whatever fails until then leaves it stopped cleanly.
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let storage: Box<dyn Storage<C>> = match log {
            Some(log) => Box::new(log.hand_over(|pump, linger| WalStorage::start(pump, linger, Arc::clone(&wake)))?),
            None => Box::new(NoStorage),
        };
        let communicator =
            TcpCommunicator::start(configuration, listener, Arc::clone(&lanes), Box::new(rand::random::<u64>));
        let handle = communicator.handle();
        let puller = Box::new(handle.clone());
        let parts = SnapshotParts { directory, puller, load, wake, named, durable, remove_generation };
        let snapshots = Snapshots::new(parts);
        handle.serve_snapshots(snapshots.source());
        let connections = TcpConnections::new(lanes, handle);
        let shell = Shell::new(Parts {
            driver,
            connections,
            communicator,
            executor: machine,
            executed: executed.position,
            storage,
            pending_bytes_limit: cluster.settings().client_admission_bytes,
            snapshots,
            checkpoints,
            clock: Clock::start(),
            board,
            stop,
        });
        // As a task it is woken without a system call and queued behind the readers that have something for it.
        match tokio::spawn(shell.run()).await {
            Ok(ending) => Ok(ending),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
