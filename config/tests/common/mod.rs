//! What several tests share.
#![allow(dead_code, reason = "each test file uses its own part")]

use quorate_config::{ConfigErrors, parse_cluster, parse_template};

pub(crate) const CLUSTER_ID: &str = "0123456789abcdef0123456789abcdef";

/// A cluster file of three replicas on loopback with `settings` before the rest.
pub(crate) fn cluster_text(settings: &str) -> String {
    cluster_text_with(settings, &[1, 2, 3].map(replica_text).join(","))
}

/// A cluster file with these elements of `replicas`.
pub(crate) fn cluster_text_with(settings: &str, replicas: &str) -> String {
    format!("{{{settings} \"cluster_id\": \"{CLUSTER_ID}\", \"replicas\": [{replicas}]}}")
}

pub(crate) fn replica_text(id: u32) -> String {
    let port = 17_000 + id;
    format!(
        r#"{{"id": {id}, "host": "127.0.0.1", "port": {port}, "http_port": {}, "resp_port": {}}}"#,
        port + 1_000,
        port + 2_000
    )
}

pub(crate) fn cluster_errors(text: &str) -> ConfigErrors {
    parse_cluster("c.json", text.as_bytes()).expect_err("the file has a fault")
}

pub(crate) fn template_errors(text: &str) -> ConfigErrors {
    parse_template("t.json", text.as_bytes()).expect_err("the file has a fault")
}

/// The only fault of a template, as text.
pub(crate) fn template_fault(text: &str) -> String {
    let errors = template_errors(text);
    assert_eq!(errors.as_slice().len(), 1, "{errors}");
    errors.to_string()
}

/// The only fault of a cluster's file, as text.
pub(crate) fn cluster_fault(text: &str) -> String {
    let errors = cluster_errors(text);
    assert_eq!(errors.as_slice().len(), 1, "{errors}");
    errors.to_string()
}

pub(crate) fn template_notes(text: &str) -> Vec<String> {
    let accepted = parse_template("t.json", text.as_bytes()).expect("no fault");
    accepted.notes.iter().map(ToString::to_string).collect()
}

pub(crate) fn cluster_notes(text: &str) -> Vec<String> {
    let accepted = parse_cluster("c.json", text.as_bytes()).expect("no fault");
    accepted.notes.iter().map(ToString::to_string).collect()
}
