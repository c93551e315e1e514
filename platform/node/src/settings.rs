//! From the cluster file to what each part of a replica is told.

use crate::driver::{DriverSettings, Durability};
use crate::replicated_settings::by_name;
use crate::shell::CheckpointSettings;
use quorate_communicator::bounds::PEER_LANES;
use quorate_communicator::frame::MESSAGE_BODY_BYTES;
use quorate_communicator::{Agreement, CommunicatorOptions, InboundLanes, LaneBound, LaneBounds};
use quorate_config::{ClusterConfig, Settings};
use quorate_executor::ReplicatedLimits;
use quorate_framework::{Lane, limits};
use quorate_raft::RaftSettings;
use quorate_recovery::ReplicatedSettings;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Settings that may differ between replicas; a difference is reported on both sides.
const NOTED: [&str; 8] = [
    "heartbeat_interval_ms",
    "in_flight_timeout_ms",
    "max_entries_per_append",
    "max_append_bytes",
    "max_in_flight_messages_per_follower",
    "max_in_flight_bytes_per_follower",
    "log_memory_limit_bytes",
    "raft_follower_batch_timeout_ms",
];

/// A count or size of a validated file, which is always far below what memory can address.
fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// What the Raft core is told.
#[must_use]
pub fn raft_settings(settings: &Settings) -> RaftSettings {
    RaftSettings {
        heartbeat_interval: Duration::from_millis(settings.heartbeat_interval_ms),
        election_timeout: Duration::from_millis(settings.election_timeout_ms),
        in_flight_timeout: Duration::from_millis(settings.in_flight_timeout_ms),
        in_flight_messages: size(settings.max_in_flight_messages_per_follower),
        in_flight_bytes: size(settings.max_in_flight_bytes_per_follower),
        entries_per_append: size(settings.max_entries_per_append),
        bytes_per_append: size(settings.max_append_bytes),
        log_memory_bytes: size(settings.log_memory_limit_bytes),
        linger: Duration::from_millis(settings.raft_follower_batch_timeout_ms),
        disk_stall_timeout: Duration::from_millis(settings.disk_stall_timeout_ms),
        snapshots: true,
        ..RaftSettings::default()
    }
}

/// When checkpoints are due.
#[must_use]
pub fn checkpoints(settings: &Settings) -> CheckpointSettings {
    CheckpointSettings {
        interval: Duration::from_secs(settings.recovery_ckpt_time_s),
        transactions: settings.checkpoint_transactions,
        log_bytes: settings.checkpoint_log_bytes,
    }
}

/// What the driver is told.
#[must_use]
pub fn driver_settings(settings: &Settings, durability: Durability) -> DriverSettings {
    DriverSettings {
        admission_frames: size(settings.client_admission_frames),
        admission_bytes: size(settings.client_admission_bytes),
        snapshots: true,
        ..DriverSettings::new(durability)
    }
}

/// The limits that decide how a command is applied.
#[must_use]
pub fn replicated_limits(settings: &Settings) -> ReplicatedLimits {
    let word = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    ReplicatedLimits {
        key_bytes: word(settings.key_size_limit_bytes),
        value_bytes: word(settings.value_size_limit_bytes),
        session_window_frames: word(settings.session_window),
        sessions: word(settings.session_table_limit),
        session_answer_bytes: settings.session_answer_limit_bytes,
        ..ReplicatedLimits::default()
    }
}

/// The same by name.
#[must_use]
pub fn replicated_settings(settings: &Settings) -> ReplicatedSettings {
    by_name(&replicated_limits(settings))
}

/// The connections a replica may have at a time, as far as the cluster file says.
#[must_use]
pub fn connections(settings: &Settings) -> usize {
    size(settings.max_connections)
}

