//! What the command does when its output has nowhere to go (cases B28, B100, V21), and what it says of a wrong environment (B64).

#![allow(clippy::unwrap_used)] // Helpers of tests are tests, too.

mod common;

use common::{cluster_file, folder, quorate, ran, run, text};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A device on which every write fails as on a full disk.
fn full_disk() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// Ends a replica in order and gives its exit code; it must still run until then.
fn terminate(mut replica: Child) -> Option<i32> {
    assert_eq!(replica.try_wait().unwrap(), None, "it has ended by itself");
    assert!(Command::new("kill").args(["-TERM", &replica.id().to_string()]).status().unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(status) = replica.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = replica.kill();
    None
}

#[test]
fn a_replica_whose_log_can_not_be_written_serves_all_the_same() {
    let folder = folder();
    let config = cluster_file(folder.path(), 1);
    let replica =
        quorate().args(["serve", "--config", text(&config), "--id", "1"]).stderr(full_disk()).spawn().unwrap();
    let waited = run(&["cluster", "wait", "--config", text(&config)]);
    assert_eq!(waited.code, 0, "{}", waited.err);
    assert_eq!(terminate(replica), Some(0));
}

#[test]
fn a_replica_whose_log_has_lost_its_reader_serves_all_the_same() {
    let folder = folder();
    let config = cluster_file(folder.path(), 1);
    let mut replica =
        quorate().args(["serve", "--config", text(&config), "--id", "1"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(replica.stderr.take().unwrap()).read_line(&mut first).unwrap();
    assert!(!first.is_empty());
    let waited = run(&["cluster", "wait", "--config", text(&config)]);
    assert_eq!(waited.code, 0, "{}", waited.err);
    assert_eq!(terminate(replica), Some(0));
}

#[test]
fn output_that_can_not_be_written_is_a_failure_and_told_once() {
    let transport = &["perf", "transport", "--duration", "0.1", "--warm-up", "0"];
    for arguments in [&["config", "schema"][..], &["perf", "limit", "--duration", "0.1"], transport] {
        let ended = ran(quorate()
            .args(arguments)
            .stdout(full_disk())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap());
        assert_eq!(ended.code, 1, "{arguments:?}: {}", ended.err);
        let told =
            ended.err.lines().filter(|line| line.starts_with("error: the output could not be written: ")).count();
        assert_eq!(told, 1, "{}", ended.err);
    }
}

#[test]
fn a_log_level_that_can_not_be_understood_is_refused_by_name() {
    let folder = folder();
    let config = cluster_file(folder.path(), 1);
    for command in [&["serve", "--id", "1", "--config"][..], &["cluster", "status", "--config"]] {
        let ended = ran(quorate().args(command).arg(&config).env("RUST_LOG", "info=loud").output().unwrap());
        assert_eq!(ended.code, 2, "{}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
        assert!(ended.err.starts_with("error: RUST_LOG 'info=loud': "), "{}", ended.err);
    }
}

#[test]
fn a_ceiling_needs_no_cluster_file() {
    let ended = run(&["perf", "limit", "--duration", "0.1", "--output", "json"]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&result["replicas"], &result["workload"]["batch"]), (&Value::from(4), &Value::from(100)));
    let ended = run(&["perf", "limit", "--duration", "0.1", "--output", "json", "--replicas", "1"]);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(result["replicas"], 1);
    for replicas in ["0", "-1", "65", "1e9", "", "two"] {
        let refused = run(&["perf", "limit", "--replicas", replicas]);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{}", refused.err);
        assert_eq!(refused.err, format!("error: --replicas {replicas}: must be a whole number from 1 to 64\n"));
    }
}

#[test]
fn a_probe_folder_that_takes_no_file_is_refused_before_the_load() {
    let folder = folder();
    let config = cluster_file(folder.path(), 1);
    let missing = folder.path().join("no such folder");
    for path in [text(&missing), text(&config)] {
        let refused = run(&["perf", "load", "--cluster", text(&config), "--probe-dir", path]);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.starts_with(&format!("error: --probe-dir {path}: ")), "{}", refused.err);
        assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);
    }
}

#[test]
fn the_transport_alone_is_measured_and_its_result_is_written_and_printed() {
    let folder = folder();
    let file = folder.path().join("result.json");
    let short = ["perf", "transport", "--duration", "0.3", "--warm-up", "0.1"];
    let ended = run(&[&short[..], &["--size", "100", "--outstanding", "4", "--json", text(&file)]].concat());
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.out.starts_with("round trips ") && ended.out.contains("100 bytes, 4 on their way"), "{}", ended.out);
    let result: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&result["experiment"], &result["size_bytes"]), (&Value::from("transport"), &Value::from(100)));
    for figure in ["round_trips_per_s", "cpu_us_per_frame", "socket_calls_per_1000_frames", "mib_per_s"] {
        assert!(result[figure].as_f64().is_some_and(|value| value > 0.0), "{figure}: {result:#}");
    }
    for figure in ["p50", "p99", "p99_9"] {
        assert!(result["latency_ms"][figure].as_f64().is_some_and(|value| value > 0.0), "{figure}: {result:#}");
    }
    let printed = run(&[&short[..], &["--output", "json"]].concat());
    assert_eq!(serde_json::from_str::<Value>(&printed.out).unwrap()["outstanding"], 64);
}

#[test]
fn bad_options_of_the_transport_are_named_all_at_once() {
    let refused = run(&["perf", "transport", "--size", "-1", "--outstanding", "many", "--duration", "1s"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{}", refused.err);
    let lines: Vec<&str> = refused.err.lines().collect();
    assert_eq!(
        lines,
        [
            "error: --duration 1s: must be a number of seconds from 0.1 to 86400, without a unit",
            "error: --size -1: must be a whole number from 0 to 16777216, without a unit",
            "error: --outstanding many: must be a whole number from 1 to 1024, without a unit",
        ]
    );
    let nowhere = run(&["perf", "transport", "--json", "no such folder/result.json"]);
    assert_eq!(nowhere.code, 2, "{}", nowhere.err);
    assert!(nowhere.err.starts_with("error: --json no such folder/result.json: "), "{}", nowhere.err);
}
