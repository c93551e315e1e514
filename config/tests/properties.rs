//! What holds for every file: no bytes panic the reader, and what is written reads back equal.

use proptest::prelude::*;
use quorate_config::{
    ConfigError, Hosts, PortChoice, TemplateConfig, new_cluster, parse_cluster, parse_template, schema,
};
use quorate_framework::ClusterId;
use serde_json::Value;

/// Settings of the table, each with a value of its range, in a random order.
fn settings() -> impl Strategy<Value = Vec<(String, Value)>> {
    let keys: Vec<(String, Value)> = schema()["properties"]
        .as_object()
        .expect("an object")
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut each: Vec<BoxedStrategy<(String, Value)>> = Vec::new();
    for (key, property) in keys.into_iter().filter(|(key, _)| !key.contains(char::is_uppercase)) {
        let value = match property["type"].as_str() {
            Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
            Some("integer") => {
                let end = |name: &str| property[name].as_u64().expect("an integer has both ends");
                (end("minimum")..=end("maximum")).prop_map(Value::from).boxed()
            }
            Some("string") if key == "recovery_path" => "[a-zü \"\\\\/._-]{1,20}".prop_map(Value::from).boxed(),
            _ => continue,
        };
        each.push((Just(key), value).boxed());
    }
    let length = each.len();
    proptest::sample::subsequence(each, 0..=length).prop_flat_map(|chosen| chosen).prop_shuffle()
}

fn hosts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-z][a-z0-9]{0,8}(\\.[a-z]{1,5}){0,2}|10\\.[0-9]\\.[0-9]\\.[0-9]|fe80::[1-9]", 1..10)
}

/// The template of `settings` without those that contradict others.
fn sound_template(mut settings: Vec<(String, Value)>) -> (usize, TemplateConfig) {
    loop {
        let members: Vec<_> = settings.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
        match parse_template("t.json", format!("{{{}}}", members.join(", ")).as_bytes()) {
            Ok(accepted) => return (settings.len(), accepted.config),
            Err(errors) => {
                for error in errors {
                    let ConfigError::Contradiction { place, .. } = &error else { panic!("{error}") };
                    settings.retain(|(key, _)| place.path != format!("$.{key}"));
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back_equal(settings in settings(), hosts in hosts(), id in any::<[u8; 16]>()) {
        prop_assume!(id != [0; 16]);
        let (given, template) = sound_template(settings);
        prop_assert_eq!(template.given().len(), given);
        let cluster = new_cluster(&template, ClusterId(id), &Hosts::List(hosts), PortChoice::default()).unwrap();
        let written = cluster.to_json_pretty();
        let read = parse_cluster("c.json", written.as_bytes());
        prop_assert_eq!(read.map(|read| read.config), Ok(cluster), "{}", written);
    }

    #[test]
    fn no_bytes_panic_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse_cluster("c.json", &bytes);
        let _ = parse_template("t.json", &bytes);
    }

    #[test]
    fn no_damage_to_a_sound_file_panics_the_reader(cuts in prop::collection::vec((0usize..2_000, any::<u8>()), 1..6)) {
        let mut bytes = SOUND.as_bytes().to_vec();
        for (place, byte) in cuts {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        if let Err(errors) = parse_cluster("c.json", &bytes) {
            prop_assert!(!errors.as_slice().is_empty());
            prop_assert!(!errors.to_string().is_empty());
        }
    }
}

const SOUND: &str = r#"{
  "consensus": "raft", "heartbeat_interval_ms": 20, "recovery_path": "d", "leveldb_info": {"path": "x"},
  "cluster_id": "0123456789abcdef0123456789abcdef",
  "replicas": [
    {"id": 1, "host": "10.0.0.1", "port": 1, "http_port": 2, "resp_port": 3}, // one
    {"id": 2, "host": "::1", "port": 1, "http_port": 2, "resp_port": 3} /* two */
  ]
}"#;

#[test]
fn the_sound_file_is_sound() {
    parse_cluster("c.json", SOUND.as_bytes()).unwrap();
}