/// What the communicator is told, which may have this many connections at a time.
#[must_use]
pub fn communicator_options(cluster: &ClusterConfig, connections: usize) -> CommunicatorOptions {
    let settings = cluster.settings();
    // A small limit is shared: a quarter of what peers leave is kept for handshakes, the rest is for clients.
    let left = connections.saturating_sub(cluster.replicas().len());
    CommunicatorOptions {
        peer_outbox: peer_lanes(settings),
        handshake_timeout: Duration::from_millis(settings.handshake_timeout_ms),
        unfinished_handshakes: (left / 4).clamp(1, limits::UNFINISHED_HANDSHAKES),
        connections,
        snapshot_bytes_per_second: settings.snapshot_bytes_per_second,
        backoff_min: Duration::from_millis(settings.reconnect_backoff_ms_min),
        backoff_max: Duration::from_millis(settings.reconnect_backoff_ms_max),
        ..CommunicatorOptions::default()
    }
}

/// The lanes into the core.
#[must_use]
pub fn inbound_lanes(settings: &Settings) -> InboundLanes {
    let clients =
        LaneBound { messages: size(settings.client_admission_frames), bytes: size(settings.client_admission_bytes) };
    InboundLanes::new(peer_lanes(settings), clients)
}

/// The bounds per peer: wide enough for the configured windows, and never below the defaults.
fn peer_lanes(settings: &Settings) -> LaneBounds {
    let mut lanes = PEER_LANES;
    let replication = &mut lanes[Lane::Replication as usize];
    let messages = size(settings.max_in_flight_messages_per_follower).saturating_mul(8);
    let bytes = size(settings.max_in_flight_bytes_per_follower).saturating_mul(2);
    replication.messages = replication.messages.max(messages);
    replication.bytes = replication.bytes.max(bytes.saturating_add(MESSAGE_BODY_BYTES));
    lanes
}

