//! The protocols a replica can run: the one place where their types are forgotten.

use crate::replica::{Replica, ReplicaSetup};
use crate::settings::raft_settings;
use crate::shell::{Ending, Runnable};
use quorate_config::Settings;
use quorate_raft::Raft;
use std::future::Future;
use std::io;
use std::pin::Pin;

/// A running replica, whatever its protocol.
pub type Running = Pin<Box<dyn Future<Output = io::Result<Ending>> + Send>>;

/// One protocol.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolEntry {
    /// The name by which a cluster file selects it.
    pub name: &'static str,
    start: fn(&Settings, ReplicaSetup) -> Running,
}

/// Every protocol, one a line.
pub const PROTOCOLS: &[ProtocolEntry] =
    &[protocol::<Raft>(|settings, setup| run(Raft::new(raft_settings(settings)), setup))];

const fn protocol<C: Runnable>(start: fn(&Settings, ReplicaSetup) -> Running) -> ProtocolEntry {
    ProtocolEntry { name: C::NAME, start }
}

fn run<C: Runnable>(core: C, setup: ReplicaSetup) -> Running {
    Box::pin(Replica::new(core, setup).run())
}

/// The replica of a setup with the protocol that its cluster file selects; it starts when it is first polled. None if there is no
/// such protocol.
#[must_use]
pub fn replica(setup: ReplicaSetup) -> Option<(&'static str, Running)> {
    let settings = setup.cluster.settings().clone();
    let entry = PROTOCOLS.iter().find(|entry| entry.name == settings.consensus.name())?;
    Some((entry.name, (entry.start)(&settings, setup)))
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
