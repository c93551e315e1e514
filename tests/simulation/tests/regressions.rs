//! What the simulator has found, kept as plans: the seed that found it first may mean another plan by now.

use quorate_simulation::{CrashMode, Plan, run};
use std::time::Duration;

/// Found at seed 43,150 of the first 100,000: with one append of one entry in flight over a slow network, four impatient clients
/// repeated their frames faster than the cluster ordered them. Every repetition was ordered again, so the backlog only grew, and no
/// client was ever done. A request that waits already is now not ordered again.
#[test]
fn a_slow_cluster_is_not_buried_under_the_repetitions_of_its_clients() {
    for seed in 0..20 {
        let plan = Plan {
            faults: Vec::new(),
            stormy_for: Duration::from_secs(10),
            latency: (Duration::from_millis(1), Duration::from_millis(60)),
            loss: 0,
            duplication: 0,
            clients: 4,
            in_flight_messages: 1,
            entries_per_append: 1,
            log_memory_bytes: 64 << 20,
            patient_clients: false,
            ..Plan::draw(seed, 3, 1, CrashMode::InMemory)
        };
        let report = run(plan, false);
        assert!(report.violation.is_none(), "{}\n{:?}", report.plan, report.violation);
    }
}

/// Found by asking for it: a cluster of one has no follower to spare when its leader is isolated.
#[test]
fn a_cluster_of_one_runs_under_every_fault() {
    for seed in 0..40 {
        for mode in [CrashMode::Durable, CrashMode::InMemory] {
            let report = run(Plan::draw(seed, 1, 40, mode), false);
            assert!(report.violation.is_none(), "{}\n{:?}", report.plan, report.violation);
        }
    }
}
