//! What a replica says of its durability.

use quorate_config::{Settings, WalSync};
use quorate_recovery::RecoveryReport;
use serde::Serialize;

/// Whether anything survives, and what was recovered at the start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DurabilityReport {
    /// Whether what is acknowledged survives the process.
    pub durable: bool,
    /// `always`: it survives a loss of power. `never`: it survives the death of the process only. Null with recovery off.
    pub wal_sync: Option<&'static str>,
    /// What the start found and did; null with recovery off.
    pub recovery: Option<RecoveryReport>,
}

impl DurabilityReport {
    /// What these settings and this start say.
    #[must_use]
    pub fn new(settings: &Settings, recovery: Option<&RecoveryReport>) -> DurabilityReport {
        DurabilityReport {
            durable: recovery.is_some(),
            wal_sync: recovery.map(|_| match settings.wal_sync {
                WalSync::Always => "always",
                WalSync::Never => "never",
            }),
            recovery: recovery.cloned(),
        }
    }
}
