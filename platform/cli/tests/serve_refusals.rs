//! What `quorate serve` and `quorate init` refuse, with which exit code, and that nothing is left behind (cases V09, V18, V20, B67).

#![allow(clippy::unwrap_used)] // Helpers of tests are tests, too.

mod common;

use common::{Process, Ran, cluster_file, durable_cluster_file, folder, run, text};
use quorate_framework::LOST_DATA;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

fn serve(config: &Path, more: &[&str]) -> Ran {
    run(&[&["serve", "--config", text(config)], more].concat())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A port of the first replica.
fn port(config: &Path, key: &str) -> u16 {
    let file: Value = serde_json::from_str(&fs::read_to_string(config).unwrap()).unwrap();
    file["replicas"][0][key].as_u64().unwrap() as u16
}

#[test]
fn an_id_that_is_not_in_the_file_is_answered_with_those_that_are() {
    let folder = folder();
    let config = cluster_file(folder.path(), 3);
    for id in ["7", "0"] {
        for command in [&["serve"][..], &["init", "--bootstrap"]] {
            let refused = run(&[command, &["--config", text(&config), "--id", id]].concat());
            assert_eq!(refused.code, 2);
            let expected = format!("error: replica id {id} is not in the cluster file; its ids are 1, 2, 3\n");
            assert_eq!(refused.err, expected);
        }
    }
}

#[test]
fn a_durable_replica_without_data_is_refused_and_the_ways_out_are_named() {
    let folder = folder();
    let config = folder.path().join("cluster.json");
    for template in ["{}", r#"{"recovery_enabled": true}"#] {
        let file = folder.path().join("template.config");
        fs::write(&file, template).unwrap();
        let made =
            run(&["config", "new", "--template", text(&file), "--hosts", "db1", "--force", "--out", text(&config)]);
        assert_eq!(made.code, 0, "{}", made.err);
        let refused = serve(&config, &["--id", "1"]);
        assert_eq!(refused.code, 2, "{}", refused.err);
        for said in ["holds no replica", "quorate init --bootstrap", LOST_DATA, "replica-1"] {
            assert!(refused.err.contains(said), "{said}: {}", refused.err);
        }
    }
    assert_eq!(names(folder.path()), ["cluster.json", "template.config"]);
}

#[test]
fn a_data_directory_that_cannot_be_one_is_refused_before_anything_is_bound() {
    let folder = folder();
    let config = cluster_file(folder.path(), 1);
    let file = folder.path().join("a file");
    fs::write(&file, "mine").unwrap();
    let before = names(folder.path());
    let below = file.join("data");
    for (directory, said) in
        [(text(&file), "is not a directory"), (text(&below), "is not a directory"), ("~/data", "'~'")]
    {
        let refused = serve(&config, &["--id", "1", "--data-dir", directory]);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.lines().last().unwrap().contains(said), "{}", refused.err);
    }
    assert_eq!(names(folder.path()), before, "nothing was made");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn the_directory_of_a_durable_replica_is_not_ignored_in_silence() {
    let folder = folder();
    let config = cluster_file(folder.path(), 1);
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("metadata.dat"), "of another replica").unwrap();
    let refused = serve(&config, &["--id", "1", "--data-dir", text(&data)]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("metadata.dat"), "{}", refused.err);
}

#[test]
fn a_port_in_use_is_named_with_what_it_was_for() {
    let folder = folder();
    let config = cluster_file(folder.path(), 1);
    for (key, role) in [("http_port", "HTTP"), ("port", "peers and clients")] {
        let port = port(&config, key);
        // If another test has taken it meanwhile, it is in use all the same.
        let _busy = TcpListener::bind(("127.0.0.1", port));
        let refused = serve(&config, &["--id", "1"]);
        assert_eq!(refused.code, 1, "{}", refused.err);
        let last = refused.err.lines().last().unwrap();
        assert!(last.contains(&format!("port {port} ({role} of replica 1)")), "{last}");
    }
}

#[test]
fn a_start_that_a_busy_port_refuses_leaves_a_log_that_was_stopped_cleanly() {
    for wal_sync in ["always", "never"] {
        let folder = folder();
        let config = durable_cluster_file(folder.path(), 1, &json!({ "wal_sync": wal_sync }));
        let made = run(&["init", "--bootstrap", "--config", text(&config), "--id", "1"]);
        assert_eq!(made.code, 0, "{}", made.err);
        let data = folder.path().join("quorate-data/replica-1");
        for (starts, (key, role)) in (1..).zip([("port", "peers and clients"), ("http_port", "HTTP")]) {
            let port = port(&config, key);
            // If another test has taken it meanwhile, it is in use all the same.
            let _busy = TcpListener::bind(("127.0.0.1", port));
            let refused = serve(&config, &["--id", "1"]);
            assert_eq!(refused.code, 1, "{}", refused.err);
            let last = refused.err.lines().last().unwrap();
            assert!(last.contains(&format!("port {port} ({role} of replica 1)")), "the first error is told: {last}");
            let checked = run(&["wal", "check", text(&data)]);
            assert_eq!(checked.code, 0, "{}", checked.err);
            for line in [
                format!(", started {starts} times\n"),
                format!("last run     wal_sync {wal_sync}, stopped cleanly: yes\n"),
            ] {
                assert!(checked.out.contains(&line), "{line}: {}", checked.out);
            }
        }
    }
}

