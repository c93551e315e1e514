//! Values of the wrong kind or out of range, and settings that cannot work together (cases B65, B72, V10, V12).

mod common;

use common::{
    cluster_errors, cluster_notes, cluster_text, cluster_text_with, replica_text, template_errors, template_fault,
    template_notes,
};
use quorate_config::{ConfigError, parse_cluster, parse_template, schema};

#[test]
fn a_value_of_the_wrong_kind_is_named_with_what_is_allowed() {
    assert_eq!(
        template_fault("{\"heartbeat_interval_ms\": \"50\"}"),
        "t.json:1:27: $.heartbeat_interval_ms: found \"50\", which is a string; allowed: an integer from 1 to 10000"
    );
    assert_eq!(
        template_fault("{\"recovery_enabled\": 1}"),
        "t.json:1:22: $.recovery_enabled: found 1, which is a number; allowed: true or false"
    );
    assert_eq!(
        template_fault("{\"recovery_path\": [\"a\"]}"),
        "t.json:1:19: $.recovery_path: found a list, which is a list; allowed: the name of a folder as a string"
            .replace("found a list, which is a list", "found a list")
    );
    assert_eq!(
        template_fault("{\"worker_num\": null}"),
        "t.json:1:16: $.worker_num: found null; allowed: an integer from 0 to 2147483647"
    );
    assert!(template_fault("{\"leveldb_info\": 3}").ends_with("allowed: an object"));
    assert!(template_fault("{\"replicas\": {}}").ends_with("allowed: a list of objects"));
    assert!(
        template_fault("{\"replicas\": [5]}")
            .ends_with("$.replicas[0]: found 5, which is a number; allowed: an object")
    );
}

#[test]
fn every_integer_is_refused_just_outside_its_range_and_accepted_at_its_ends() {
    let schema = schema();
    let mut tried = 0;
    for (key, property) in schema["properties"].as_object().unwrap() {
        let (Some(min), Some(max)) = (property["minimum"].as_u64(), property["maximum"].as_u64()) else { continue };
        for value in [i128::from(min) - 1, i128::from(max) + 1, i128::from(u64::MAX) + 1, -1] {
            let fault = template_fault(&format!("{{\"{key}\": {value}}}"));
            assert!(fault.contains(&format!("$.{key}: {value} is not allowed; allowed: ")), "{fault}");
        }
        for value in ["1.5", "1e3", "-0"] {
            template_fault(&format!("{{\"{key}\": {value}}}"));
        }
        for value in [min, max] {
            let text = format!("{{\"{key}\": {value}}}");
            // At its end a value may contradict the default of another key, but it is in range.
            if let Err(errors) = parse_template("t.json", text.as_bytes()) {
                let contradiction = |error: &ConfigError| matches!(error, ConfigError::Contradiction { .. });
                assert!(errors.as_slice().iter().all(contradiction), "{key} = {value}: {errors}");
            }
        }
        tried += 1;
    }
    assert!(tried > 50, "{tried}");
}

#[test]
fn an_unknown_protocol_is_refused_and_one_that_is_not_built_says_so() {
    assert_eq!(
        template_fault("{\"consensus\": \"paxos\"}"),
        "t.json:1:15: $.consensus: \"paxos\" is not allowed; allowed: the name of a consensus protocol: \"raft\""
    );
    for name in ["pbft", "hotstuff1"] {
        assert_eq!(
            template_fault(&format!("{{\"consensus\": \"{name}\"}}")),
            format!("t.json:1:15: $.consensus: \"{name}\" is not built yet in this version; use \"raft\"")
        );
    }
    assert!(template_fault("{\"consensus\": \"Raft\"}").contains("\"Raft\" is not allowed"));
    assert!(template_fault("{\"consensus\": 1}").contains("which is a number"));
}

#[test]
fn b65_an_election_timeout_below_twice_the_heartbeat_is_refused_and_a_poor_one_is_warned_about() {
    let text = |heartbeat, election| {
        format!("{{\"heartbeat_interval_ms\": {heartbeat}, \"election_timeout_ms\": {election}}}")
    };
    for election in [50, 99, 100, 150, 199] {
        let fault = template_fault(&text(100, election));
        let expected = format!(
            "t.json:1:55: $.election_timeout_ms: {election} cannot work: the election timeout must be at least twice the \
             heartbeat; election_timeout_ms is {election}, heartbeat_interval_ms is 100"
        );
        assert_eq!(fault, expected);
    }
    for election in [200, 499] {
        let notes = template_notes(&text(100, election));
        assert_eq!(
            notes,
            [format!(
                "t.json:1:55: $.election_timeout_ms: warning: fewer than 5 heartbeats in an election timeout make needless \
                 elections likely; election_timeout_ms is {election}, heartbeat_interval_ms is 100"
            )]
        );
    }
    assert_eq!(template_notes(&text(100, 500)), Vec::<String>::new());
}

