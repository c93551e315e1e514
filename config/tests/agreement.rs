//! What replicas must agree about (case V26), what is printed at start (case B65), and the schema.

mod common;

use common::{CLUSTER_ID, cluster_text, cluster_text_with, replica_text};
use quorate_config::{ClusterConfig, agreement_differences, parse_cluster, schema};

fn cluster(text: &str) -> ClusterConfig {
    parse_cluster("c.json", text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}")).config
}

fn differences(left: &str, right: &str) -> Vec<String> {
    agreement_differences(&cluster(left).agreement_digest_input(), &cluster(right).agreement_digest_input())
}

#[test]
fn v26_every_value_that_must_agree_is_compared_and_both_values_are_shown() {
    let ours = cluster_text("");
    for (key, value, difference) in [
        ("election_timeout_ms", "800", "election_timeout_ms: 500 here, 800 there"),
        ("recovery_enabled", "false", "recovery_enabled: true here, false there"),
        ("not_need_signature", "false", "not_need_signature: true here, false there"),
        ("session_window", "512", "session_window: 1024 here, 512 there"),
        ("session_table_limit", "10", "session_table_limit: 65536 here, 10 there"),
        ("session_answer_limit_bytes", "65536", "session_answer_limit_bytes: 67108864 here, 65536 there"),
        ("key_size_limit_bytes", "10", "key_size_limit_bytes: 65536 here, 10 there"),
        ("value_size_limit_bytes", "10", "value_size_limit_bytes: 8388608 here, 10 there"),
    ] {
        assert_eq!(differences(&ours, &cluster_text(&format!("\"{key}\": {value},"))), [difference]);
    }
    let other_id = ours.replace(CLUSTER_ID, "fedcba98765432100123456789abcdef");
    assert_eq!(
        differences(&ours, &other_id),
        [format!("cluster_id: {CLUSTER_ID} here, fedcba98765432100123456789abcdef there")]
    );
}

#[test]
fn v26_another_member_list_is_seen() {
    let with =
        |ids: &[u32]| cluster_text_with("", &ids.iter().map(|id| replica_text(*id)).collect::<Vec<_>>().join(","));
    assert_eq!(differences(&with(&[1, 2]), &with(&[1, 2, 3])), ["replica_3: nothing here, 127.0.0.1:17003 there"]);
    let moved = with(&[1, 2]).replace("17002", "17102");
    assert_eq!(differences(&with(&[1, 2]), &moved), ["replica_2: 127.0.0.1:17002 here, 127.0.0.1:17102 there"]);
    let bytes = |ids: &[u32]| cluster(&with(ids)).agreement_digest_input();
    assert_eq!(bytes(&[1, 2, 3]), bytes(&[3, 1, 2]), "the order in the file means nothing");
}

#[test]
fn what_each_replica_may_choose_does_not_disagree() {
    let ours = cluster_text("");
    let theirs =
        cluster_text("\"maxInFlightMessagesPerFollower\": 5, \"max_connections\": 100, \"recovery_path\": \"x\",");
    assert_eq!(differences(&ours, &theirs), Vec::<String>::new());
    assert_eq!(cluster(&ours).agreement_digest_input(), cluster(&theirs).agreement_digest_input());
}

#[test]
fn bytes_of_a_stranger_are_compared_without_harm() {
    let ours = cluster(&cluster_text("")).agreement_digest_input();
    let differences = agreement_differences(&ours, b"\xff\x1b[31m=\x07\nx");
    assert!(differences.len() > 10);
    assert!(differences.iter().all(|line| !line.contains(['\u{1b}', '\u{7}'])), "{differences:?}");
}

#[test]
fn b65_every_effective_value_is_shown_defaults_included() {
    let shown = cluster(&cluster_text("\"election_timeout_ms\": 700,")).effective_settings();
    assert_eq!(shown["election_timeout_ms"], 700);
    assert_eq!(shown["in_flight_timeout_ms"], 700);
    assert_eq!(shown["heartbeat_interval_ms"], 50);
    assert_eq!(shown["consensus"], "raft");
    assert_eq!(shown["cluster_id"], CLUSTER_ID);
    assert_eq!(shown["replicas"][2]["resp_port"], 19_003);
    for (key, property) in schema()["properties"].as_object().unwrap() {
        if property.get("default").is_some() && !key.contains(char::is_uppercase) {
            assert!(shown.get(key).is_some(), "{key}");
        }
    }
}

#[test]
fn the_schema_documents_every_key_and_forbids_others() {
    let schema = schema();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["heartbeat_interval_ms"]["default"], 50);
    assert_eq!(schema["properties"]["heartbeatIntervalMs"], schema["properties"]["heartbeat_interval_ms"]);
    let replica = &schema["properties"]["replicas"]["items"];
    assert_eq!(replica["required"], serde_json::json!(["id", "host", "port"]));
    assert_eq!(replica["properties"]["port"]["maximum"], 65_535);
    for (key, property) in schema["properties"].as_object().unwrap() {
        assert!(property["description"].as_str().unwrap().len() > 10, "{key}");
    }
    let no_effect = schema["properties"]["worker_num"]["description"].as_str().unwrap();
    assert!(no_effect.ends_with("No effect here: a replica's threads are fixed by its design."), "{no_effect}");
}
