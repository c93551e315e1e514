//! The shipped samples work as shipped (case B70), and ResilientDB's published file is accepted verbatim.

use quorate_config::{Hosts, NoteKind, PortChoice, TemplateConfig, load_template, new_cluster, schema};
use quorate_framework::ClusterId;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The published configuration of the ResilientDB evaluation, as it stands there.
const PUBLISHED: &str = r#"{
  "client_batch_num": 100,
  "enable_viewchange": false,
  "recovery_enabled": false,
  "not_need_signature": true,
  "max_client_complaint_num": 10,
  "max_process_txn": 2048,
  "worker_num": 8,
  "input_worker_num": 5,
  "output_worker_num": 5,
  "recovery_ckpt_time_s": 60,
  "min_client_receive_num": 1,
  "raft_follower_batch_timeout_ms": 0
}
"#;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(name)
}

#[test]
fn the_shipped_raft_config_is_the_published_one_to_the_byte() {
    assert_eq!(std::fs::read_to_string(sample("raft.config")).unwrap(), PUBLISHED);
}

#[test]
fn the_published_raft_config_is_accepted_with_its_effects_and_notes() {
    let accepted = load_template(&sample("raft.config")).unwrap();
    let settings = accepted.config.settings();
    assert_eq!((settings.client_batch_num, settings.max_process_txn), (100, 2_048));
    assert!(!settings.recovery_enabled && settings.not_need_signature);
    assert_eq!((settings.recovery_ckpt_time_s, settings.min_client_receive_num), (60, 1));
    assert_eq!(settings.raft_follower_batch_timeout_ms, 0);
    assert!(accepted.notes.iter().all(|note| note.kind == NoteKind::NoEffect));
    let noted: Vec<_> = accepted.notes.iter().map(|note| note.place.path.as_str()).collect();
    assert_eq!(
        noted,
        [
            "$.enable_viewchange",
            "$.max_client_complaint_num",
            "$.worker_num",
            "$.input_worker_num",
            "$.output_worker_num",
            "$.recovery_ckpt_time_s"
        ]
    );
    assert!(accepted.notes[0].text.contains("elections are always on"), "{}", accepted.notes[0]);
    let published: Value = serde_json::from_str(PUBLISHED).unwrap();
    let given: Vec<_> = accepted.config.given().iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    assert_eq!(given.len(), published.as_object().unwrap().len());
    assert_eq!(Value::Object(given.into_iter().collect()), published);
}

#[test]
fn the_annotated_sample_names_every_setting_with_its_default() {
    let accepted = load_template(&sample("annotated.config")).unwrap();
    assert_eq!(accepted.notes, []);
    assert_eq!(accepted.config.settings(), TemplateConfig::defaults().settings());
    let settings = schema();
    for (key, property) in settings["properties"].as_object().unwrap() {
        let of_ours = property.get("default").is_some() || key == "in_flight_timeout_ms";
        if of_ours && !key.contains(char::is_uppercase) {
            assert!(accepted.config.given().iter().any(|(given, _)| given == key), "{key}");
        }
    }
}

#[test]
fn every_sample_makes_a_cluster_on_loopback() {
    let mut tried = 0;
    for entry in std::fs::read_dir(sample("")).unwrap() {
        let path = entry.unwrap().path();
        let template = load_template(&path).unwrap_or_else(|errors| panic!("{errors}")).config;
        let cluster = new_cluster(&template, ClusterId([1; 16]), &Hosts::Loopback(3), PortChoice::FreeBlock).unwrap();
        assert!(cluster.replicas().iter().all(|replica| replica.host == "127.0.0.1"));
        tried += 1;
    }
    assert!(tried >= 2);
}
