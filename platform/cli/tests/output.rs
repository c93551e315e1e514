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
    for arguments in [&["config", "schema"][..], &["perf", "limit", "--duration", "0.1"]] {
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
