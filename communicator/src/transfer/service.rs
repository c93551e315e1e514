//! What the transfers of a communicator share: the thread, the source, the rate.

use crate::bounds::CommunicatorOptions;
use crate::handshake::{Refusal, RefusalCode};
use crate::hub::Hub;
use crate::transfer::figures::TransferCounters;
use crate::transfer::source::SnapshotSource;
use crate::transfer::throttle::Throttle;
use parking_lot::Mutex;
use quorate_framework::{MemberClaim, ReplicaId};
use std::io;
use std::sync::Arc;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

pub(crate) struct Transfers {
    pub(crate) source: Mutex<Option<Arc<dyn SnapshotSource>>>,
    pub(crate) throttle: Mutex<Throttle>,
    pub(crate) counters: TransferCounters,
    thread: Mutex<Thread>,
}

/// The thread on which snapshots are read, moved and written.
enum Thread {
    NotStarted,
    Running {
        handle: Handle,
        /// Dropping it ends the thread, and with it every transfer.
        _stop: oneshot::Sender<()>,
    },
    Stopped,
}

impl Transfers {
    pub(crate) fn new(options: &CommunicatorOptions) -> Transfers {
        Transfers {
            source: Mutex::default(),
            throttle: Mutex::new(Throttle::new(options.snapshot_bytes_per_second)),
            counters: TransferCounters::default(),
            thread: Mutex::new(Thread::NotStarted),
        }
    }

    /// The runtime of the transfer thread, which is started if it does not run yet.
    pub(crate) fn runtime(&self) -> io::Result<Handle> {
        let mut thread = self.thread.lock();
        match &*thread {
            Thread::Running { handle, .. } => return Ok(handle.clone()),
            Thread::Stopped => return Err(io::Error::other("this replica is stopping")),
            Thread::NotStarted => {}
        }
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new().name("transfer".into()).spawn(move || {
            // It is never sent anything: its end is the sender's.
            let _ = runtime.block_on(stopped);
        })?;
        *thread = Thread::Running { handle: handle.clone(), _stop: stop };
        Ok(handle)
    }

    /// Ends every transfer, without waiting for a file that is just being read or written. For good.
    pub(crate) fn stop(&self) {
        *self.thread.lock() = Thread::Stopped;
        *self.source.lock() = None;
    }
}

impl Hub {
    /// Whether a peer may pull from here now.
    pub(crate) fn admit_transfer(&self, peer: ReplicaId, claim: &MemberClaim) -> Result<(), Refusal> {
        let source = self.transfers.source.lock().clone();
        let refuse = |code, reason| Err(Refusal { code, reason });
        let Some(source) = source else {
            let reason = format!("replica {} serves no snapshots", self.identity.replica);
            return refuse(RefusalCode::NotAdmitted, reason);
        };
        source.admits(peer, claim.incarnation).map_err(|reason| Refusal { code: RefusalCode::NotAdmitted, reason })?;
        let registry = self.registry.lock();
        if registry.is_stopping() {
            return refuse(RefusalCode::Stopping, format!("replica {} is stopping", self.identity.replica));
        }
        if registry.served.len() >= self.options.snapshot_connections && !registry.served.contains_key(&peer) {
            let reason = format!("{} replicas pull from replica {}", registry.served.len(), self.identity.replica);
            return refuse(RefusalCode::TooManyConnections, reason);
        }
        Ok(())
    }
}