#[test]
fn b65_an_election_timeout_of_an_hour_is_refused() {
    assert!(template_fault("{\"election_timeout_ms\": 3600000}").ends_with("allowed: an integer from 2 to 60000"));
}

#[test]
fn b65_a_rule_between_a_given_value_and_a_default_names_the_given_one() {
    let fault = template_fault("{\"heartbeat_interval_ms\": 251}");
    assert!(fault.starts_with("t.json:1:27: $.heartbeat_interval_ms: 251 cannot work"), "{fault}");
    assert!(fault.ends_with("election_timeout_ms is 500, heartbeat_interval_ms is 251"), "{fault}");
}

#[test]
fn no_rule_speaks_about_a_default_that_stands_in_for_a_refused_value() {
    template_fault("{\"heartbeat_interval_ms\": 400, \"election_timeout_ms\": \"2s\"}");
}

#[test]
fn settings_that_cannot_work_together_are_refused() {
    for (text, rule) in [
        ("\"reconnect_backoff_ms_min\": 2000", "reconnect_backoff_ms_min 2000 is above reconnect_backoff_ms_max 1000"),
        (
            "\"max_append_bytes\": 16777216",
            "max_in_flight_bytes_per_follower 8388608 is below max_append_bytes 16777216",
        ),
        (
            "\"log_memory_limit_bytes\": 1048576",
            "log_memory_limit_bytes 1048576 is below max_in_flight_bytes_per_follower",
        ),
        ("\"client_admission_bytes\": 65536", "client_admission_bytes 65536 has no room for one entry"),
        ("\"value_size_limit_bytes\": 16777216", "exceed a payload of 16777216 bytes"),
        (
            "\"raft_follower_batch_timeout_ms\": 500",
            "raft_follower_batch_timeout_ms 500 must be below election_timeout_ms 500",
        ),
    ] {
        let errors = template_errors(&format!("{{{text}}}")).to_string();
        assert!(errors.contains(rule), "{errors}");
        assert!(errors.contains("cannot work"), "{errors}");
    }
    let many: Vec<_> = (1..=8).map(replica_text).collect();
    let errors = cluster_errors(&cluster_text_with("\"max_connections\": 8,", &many.join(",")));
    assert!(errors.to_string().contains("max_connections 8 leaves no room for clients beside 8 replicas"), "{errors}");
}

#[test]
fn settings_that_work_poorly_are_warned_about() {
    assert_eq!(
        template_notes("{\"max_process_txn\": 20000}"),
        [
            "t.json:1:21: $.max_process_txn: warning: max_process_txn 20000 is above client_admission_frames 16384, so a full \
          window is answered with Busy"
        ]
    );
    assert!(template_notes("{\"election_timeout_ms\": 1500}")[0].contains("a slow disk passes for a hung one"));
    assert!(template_notes("{\"not_need_signature\": false}")[0].contains("are not signed here"));
}