#[test]
fn a_configuration_of_the_wrong_type_is_named_as_what_it_is() {
    let folder = folder();
    let missing = folder.path().join("missing.json");
    for (path, said) in [(folder.path(), "this is a folder"), (missing.as_path(), "no such file")] {
        let refused = serve(path, &["--id", "1"]);
        assert_eq!(refused.code, 2);
        assert!(refused.err.contains(said) && refused.err.contains(text(path)), "{}", refused.err);
    }
}

#[test]
fn init_makes_a_directory_once_and_says_where_and_as_whom() {
    let folder = folder();
    let config = folder.path().join("cluster.json");
    let made = run(&["config", "new", "--hosts", "db1", "--out", text(&config)]);
    assert_eq!(made.code, 0, "{}", made.err);
    let init = || run(&["init", "--bootstrap", "--config", text(&config), "--id", "1"]);
    let made = init();
    assert_eq!(made.code, 0, "{}", made.err);
    let data = folder.path().join("quorate-data/replica-1");
    assert!(made.out.starts_with("made the data of replica 1 as incarnation "), "{}", made.out);
    assert!(made.out.trim_end().ends_with(text(&data)), "{}", made.out);
    let metadata = fs::read(data.join("metadata.dat")).unwrap();
    let again = init();
    assert_eq!(again.code, 2, "{}", again.err);
    assert!(again.err.contains("metadata.dat is there already"), "{}", again.err);
    assert_eq!(fs::read(data.join("metadata.dat")).unwrap(), metadata);
}

#[test]
fn init_with_recovery_off_says_that_there_is_nothing_to_make() {
    let folder = folder();
    let config = cluster_file(folder.path(), 2);
    let before = names(folder.path());
    let made = run(&["init", "--bootstrap", "--config", text(&config), "--id", "2"]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert!(made.out.contains("recovery is off") && made.out.contains("replica-2"), "{}", made.out);
    assert_eq!(names(folder.path()), before);
}

/// Every file of a folder with its bytes.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    names(folder).into_iter().map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect()
}

#[test]
fn a_limit_that_is_changed_after_init_is_refused_by_name_and_with_the_old_value_back_the_replica_serves() {
    assert!((0..5).any(|_| changed_limit_refused_and_put_back()), "no free ports five times in a row");
}

/// Gives false if somebody else has taken the replica's ports meanwhile.
fn changed_limit_refused_and_put_back() -> bool {
    let folder = folder();
    let config = cluster_file(folder.path(), 1);
    let mut file: Value = serde_json::from_str(&fs::read_to_string(&config).unwrap()).unwrap();
    let mut write = |changes: &[(&str, u64)]| {
        file["recovery_enabled"] = true.into();
        for (key, value) in changes {
            file[*key] = (*value).into();
        }
        fs::write(&config, file.to_string()).unwrap();
    };
    write(&[("value_size_limit_bytes", 4_096), ("session_window", 64)]);
    let data = folder.path().join("quorate-data/replica-1");
    let made = run(&["init", "--bootstrap", "--config", text(&config), "--id", "1"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let shown = run(&["wal", "check", text(&data)]);
    let settings = "\napplied by   answer_bytes 16773120, commands_per_frame 65536, key_size_limit_bytes 65536, \
        session_answer_limit_bytes 67108864, session_table_limit 65536, session_window 64, value_size_limit_bytes 4096\n";
    assert!(shown.code == 0 && shown.out.contains(settings), "{}{}", shown.err, shown.out);
    let before = contents(&data);
    write(&[("value_size_limit_bytes", 512), ("session_window", 65)]);
    let refused = serve(&config, &["--id", "1"]);
    let told = ": session_window was 64 and is 65, value_size_limit_bytes was 4096 and is 512. \
        Nothing was changed; put the old values back into the cluster file";
    assert_eq!(refused.code, 2, "{}", refused.err);
    let last = refused.err.lines().last().unwrap();
    assert!(last.contains(text(&data)) && last.contains(told), "{last}");
    assert_eq!(contents(&data), before);
    write(&[("value_size_limit_bytes", 4_096), ("session_window", 64)]);
    let mut replica = Process::serve(&config, 1, folder.path().join("1.log"));
    let ready = run(&["cluster", "wait", "--config", text(&config), "--timeout-s", "20"]);
    if replica.has_ended() && replica.log().contains("cannot be used on 127.0.0.1") {
        return false;
    }
    assert_eq!(ready.code, 0, "{}{}", ready.err, replica.log());
    replica.signal("TERM");
    assert!(replica.wait(Duration::from_secs(20)).success(), "{}", replica.log());
    true
}
