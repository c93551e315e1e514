//! One replica with a concrete protocol: driver, transport and state machine put together.

use crate::clock::Clock;
use crate::driver::{Driver, Durability};
use crate::settings;
use crate::shell::{Ending, Parts, Runnable, Shell, StopSwitch, TcpConnections};
use crate::status::StatusBoard;
use quorate_communicator::{CommunicatorConfiguration, InboundLanes, TcpCommunicator};
use quorate_config::ClusterConfig;
use quorate_executor::{KvExecutor, MemoryStore};
use quorate_framework::{Forming, Incarnation, MemberClaim, ReplicaId};
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
    /// Which life of its data this is.
    pub incarnation: Incarnation,
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
    pub fn new(
        cluster: ClusterConfig,
        replica: ReplicaId,
        incarnation: Incarnation,
        listener: TcpListener,
    ) -> ReplicaSetup {
        let lanes = Arc::new(settings::inbound_lanes(cluster.settings()));
        let woken = Arc::clone(&lanes);
        let board = Arc::new(StatusBoard::new(Box::new(move || woken.notify())));
        let connections = settings::connections(cluster.settings());
        ReplicaSetup { cluster, replica, incarnation, listener, connections, lanes, board, stop: StopSwitch::default() }
    }
}

/// A replica that runs the protocol `C`, in memory only.
#[derive(Debug)]
pub struct Replica<C> {
    core: C,
    setup: ReplicaSetup,
}

impl<C: Runnable> Replica<C> {
    /// A replica that has not started.
    #[must_use]
    pub fn new(core: C, setup: ReplicaSetup) -> Replica<C> {
        Replica { core, setup }
    }

    /// Runs it on the current runtime, which should be one of one thread, until it is stopped or halts.
    ///
    /// # Errors
    /// If the listener cannot be taken over.
    pub async fn run(self) -> io::Result<Ending> {
        let ReplicaSetup { cluster, replica, incarnation, listener, connections, lanes, board, stop } = self.setup;
        // One claim for forming and handshakes alike; its nonce is this start's, drawn here and nowhere else.
        let claim = MemberClaim { incarnation, formed_on: None, start_counter: 1, start_nonce: rand::random() };
        let seed = cluster.replicas().iter().map(|replica| replica.id).collect();
        let forming = Forming::new(replica, claim, seed, None);
        let driver_settings = settings::driver_settings(cluster.settings(), Durability::InMemory);
        let driver = Driver::new(self.core, driver_settings, forming, Box::new(rand::random::<u64>));
        let configuration = CommunicatorConfiguration {
            cluster: cluster.cluster_id(),
            replica,
            peers: cluster.replicas().iter().map(|replica| (replica.id, replica.peer_address())).collect(),
            agreement: settings::agreement(&cluster),
            claim,
            options: settings::communicator_options(&cluster, connections),
        };
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let communicator =
            TcpCommunicator::start(configuration, listener, Arc::clone(&lanes), Box::new(rand::random::<u64>));
        let connections = TcpConnections::new(lanes, communicator.handle());
        let executor = KvExecutor::new(MemoryStore::new(), settings::replicated_limits(cluster.settings()));
        let clock = Clock::start();
        let shell = Shell::new(Parts { driver, connections, communicator, executor, clock, board, stop });
        // As a task it is woken without a system call and queued behind the readers that have something for it.
        match tokio::spawn(shell.run()).await {
            Ok(ending) => Ok(ending),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