#[test]
fn v10_even_and_single_replica_counts_are_accepted_with_the_faults_they_tolerate() {
    let notes = |count: u32| {
        let replicas: Vec<_> = (1..=count).map(replica_text).collect();
        let notes = cluster_notes(&cluster_text_with("", &replicas.join(",")));
        notes.iter().map(|note| note.split_once("warning: ").unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(notes(1), ["1 replica tolerates no fault"]);
    assert_eq!(notes(2), ["2 replicas tolerate no fault, no more than 1 replica does"]);
    assert_eq!(notes(4), ["4 replicas tolerate 1 fault (a quorum is 3), no more than 3 do"]);
    assert_eq!(notes(6), ["6 replicas tolerate 2 faults (a quorum is 4), no more than 5 do"]);
    assert!(notes(3).is_empty() && notes(5).is_empty());
}

#[test]
fn v10_no_replica_and_too_many_are_refused() {
    let fault = cluster_errors(&cluster_text_with("", "")).to_string();
    assert!(fault.ends_with("$.replicas: 0 replicas; allowed: 1 to 64"), "{fault}");
    let many: Vec<_> = (1..=65).map(replica_text).collect();
    let fault = cluster_errors(&cluster_text_with("", &many.join(","))).to_string();
    assert!(fault.ends_with("$.replicas: 65 replicas; allowed: 1 to 64"), "{fault}");
}

#[test]
fn v18_a_tilde_that_nobody_expands_is_refused() {
    for path in ["~/data", "~", "", "a\\u0000b"] {
        assert!(template_fault(&format!("{{\"recovery_path\": \"{path}\"}}")).contains("is not allowed"), "{path}");
    }
    assert!(parse_template("t.json", r#"{"recovery_path": "mit Leerzeichen/übung"}"#.as_bytes()).is_ok());
}

#[test]
fn v18_a_relative_data_folder_counts_from_the_folder_of_the_cluster_file() {
    let id = quorate_framework::ReplicaId(2);
    let relative = parse_cluster("c.json", cluster_text("\"recovery_path\": \"my data\",").as_bytes()).unwrap().config;
    let folder = relative.data_directory(std::path::Path::new("/etc/quorate/c.json"), id).unwrap();
    assert_eq!(folder, std::path::Path::new("/etc/quorate/my data/replica-2"));
    let here = relative.data_directory(std::path::Path::new("c.json"), id).unwrap();
    assert_eq!(here, std::env::current_dir().unwrap().join("my data/replica-2"));
    let absolute = parse_cluster("c.json", cluster_text("\"recovery_path\": \"/srv/q\",").as_bytes()).unwrap().config;
    let folder = absolute.data_directory(std::path::Path::new("/etc/quorate/c.json"), id).unwrap();
    assert_eq!(folder, std::path::Path::new("/srv/q/replica-2"));
}

#[test]
fn an_absent_recovery_enabled_means_true() {
    assert!(parse_template("t.json", b"{}").unwrap().config.settings().recovery_enabled);
}

#[test]
fn the_in_flight_timeout_is_one_election_timeout_unless_given() {
    let timeout =
        |text: &str| parse_template("t.json", text.as_bytes()).unwrap().config.settings().in_flight_timeout_ms;
    assert_eq!(timeout("{}"), 500);
    assert_eq!(timeout("{\"election_timeout_ms\": 800}"), 800);
    assert_eq!(timeout("{\"election_timeout_ms\": 800, \"in_flight_timeout_ms\": 90}"), 90);
}

#[test]
fn all_faults_of_a_file_appear_at_once_in_its_order() {
    let text = r#"{
  "hearbeat_interval_ms": 50,
  "election_timeout_ms": "500",
  "max_process_txn": 0,
  "max_process_txn": 5,
  "consensus": "pbft",
  "reconnect_backoff_ms_min": 5000,
  "cluster_id": "xyz",
  "replicas": [
    {"id": 0, "host": "", "port": 70000},
    {"id": 2, "host": "a b", "port": 1},
    {"id": 2, "host": "10.0.0.1", "port": 0, "colour": 1},
    {"host": "10.0.0.1", "port": 5},
    {"id": 5, "host": "10.0.0.1", "port": 5},
    7
  ]
}"#;
    let errors = cluster_errors(text);
    let lines: Vec<String> = errors.to_string().lines().map(str::to_owned).collect();
    let expected = [
        "c.json:2:3: $.hearbeat_interval_ms: unknown key",
        "c.json:3:26: $.election_timeout_ms: found \"500\", which is a string",
        "c.json:4:22: $.max_process_txn: 0 is not allowed",
        "c.json:5:3: $.max_process_txn: the key is given twice, first at line 4",
        "c.json:6:16: $.consensus: \"pbft\" is not built yet",
        "c.json:7:31: $.reconnect_backoff_ms_min: 5000 cannot work",
        "c.json:8:17: $.cluster_id: \"xyz\" is not allowed; allowed: 32 hexadecimal digits",
        "c.json:10:12: $.replicas[0].id: 0 is not allowed; allowed: an integer from 1 to",
        "c.json:10:23: $.replicas[0].host: the host \"\" is empty",
        "c.json:10:35: $.replicas[0].port: 70000 is not allowed; allowed: an integer from 1 to 65535",
        "c.json:11:23: $.replicas[1].host: the host \"a b\" has white space",
        "c.json:12:12: $.replicas[2].id: replica id 2 is given twice, first at line 11: $.replicas[1].id",
        "c.json:12:43: $.replicas[2].port: 0 is not allowed",
        "c.json:12:46: $.replicas[2].colour: unknown key",
        "c.json:13:5: $.replicas[3]: the key \"id\" is missing",
        "c.json:14:43: $.replicas[4].port: 10.0.0.1:5 is used twice, first at line 13: $.replicas[3].port",
        "c.json:15:5: $.replicas[5]: found 7, which is a number",
    ];
    assert_eq!(lines.len(), expected.len(), "{errors}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}");
    }
}

#[test]
fn a_file_with_very_many_faults_is_reported_with_a_bound() {
    let keys: Vec<_> = (0..5_000).map(|number| format!("\"x{number}\": 1")).collect();
    let errors = template_errors(&format!("{{{}}}", keys.join(",")));
    assert_eq!(errors.as_slice().len(), 201);
    assert!(errors.to_string().ends_with("t.json: more than 200 faults; the rest is not listed"));
}

#[test]
fn a_long_or_unprintable_value_is_shown_short_and_escaped() {
    let fault = template_fault(&format!("{{\"consensus\": \"{}\"}}", "x".repeat(10_000)));
    assert!(fault.len() < 300, "{}", fault.len());
    let fault = template_fault("{\"a\\u001b[31m\\nb\": 1}");
    assert!(!fault.contains('\u{1b}') && fault.lines().count() == 1, "{fault}");
}
