//! Durable replicas as real processes: what is acknowledged survives whatever happens to them, and happens once.

// The workspace allows `unwrap` in tests; clippy does not see that the helpers of this file are one.
#![allow(clippy::unwrap_used)]

mod directories;
mod disk_full;
mod kills;
mod lost_commits;
mod sick_disks;
mod snapshots;
mod spoiled_journals;
mod stops;
mod traces;
mod workload;

use serde_json::{Value, json};

/// Durable settings with a store, and more.
fn durable(store: &str, more: &Value) -> Value {
    let mut settings = json!({ "recovery_enabled": true, "store": store, "wal_segment_bytes": 1 << 20 });
    for (key, value) in more.as_object().unwrap() {
        settings[key] = value.clone();
    }
    settings
}
