//! The experiments of `quorate perf` that need no cluster of their own, and those that need one: each for real, and each refusing what
//! it cannot use before it touches anything.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests, too.

mod common;

use common::{Cluster, cluster_file, folder, run, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_log_is_measured_and_its_report_is_written_in_both_forms_and_nothing_else_is_left() {
    let folder = folder();
    let (markdown, file) = (folder.path().join("wal.md"), folder.path().join("wal.json"));
    let short = ["perf", "wal", "--quick", "--operations", "300", "--dir", text(folder.path())];
    let ended = run(&[&short[..], &["--markdown", text(&markdown), "--json", text(&file)]].concat());
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.out.contains("\n| no_wait_batch_256 | none | 256 | "), "{}", ended.out);
    let report = fs::read_to_string(&markdown).unwrap();
    assert!(report.starts_with("# WAL flush batch report\n") && report.contains(&ended.out), "{report}");
    assert_eq!(report.matches("### Callback Latency Histogram").count(), 8);
    let result = json(&file);
    assert_eq!((&result["experiment"], &result["operations"]), (&Value::from("wal"), &Value::from(300)));
    assert_eq!(result["cases"].as_array().unwrap().len(), 4);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn the_stores_are_measured_and_nothing_is_left() {
    let folder = folder();
    let short = ["perf", "store", "--quick", "--keys", "1000", "--duration", "0.05", "--dir", text(folder.path())];
    let ended = run(&[&short[..], &["--output", "json"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.err);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    let stores: Vec<&str> =
        result["rows"].as_array().unwrap().iter().map(|row| row["store"].as_str().unwrap()).collect();
    assert_eq!(stores, ["memory", "lsm"]);
    let ended = run(&[&short[..], &["--store", "memory"]].concat());
    assert!(ended.out.contains("\n| memory | ") && !ended.out.contains("| lsm |"), "{}", ended.out);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn clients_are_measured_in_one_row_each_and_the_most_of_them_over_one_connection_too() {
    let cluster = Cluster::start(3);
    let file = cluster.folder.path().join("clients.json");
    let ended = run(&[
        "perf",
        "clients",
        "--cluster",
        text(&cluster.config),
        "--clients",
        "1,16",
        "--connections",
        "4",
        "--duration",
        "1",
        "--warm-up",
        "0.2",
        "--json",
        text(&file),
    ]);
    // On a busy machine a result may not be quoted; there is one all the same.
    assert!(matches!(ended.code, 0 | 3), "{}", ended.err);
    assert!(
        ended.out.starts_with("NOT durable (recovery is off); 100 bytes a value, 10000 keys, writes only"),
        "{}",
        ended.out
    );
    for row in ["\n| 1 | 1 | ", "\n| 16 | 4 | ", "\n| 16 | 1 | ", "16 clients over one connection reach "] {
        assert!(ended.out.contains(row), "{row} in {}", ended.out);
    }
    let result = json(&file);
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert!(row["writes_per_s"]["median"].as_f64().unwrap() > 0.0, "{row:#}");
        assert_eq!(row["result"]["settings"]["client"]["batch"], 1);
        // What the leader counted and what the clients saw are two accounts of the same writes.
        let ratio = row["model"]["measured_ratio"].as_f64().unwrap();
        assert!((0.5..2.0).contains(&ratio), "{row:#}");
    }
}

#[test]
fn what_an_experiment_cannot_use_is_named_with_exit_code_2_and_nothing_is_touched() {
    let folder = folder();
    let config = cluster_file(folder.path(), 1);
    let before = fs::read_dir(folder.path()).unwrap().count();
    let (dir, config, nowhere) = (text(folder.path()), text(&config), folder.path().join("none/result.json"));
    let cases: &[(&[&str], &str)] = &[
        (&["wal", "--dir", "no such folder"], "--dir no such folder: there is no such folder; make it first"),
        (
            &["wal", "--dir", dir, "--operations", "-5"],
            "--operations -5: must be a whole number from 1 to 1000000, without a unit",
        ),
        (&["wal", "--dir", dir, "--markdown", text(&nowhere)], "there is no folder"),
        (&["wal", "--dir", dir, "--json", dir], "is a folder; a file's name is wanted"),
        (&["store", "--dir", dir, "--store", "disk"], "--store disk: must be memory or lsm"),
        (
            &["store", "--dir", dir, "--keys", "1e6"],
            "--keys 1e6: must be a whole number from 1 to 100000000, without a unit",
        ),
        (&["store", "--dir", dir, "--json", text(&nowhere)], "there is no folder"),
        (
            &["clients", "--cluster", config, "--clients", "1,,8"],
            "--clients : must be a whole number from 1 to 100000, without a unit",
        ),
        (
            &["clients", "--cluster", config, "--connections", "0"],
            "--connections 0: must be a whole number from 1 to 65536, without a unit",
        ),
        (&["clients", "--cluster", config, "--value-size", "big"], "--value-size big: must be a whole number"),
        (&["clients", "--cluster", config, "--json", text(&nowhere)], "there is no folder"),
    ];
    for (arguments, told) in cases {
        let refused = run(&[&["perf"][..], arguments].concat());
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{arguments:?}: {}", refused.err);
        assert!(refused.err.starts_with("error: ") && refused.err.contains(told), "{told}: {}", refused.err);
        assert_eq!(refused.err.lines().count(), 1, "{arguments:?}: {}", refused.err);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);
}