/// What peers must agree on, name by name, so that a difference is named in the refusal.
#[must_use]
pub fn agreement(cluster: &ClusterConfig) -> Agreement {
    let lines = cluster.agreement_digest_input();
    let lines = String::from_utf8_lossy(&lines);
    let lines = lines.lines().filter_map(|line| line.split_once('='));
    let mut settings: BTreeMap<String, String> =
        lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    // With what is fixed in the program: two builds may differ in it.
    let replicated = replicated_settings(cluster.settings());
    settings.extend(replicated.into_iter().map(|(name, value)| (name, value.to_string())));
    let effective = cluster.effective_settings();
    let shown = |name: &str| effective.get(name).map(Value::to_string).unwrap_or_default();
    Agreement {
        consensus: cluster.settings().consensus.name().to_owned(),
        settings: settings.into_iter().collect(),
        noted_settings: NOTED.iter().map(|name| ((*name).to_owned(), shown(name))).collect(),
        ..Agreement::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_config::parse_cluster;

    fn cluster(settings: &str) -> ClusterConfig {
        let text = format!(
            r#"{{ {settings} "cluster_id": "000102030405060708090a0b0c0d0e0f", "replicas": [
                {{ "id": 1, "host": "127.0.0.1", "port": 17000, "http_port": 18000, "resp_port": 19000 }},
                {{ "id": 2, "host": "127.0.0.1", "port": 17001, "http_port": 18001, "resp_port": 19001 }},
                {{ "id": 3, "host": "127.0.0.1", "port": 17002, "http_port": 18002, "resp_port": 19002 }} ] }}"#
        );
        parse_cluster("test", text.as_bytes()).expect("a valid file").config
    }

    #[test]
    fn defaults_of_the_file_are_the_defaults_of_the_parts() {
        let cluster = cluster("");
        let snapshots = RaftSettings { snapshots: true, ..RaftSettings::default() };
        assert_eq!(raft_settings(cluster.settings()), snapshots);
        let driver = driver_settings(cluster.settings(), Durability::InMemory);
        assert_eq!(driver, DriverSettings { snapshots: true, ..DriverSettings::new(Durability::InMemory) });
        assert_eq!(replicated_limits(cluster.settings()), ReplicatedLimits::default());
        let (ours, theirs) =
            (communicator_options(&cluster, connections(cluster.settings())), CommunicatorOptions::default());
        assert_eq!((ours.peer_outbox, ours.connections), (theirs.peer_outbox, theirs.connections));
        assert_eq!((ours.backoff_min, ours.backoff_max), (theirs.backoff_min, theirs.backoff_max));
        assert_eq!(ours.unfinished_handshakes, theirs.unfinished_handshakes - 1, "a quarter of what three peers leave");
    }

    #[test]
    fn each_setting_reaches_its_part() {
        let settings = raft_settings(
            cluster(
                r#""heartbeat_interval_ms": 10, "election_timeout_ms": 90, "in_flight_timeout_ms": 70,
                "max_in_flight_messages_per_follower": 5, "max_in_flight_bytes_per_follower": 400000,
                "max_entries_per_append": 6, "max_append_bytes": 300000, "log_memory_limit_bytes": 90000000,
                "raft_follower_batch_timeout_ms": 3, "disk_stall_timeout_ms": 700,"#,
            )
            .settings(),
        );
        let expected = RaftSettings {
            heartbeat_interval: Duration::from_millis(10),
            election_timeout: Duration::from_millis(90),
            in_flight_timeout: Duration::from_millis(70),
            in_flight_messages: 5,
            in_flight_bytes: 400_000,
            entries_per_append: 6,
            bytes_per_append: 300_000,
            log_memory_bytes: 90_000_000,
            linger: Duration::from_millis(3),
            disk_stall_timeout: Duration::from_millis(700),
            snapshots: true,
            ..RaftSettings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn a_small_connection_limit_still_leaves_room_for_clients() {
        let options = communicator_options(&cluster(r#""max_connections": 8,"#), 8);
        let clients = options.connections - options.unfinished_handshakes - 3;
        assert!(clients >= 1, "{options:?}");
    }

    #[test]
    fn replicas_that_must_agree_are_told_apart_by_name_and_others_only_noted() {
        let ours = agreement(&cluster(""));
        let election = agreement(&cluster(r#""election_timeout_ms": 900,"#));
        let names: Vec<String> = election.differences(&ours).into_iter().map(|difference| difference.name).collect();
        assert_eq!(names, ["election_timeout_ms"]);
        let heartbeat = agreement(&cluster(r#""heartbeat_interval_ms": 60,"#));
        assert_eq!(heartbeat.differences(&ours), []);
        assert_eq!(heartbeat.noted_differences(&ours)[0].name, "heartbeat_interval_ms");
    }

    #[test]
    fn whatever_decides_how_an_entry_is_applied_must_agree() {
        let cluster = cluster(r#""session_window": 9,"#);
        let agreed: BTreeMap<String, String> = agreement(&cluster).settings.into_iter().collect();
        let replicated = replicated_settings(cluster.settings());
        assert_eq!((replicated.len(), replicated["session_window"]), (7, 9));
        for (name, value) in replicated {
            assert_eq!(agreed.get(&name), Some(&value.to_string()), "{name}");
        }
        let ours = agreement(&cluster);
        let mut other_build = ours.clone();
        for (name, value) in &mut other_build.settings {
            if name == "commands_per_frame" {
                *value = "7".to_owned();
            }
        }
        let differences = other_build.differences(&ours);
        let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert_eq!(told, [r#"commands_per_frame: "7" there, "65536" here"#]);
    }

    #[test]
    fn a_window_wider_than_the_default_fits_its_lane() {
        let wide =
            cluster(r#""max_in_flight_bytes_per_follower": 60000000, "max_in_flight_messages_per_follower": 5000,"#);
        let lane = communicator_options(&wide, connections(wide.settings())).peer_outbox[Lane::Replication as usize];
        assert!(lane.messages >= 5000 && lane.bytes >= 60_000_000 + MESSAGE_BODY_BYTES, "{lane:?}");
    }
}
