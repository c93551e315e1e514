//! Whose data it is.

use crate::replicated_settings::ReplicatedSettings;
use quorate_framework::{ClusterId, ReplicaId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whose data a directory holds: what must agree before anything in it is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The replica.
    pub replica: ReplicaId,
    /// The consensus protocol, by the name that selects it.
    pub protocol: String,
    /// What decides how its entries are applied.
    pub replicated_settings: ReplicatedSettings,
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "replica {} of cluster {} ({})", self.replica, self.cluster, self.protocol)
    }
}

/// Which boot of the machine this is. Zero where the operating system does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BootId(pub [u8; 16]);
