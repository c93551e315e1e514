//! The list of replicas, in our form and in ResilientDB's (cases V07, V09).

mod common;

use common::{CLUSTER_ID, cluster_errors, cluster_fault, cluster_text, cluster_text_with, template_fault};
use quorate_config::{Accepted, ClusterConfig, NoteKind, parse_cluster, parse_template};
use quorate_framework::ReplicaId;

fn cluster(text: &str) -> Accepted<ClusterConfig> {
    parse_cluster("c.json", text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_cluster_file_gives_each_replica_its_addresses() {
    let config = cluster(&cluster_text("")).config;
    assert_eq!(config.cluster_id().to_string(), CLUSTER_ID);
    assert_eq!(config.replicas().len(), 3);
    let second = config.replica(2).unwrap();
    assert_eq!(second.id, ReplicaId(2));
    assert_eq!(second.peer_address(), "127.0.0.1:17002");
    assert_eq!(second.http_address(), "127.0.0.1:18002");
    assert_eq!(second.resp_address(), "127.0.0.1:19002");
}

#[test]
fn absent_http_and_resp_ports_are_counted_up_by_the_place_in_the_list() {
    let replicas = r#"{"id": 7, "host": "::1", "port": 5}, {"id": 3, "host": "::1", "port": 6, "httpPort": 9}"#;
    let config = cluster(&cluster_text_with("", replicas)).config;
    assert_eq!(config.replica(7).unwrap().resp_address(), "[::1]:19000");
    assert_eq!(config.replica(7).unwrap().http_port, 18_000);
    assert_eq!(config.replica(3).unwrap().http_port, 9);
    assert_eq!(config.replica(3).unwrap().resp_port, 19_001);
}

#[test]
fn v07_two_replicas_with_one_id_are_refused_and_both_are_named() {
    let replicas = "{\"id\": 2, \"host\": \"a\", \"port\": 1},\n{\"id\": 2, \"host\": \"b\", \"port\": 1}";
    let fault = cluster_fault(&cluster_text_with("", replicas));
    assert_eq!(fault, "c.json:2:8: $.replicas[1].id: replica id 2 is given twice, first at line 1: $.replicas[0].id");
}

#[test]
fn v07_an_id_as_text_is_refused_and_still_seen_to_be_the_same_replica() {
    let replicas = r#"{"id": "2", "host": "a", "port": 1}, {"id": 2, "host": "b", "port": 1}"#;
    let errors = cluster_errors(&cluster_text_with("", replicas)).to_string();
    assert!(errors.contains("$.replicas[0].id: found \"2\", which is a string"), "{errors}");
    assert!(errors.contains("$.replicas[1].id: replica id 2 is given twice"), "{errors}");
}

#[test]
fn two_listeners_on_one_address_are_refused_and_both_are_named() {
    for (replicas, address, first, second) in [
        (
            r#"{"id": 1, "host": "a", "port": 5}, {"id": 2, "host": "A.", "port": 5}"#,
            "a:5",
            "$.replicas[0].port",
            "$.replicas[1].port",
        ),
        (
            r#"{"id": 1, "host": "localhost", "port": 5}, {"id": 2, "host": "127.0.0.1", "port": 6, "http_port": 5}"#,
            "127.0.0.1:5",
            "$.replicas[0].port",
            "$.replicas[1].http_port",
        ),
        (
            r#"{"id": 1, "host": "a", "port": 5, "resp_port": 5}"#,
            "a:5",
            "$.replicas[0].port",
            "$.replicas[0].resp_port",
        ),
        (
            r#"{"id": 1, "host": "a", "port": 18001}, {"id": 2, "host": "a", "port": 6}"#,
            "a:18001",
            "$.replicas[0].port",
            "$.replicas[1].http_port",
        ),
    ] {
        let fault = cluster_fault(&cluster_text_with("", replicas));
        assert!(fault.contains(&format!("{second}: {address} is used twice, first at line 1: {first}")), "{fault}");
    }
}

#[test]
fn v09_an_id_that_no_replica_has_is_answered_with_those_that_there_are() {
    let config = cluster(&cluster_text("")).config;
    for id in [0, 7, u64::MAX] {
        let expected = format!("replica id {id} is not in the cluster file; its ids are 1, 2, 3");
        assert_eq!(config.replica(id).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_replica_id_of_zero_below_zero_or_too_large_is_refused() {
    for id in ["0", "-1", "4294967296"] {
        let replicas = format!(r#"{{"id": {id}, "host": "a", "port": 1}}"#);
        assert!(cluster_fault(&cluster_text_with("", &replicas)).contains(&format!("{id} is not allowed")));
    }
}

#[test]
fn a_cluster_id_must_be_an_identity() {
    for id in [
        "",
        "0123",
        "00000000000000000000000000000000",
        "+123456789abcdef0123456789abcdef",
        "é123456789abcdef0123456789abcde",
    ] {
        let text = cluster_text("").replace(CLUSTER_ID, id);
        assert!(cluster_fault(&text).contains("allowed: 32 hexadecimal digits"), "{id}");
    }
    let text = cluster_text("").replace(CLUSTER_ID, &CLUSTER_ID.to_uppercase());
    assert_eq!(cluster(&text).config.cluster_id().to_string(), CLUSTER_ID);
}

#[test]
fn a_cluster_file_without_identity_or_replicas_says_who_writes_them() {
    let errors = cluster_errors("{}").to_string();
    assert_eq!(
        errors,
        "c.json:1:1: $: the key \"cluster_id\" is missing; needed: 32 hexadecimal digits; `quorate config new` draws them\n\
         c.json:1:1: $: the key \"replicas\" is missing; needed: the list of replicas; `quorate config new` writes it"
    );
    assert!(parse_template("t.json", b"{}").is_ok());
}

const REGION: &str = r#"
    "region": [{"replica_info": [
        {"id": 1, "ip": "10.0.0.1", "port": 17001, "certificate_info": {"public_key": {"key": "x"}}},
        {"id": 2, "ip": "10.0.0.2", "port": 17002}
    ], "region_id": 1}], "self_region_id": 1"#;

#[test]
fn the_region_of_resilientdb_becomes_replicas_and_is_written_as_replicas() {
    let text = format!("{{{REGION}, \"clusterId\": \"{CLUSTER_ID}\"}}");
    let accepted = cluster(&text);
    assert_eq!(accepted.config.replica(2).unwrap().peer_address(), "10.0.0.2:17002");
    assert_eq!(accepted.config.replica(2).unwrap().http_port, 18_001);
    let no_effect = accepted.notes.iter().filter(|note| note.kind == NoteKind::NoEffect).count();
    assert_eq!(no_effect, 2, "certificate_info and self_region_id: {:?}", accepted.notes);
    let written = accepted.config.to_json_pretty();
    assert!(!written.contains("\"region\"") && written.contains("\"replicas\""), "{written}");
    assert_eq!(cluster(&written).config, accepted.config);
}

#[test]
fn several_regions_or_both_forms_are_refused() {
    let fault = template_fault(
        r#"{"region": [{"replica_info": [{"id": 1, "ip": "a", "port": 1}]}, {"replica_info": [{"id": 2, "ip": "b", "port": 1}]}]}"#,
    );
    assert_eq!(fault, "t.json:1:12: $.region: 2 regions; a cluster has exactly one here");
    assert!(template_fault(r#"{"region": []}"#).contains("0 regions"));
    assert!(template_fault(r#"{"region": [{}]}"#).contains("$.region[0]: the key \"replica_info\" is missing"));
    let both = cluster_fault(&cluster_text(&format!("{REGION},")));
    assert!(both.contains("$.region: \"region\" and \"replicas\" both list the replicas"), "{both}");
    let host = r#"{"region": [{"replica_info": [{"id": 1, "host": "a", "port": 1}]}]}"#;
    let errors = parse_template("t.json", host.as_bytes()).unwrap_err().to_string();
    assert!(errors.contains("unknown key \"host\"; this key belongs into an element of \"replicas\""), "{errors}");
    assert!(errors.contains("the key \"ip\" is missing"), "{errors}");
}
