//! `quorate config`: what it writes can be used, and what it refuses it refuses whole (cases B64, B65, B70, V18).

#![allow(clippy::unwrap_used)] // Helpers of tests are tests, too.

mod common;

use common::{folder, run, template, text};
use std::fs;
use std::net::TcpListener;

#[test]
fn a_new_cluster_file_is_accepted_and_has_the_default_spacing_of_ports() {
    let folder = folder();
    let out = folder.path().join("cluster.json");
    let path = text(&out);
    // On another host nothing is bound, so any ports will do.
    let made = run(&["config", "new", "--hosts", "db1,db2,db1", "--base-port", "20000", "--out", path]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert!(made.out.starts_with(&format!("wrote {path}\n")), "{}", made.out);
    let file: serde_json::Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let third = &file["replicas"][2];
    assert_eq!((third["id"].as_u64(), third["host"].as_str()), (Some(3), Some("db1")));
    let ports = ["port", "http_port", "resp_port"].map(|name| third[name].as_u64().unwrap());
    assert_eq!(ports, [20_002, 21_002, 22_002]);
    let checked = run(&["config", "check", path]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.out.contains("2 of 3 replicas must agree; 1 may fail"), "{}", checked.out);
}

#[test]
fn two_clusters_of_one_template_have_identities_of_their_own() {
    let folder = folder();
    let identity = |name: &str| {
        let out = folder.path().join(name);
        let made = run(&["config", "new", "--hosts", "db1", "--out", text(&out)]);
        assert_eq!(made.code, 0, "{}", made.err);
        let file: serde_json::Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
        file["cluster_id"].as_str().unwrap().to_owned()
    };
    assert_ne!(identity("one.json"), identity("two.json"));
}

#[test]
fn the_shipped_samples_are_templates_as_delivered() {
    let folder = folder();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for sample in ["config/samples/raft.config", "config/samples/annotated.config", "scripts/deploy/config/raft.config"]
    {
        let sample = root.join(sample);
        let checked = run(&["config", "check", "--template", text(&sample)]);
        assert_eq!(checked.code, 0, "{}", checked.err);
        let out = folder.path().join("cluster.json");
        let made =
            run(&["config", "new", "--template", text(&sample), "--hosts", "db1", "--force", "--out", text(&out)]);
        assert_eq!(made.code, 0, "{}", made.err);
    }
}

#[test]
fn a_file_that_is_there_is_kept_unless_told_otherwise() {
    let folder = folder();
    let out = folder.path().join("mine.json");
    fs::write(&out, "mine").unwrap();
    let arguments = ["config", "new", "--hosts", "db1", "--out", text(&out)];
    let refused = run(&arguments);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("--force overwrites it"), "{}", refused.err);
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    assert_eq!(run(&[&arguments[..], &["--force"]].concat()).code, 0);
    assert_ne!(fs::read_to_string(&out).unwrap(), "mine");
}

#[test]
fn what_no_cluster_can_be_made_of_is_refused_with_exit_code_2_and_nothing_is_written() {
    let folder = folder();
    let out = folder.path().join("cluster.json");
    let path = text(&out);
    let in_missing_folder = folder.path().join("no such folder/cluster.json");
    let cases: &[(&[&str], &str)] = &[
        (&["--out", path], "--replicas N or --hosts"),
        (&["--replicas", "0", "--out", path], "1 to 64"),
        (&["--replicas", "3", "--base-port", "64000", "--out", path], "65535"),
        (&["--replicas", "3", "--base-port", "0", "--out", path], "1 to 63535"),
        (&["--replicas", "3", "--ports", "free", "--base-port", "20000", "--out", path], "--ports free"),
        (&["--hosts", "db1,,db2", "--out", path], "host number 2"),
        (&["--hosts", "db1:17000", "--out", path], "port"),
        (&["--hosts", "db1", "--ports", "free", "--out", path], "only on this machine"),
        (&["--hosts", "db1", "--template", "no such file", "--out", path], "no such file: no such file"),
        (&["--hosts", "db1", "--out", text(folder.path())], "folder"),
        (&["--hosts", "db1", "--out", text(&in_missing_folder)], "cannot be written"),
    ];
    for (arguments, named) in cases {
        let refused = run(&[&["config", "new"], *arguments].concat());
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.err);
        assert!(refused.err.contains(named), "{named} is not in {}", refused.err);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn free_ports_are_found_on_this_machine() {
    let folder = folder();
    let out = folder.path().join("cluster.json");
    let made = run(&["config", "new", "--replicas", "3", "--ports", "free", "--out", text(&out)]);
    assert_eq!(made.code, 0, "{}", made.err);
    let file: serde_json::Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let ports: Vec<u64> =
        file["replicas"].as_array().unwrap().iter().map(|replica| replica["port"].as_u64().unwrap()).collect();
    assert!(ports[0] >= 17_000 && ports == [ports[0], ports[0] + 1, ports[0] + 2], "{ports:?}");
}

#[test]
fn a_busy_port_of_a_given_block_is_named() {
    let folder = folder();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port();
    if port > 63_535 {
        return; // No block can begin there.
    }
    let out = folder.path().join("cluster.json");
    let port = port.to_string();
    let refused = run(&["config", "new", "--replicas", "1", "--base-port", &port, "--out", text(&out)]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains(&format!("port {port} (peers and clients of replica 1)")), "{}", refused.err);
    assert!(!out.exists());
}

#[test]
fn every_fault_of_a_file_is_listed_with_the_nearest_known_key() {
    let folder = folder();
    let file = folder.path().join("faulty.json");
    fs::write(&file, r#"{ "hearbeat_interval_ms": 50, "election_timeout_ms": "soon" }"#).unwrap();
    let refused = run(&["config", "check", "--template", text(&file)]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert_eq!(refused.err.lines().count(), 2, "{}", refused.err);
    assert!(refused.err.contains("did you mean \"heartbeat_interval_ms\"?"), "{}", refused.err);
    assert!(refused.err.lines().all(|line| line.starts_with(&format!("error: {}:1:", text(&file)))), "{}", refused.err);
    // A template is not a cluster.
    let refused = run(&["config", "check", text(&template(folder.path()))]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("replicas"), "{}", refused.err);
}

#[test]
fn the_schema_is_json_that_knows_the_keys() {
    let shown = run(&["config", "schema"]);
    let schema: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(schema["properties"]["election_timeout_ms"]["type"], "integer");
}
