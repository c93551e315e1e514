//! Keys that are not what they should be (cases B64 and V05): none is ignored in silence.

mod common;

use common::{
    CLUSTER_ID, cluster_errors, cluster_fault, cluster_text, cluster_text_with, template_errors, template_fault,
};
use quorate_config::{ConfigError, KeyHint, parse_template, schema};
use serde_json::Value;

fn properties(schema: &Value) -> Vec<(String, Value)> {
    schema["properties"]
        .as_object()
        .expect("an object")
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Every word that is one letter away from `key`: one letter replaced, removed, doubled or in capitals.
fn mutations(key: &str) -> Vec<String> {
    let letters: Vec<char> = key.chars().collect();
    let mut words = Vec::new();
    for place in 0..letters.len() {
        let with = |replacement: &str| {
            let head: String = letters[..place].iter().collect();
            let tail: String = letters[place + 1..].iter().collect();
            format!("{head}{replacement}{tail}")
        };
        let letter = letters[place];
        let other = if letter == 'q' { 'x' } else { 'q' };
        words.extend([with(""), with(&format!("{letter}{letter}")), with(&other.to_string())]);
        if letter.is_ascii_lowercase() {
            words.push(with(&letter.to_ascii_uppercase().to_string()));
        }
    }
    words
}

#[test]
fn b64_every_documented_key_with_one_letter_wrong_is_noticed() {
    let keys = properties(&schema());
    assert!(keys.len() > 60, "{}", keys.len());
    for (key, property) in &keys {
        for word in mutations(key).into_iter().filter(|word| !keys.iter().any(|(key, _)| key == word)) {
            let value = property["default"].clone();
            let text = serde_json::json!({ word.clone(): value }).to_string();
            let errors = template_errors(&text);
            let [ConfigError::UnknownKey { key: found, hint, .. }] = errors.as_slice() else {
                panic!("{word} instead of {key}: {errors}");
            };
            assert_eq!(*found, word);
            assert!(!matches!(hint, KeyHint::Nothing), "{word} instead of {key}: {errors}");
        }
    }
}

#[test]
fn b64_the_key_that_was_meant_is_named() {
    for (key, property) in properties(&schema()) {
        if key.contains(|letter: char| letter.is_ascii_uppercase()) {
            continue;
        }
        let doubled = format!("{key}{}", key.chars().last().unwrap());
        let text = serde_json::json!({ doubled: property["default"] }).to_string();
        assert!(template_fault(&text).ends_with(&format!("; did you mean \"{key}\"?")), "{}", template_fault(&text));
    }
}

#[test]
fn b64_every_key_of_a_replica_with_one_letter_wrong_is_noticed() {
    let keys = properties(&schema()["properties"]["replicas"]["items"]);
    assert_eq!(keys.len(), 7, "five keys, two of them in two spellings");
    let sound = r#"{"id": 9, "host": "127.0.0.1", "port": 1, "http_port": 2, "resp_port": 3}"#;
    for (key, _) in keys.iter().filter(|(key, _)| sound.contains(&format!("\"{key}\""))) {
        for word in mutations(key).into_iter().filter(|word| !keys.iter().any(|(key, _)| key == word)) {
            let replica = sound.replace(&format!("\"{key}\""), &format!("\"{word}\""));
            let errors = cluster_errors(&cluster_text_with("", &replica));
            let noticed = errors
                .as_slice()
                .iter()
                .any(|error| matches!(error, ConfigError::UnknownKey { key, .. } if *key == word));
            assert!(noticed, "{word} instead of {key}: {errors}");
        }
    }
}

#[test]
fn v05_an_unknown_key_is_refused_with_the_nearest_known_name() {
    assert_eq!(
        template_fault("{\n  \"hearbeat_ms\": 50\n}"),
        "t.json:2:3: $.hearbeat_ms: unknown key \"hearbeat_ms\"; did you mean \"heartbeat_interval_ms\"?"
    );
    assert_eq!(
        template_fault("{\"hearbeat_interval\": 50}"),
        "t.json:1:2: $.hearbeat_interval: unknown key \"hearbeat_interval\"; did you mean \"heartbeat_interval_ms\"?"
    );
    assert_eq!(
        template_fault("{\"colour\": 1}"),
        "t.json:1:2: $.colour: unknown key \"colour\"; no known key is near it; `quorate config schema` lists them all"
    );
}

#[test]
fn v05_a_right_key_in_the_wrong_case_is_named() {
    assert_eq!(
        template_fault("{\"Heartbeat_Interval_MS\": 50}"),
        "t.json:1:2: $.Heartbeat_Interval_MS: unknown key \"Heartbeat_Interval_MS\"; \
         keys are case-sensitive: write \"heartbeat_interval_ms\""
    );
    assert!(template_fault("{\"maxprocesstxn\": 5}").ends_with("write \"max_process_txn\""));
}

#[test]
fn v05_a_right_key_at_the_wrong_level_is_told_where_it_belongs() {
    let replica = r#"{"id": 1, "host": "::1", "port": 17000, "heartbeat_interval_ms": 50}"#;
    assert_eq!(
        cluster_fault(&cluster_text_with("", replica)).split_once("$.").unwrap().1,
        "replicas[0].heartbeat_interval_ms: unknown key \"heartbeat_interval_ms\"; this key belongs at the top of the file"
    );
    assert_eq!(
        template_fault("{\"http_port\": 18000}"),
        "t.json:1:2: $.http_port: unknown key \"http_port\"; this key belongs into an element of \"replicas\""
    );
    assert_eq!(
        template_fault("{\"write_buffer_size_mb\": 8}"),
        "t.json:1:2: $.write_buffer_size_mb: unknown key \"write_buffer_size_mb\"; this key belongs into \"leveldb_info\""
    );
    let leveldb = "{\"leveldb_info\": {\"worker_num\": 8}}";
    assert!(template_fault(leveldb).ends_with("this key belongs at the top of the file"));
}

#[test]
fn a_key_given_twice_is_refused_and_both_places_are_named() {
    assert_eq!(
        template_fault("{\n \"max_process_txn\": 1,\n \"max_process_txn\": 1\n}"),
        "t.json:3:2: $.max_process_txn: the key is given twice, first at line 2, column 2"
    );
    assert_eq!(
        template_fault("{\n \"max_process_txn\": 1,\n \"maxProcessTxn\": 2\n}"),
        "t.json:3:2: $.maxProcessTxn: the key is given twice, first at line 2, column 2"
    );
    let replica = r#"{"id": 1, "id": 2, "host": "::1", "port": 17000}"#;
    assert!(cluster_fault(&cluster_text_with("", replica)).contains("$.replicas[0].id: the key is given twice"));
    let opaque =
        r#"{"region": [{"replica_info": [{"id": 1, "ip": "::1", "port": 1, "certificate_info": {"a": 1, "a": 2}}]}]}"#;
    assert!(template_fault(opaque).contains("certificate_info.a: the key is given twice"));
}

#[test]
fn every_key_is_accepted_in_camel_case_with_the_same_effect() {
    for (key, property) in properties(&schema()) {
        let Some(default) = property.get("default").filter(|_| key.contains(char::is_uppercase)) else { continue };
        let text = serde_json::json!({ key.clone(): default }).to_string();
        let accepted = parse_template("t.json", text.as_bytes()).unwrap().config;
        let [(name, value)] = accepted.given() else { panic!("{key}") };
        assert_eq!((name.replace('_', ""), value), (key.to_lowercase(), default));
    }
}

#[test]
fn a_misspelt_required_key_is_one_fault_not_two() {
    let text = cluster_text("").replace("cluster_id", "clusterid");
    assert!(
        cluster_fault(&text).ends_with("keys are case-sensitive: write \"cluster_id\""),
        "{}",
        cluster_fault(&text)
    );
    assert!(
        cluster_fault(&format!("{{\"cluster_id\": \"{CLUSTER_ID}\"}}")).contains("the key \"replicas\" is missing")
    );
}

#[test]
fn comments_are_accepted() {
    let text = "// head\n{ /* in\nflight */ \"max_process_txn\": 7 // tail\n}";
    assert_eq!(parse_template("t.json", text.as_bytes()).unwrap().config.settings().max_process_txn, 7);
}
