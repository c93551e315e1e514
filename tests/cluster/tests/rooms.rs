//! The workspace's own shape: normal dependencies point from later rooms to earlier ones, never back.

// The workspace allows `unwrap` in tests; clippy does not see that the helpers of this file are one.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// The rooms in their order (ARCHITECTURE.md): a crate may depend on crates of earlier lines only.
const ROOMS: [&[&str]; 14] = [
    &["quorate-framework"],
    &["quorate-config"],
    &["quorate-raft"],
    &["quorate-recovery"],
    &["quorate-recovery-raft", "quorate-recovery-pbft"],
    &["quorate-executor"],
    &["quorate-communicator"],
    &["quorate-node"],
    &["quorate-client"],
    &["quorate-performance"],
    &["quorate-simulated-disk"],
    &["quorate-simulation"],
    &["quorate"],
    &["quorate-cluster-tests"],
];

/// Crates that a protocol must never reach, directly or through others: they open sockets, files, threads or clocks.
const NOT_IN_A_PROTOCOL: [&str; 6] = ["tokio", "socket2", "rustix", "parking_lot", "rand", "tracing"];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Pairs of (crate, its normal dependency), by name.
fn normal_dependencies(metadata: &Value) -> Vec<(String, String)> {
    let name_of = |id: &Value| {
        let packages = metadata["packages"].as_array().unwrap();
        packages.iter().find(|package| package["id"] == *id).unwrap()["name"].as_str().unwrap().to_owned()
    };
    let mut pairs = Vec::new();
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        for dependency in node["deps"].as_array().unwrap() {
            let normal = dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null());
            if normal {
                pairs.push((name_of(&node["id"]), name_of(&dependency["pkg"])));
            }
        }
    }
    pairs
}

fn room_of(name: &str) -> Option<usize> {
    ROOMS.iter().position(|room| room.contains(&name))
}

#[test]
fn every_crate_has_a_room_and_depends_on_earlier_rooms_only() {
    let metadata = metadata();
    for member in metadata["workspace_members"].as_array().unwrap() {
        let known = ROOMS.iter().flat_map(|room| room.iter()).any(|name| member.as_str().unwrap().contains(name));
        assert!(known, "{member} has no room: add it to ARCHITECTURE.md and to this test");
    }
    for (from, to) in normal_dependencies(&metadata) {
        if let (Some(from_room), Some(to_room)) = (room_of(&from), room_of(&to)) {
            assert!(to_room < from_room, "{from} depends on {to}, which is in a later room");
        }
    }
}

#[test]
fn a_protocol_reaches_no_socket_file_thread_clock_or_random_generator() {
    let pairs = normal_dependencies(&metadata());
    let mut reached = BTreeSet::from(["quorate-raft".to_owned()]);
    loop {
        let next: BTreeSet<String> =
            pairs.iter().filter(|(from, _)| reached.contains(from)).map(|(_, to)| to.clone()).collect();
        let before = reached.len();
        reached.extend(next);
        if reached.len() == before {
            break;
        }
    }
    let wrong: Vec<&&str> = NOT_IN_A_PROTOCOL.iter().filter(|name| reached.contains(**name)).collect();
    assert!(wrong.is_empty(), "quorate-raft reaches {wrong:?}");
}

#[test]
fn the_framework_knows_no_word_of_raft() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../platform/framework/src");
    for entry in std::fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let code: Vec<String> = std::fs::read_to_string(&path)
            .unwrap()
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .map(str::to_lowercase)
            .collect();
        for word in ["raft", "append_entries", "candidate", "heartbeat("] {
            let found = code.iter().find(|line| line.contains(word));
            assert!(found.is_none(), "{}: {word}: {found:?}", path.display());
        }
    }
}
