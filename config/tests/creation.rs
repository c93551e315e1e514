//! Making a cluster's file from a template.

mod common;

use common::{CLUSTER_ID, replica_text};
use quorate_config::{
    ClusterConfig, CreateError, HostProblem, Hosts, PortChoice, PortRole, TemplateConfig, WriteError, new_cluster,
    parse_cluster, parse_template, write_cluster,
};
use quorate_framework::ClusterId;
use std::net::TcpListener;

const ID: ClusterId = ClusterId([0xab; 16]);

fn template(text: &str) -> TemplateConfig {
    parse_template("t.json", text.as_bytes()).expect("no fault").config
}

fn create(hosts: &Hosts, ports: PortChoice) -> Result<ClusterConfig, CreateError> {
    new_cluster(&TemplateConfig::defaults(), ID, hosts, ports)
}

fn elsewhere() -> Hosts {
    Hosts::List(vec!["db1.example.org".to_owned(), "10.0.0.2".to_owned()])
}

#[test]
fn a_new_cluster_has_the_keys_of_its_template_and_reads_back_equal() {
    let template = template(r#"{"maxProcessTxn": 7, /* c */ "worker_num": 3, "leveldb_info": {"path": "x y"}}"#);
    let cluster = new_cluster(&template, ID, &elsewhere(), PortChoice::default()).unwrap();
    let text = cluster.to_json_pretty();
    assert_eq!(
        text,
        r#"{
  "max_process_txn": 7,
  "worker_num": 3,
  "leveldb_info": {"path":"x y"},
  "cluster_id": "abababababababababababababababab",
  "replicas": [
    { "id": 1, "host": "db1.example.org", "port": 17000, "http_port": 18000, "resp_port": 19000 },
    { "id": 2, "host": "10.0.0.2", "port": 17001, "http_port": 18001, "resp_port": 19001 }
  ]
}
"#
    );
    assert_eq!(parse_cluster("c.json", text.as_bytes()).unwrap().config, cluster);
}

#[test]
fn a_free_block_is_the_first_whose_every_port_can_be_bound() {
    let ports = |cluster: &ClusterConfig| cluster.replicas().iter().map(|replica| replica.port).collect::<Vec<_>>();
    let first = create(&Hosts::Loopback(3), PortChoice::FreeBlock).unwrap();
    let start = first.replicas()[0].port;
    assert_eq!(ports(&first), [start, start + 1, start + 2]);
    assert_eq!((start - 17_000) % 3, 0);
    assert_eq!(first.replicas()[2].http_port, start + 1_002);
    assert_eq!(first.replicas()[2].resp_port, start + 2_002);
    // With any one of its ports in use, the block is passed over.
    // If it cannot be bound, another process took it meanwhile, and it is in use all the same.
    let _busy = TcpListener::bind(("127.0.0.1", first.replicas()[1].resp_port));
    let second = create(&Hosts::Loopback(3), PortChoice::FreeBlock).unwrap();
    assert_ne!(ports(&second), ports(&first));
}

#[test]
fn free_ports_are_not_looked_for_on_other_machines() {
    let error = create(&elsewhere(), PortChoice::FreeBlock).unwrap_err();
    assert_eq!(
        error.to_string(),
        "free ports can be looked for only on this machine, and db1.example.org is another; name the ports"
    );
}

#[test]
fn a_named_port_that_is_busy_is_an_error_that_names_it() {
    let [free, busy, other] = [0; 3].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
    let [peer, http, resp] = [&free, &busy, &other].map(|listener| listener.local_addr().unwrap().port());
    drop((free, other));
    let base = PortChoice::Base { peer, http, resp };
    let error = create(&Hosts::Loopback(1), base).unwrap_err();
    assert!(matches!(&error, CreateError::PortBusy { port, role: PortRole::Http, .. } if *port == http), "{error}");
    let expected = format!("port {http} (HTTP of replica 1) cannot be used on 127.0.0.1: ");
    assert!(error.to_string().starts_with(&expected), "{error}");
    let named = parse_template(
        "t.json",
        format!(r#"{{"replicas": [{{"id": 1, "host": "localhost", "port": {http}}}]}}"#).as_bytes(),
    );
    let error = new_cluster(&named.unwrap().config, ID, &Hosts::Template, PortChoice::default()).unwrap_err();
    assert!(matches!(error, CreateError::PortBusy { role: PortRole::Peer, .. }), "{error}");
}

#[test]
fn ports_that_overlap_or_run_out_are_refused() {
    let base = |peer, http, resp| PortChoice::Base { peer, http, resp };
    let hosts = Hosts::List(vec!["a".to_owned(), "a".to_owned()]);
    assert!(matches!(
        create(&hosts, base(100, 101, 300)),
        Err(CreateError::PortTwice { address, first: PortRole::Http, second: PortRole::Peer }) if address == "a:101"
    ));
    assert!(matches!(create(&hosts, base(65_535, 1, 10)), Err(CreateError::PortRange { role: PortRole::Peer, .. })));
    assert!(matches!(create(&hosts, base(1, 10, 0)), Err(CreateError::PortRange { role: PortRole::Resp, .. })));
    assert!(create(&hosts, base(65_534, 1, 10)).is_ok());
}

#[test]
fn hosts_and_counts_that_cannot_be_are_refused() {
    for count in [0, 65, usize::MAX] {
        let error = create(&Hosts::Loopback(count), PortChoice::FreeBlock).unwrap_err();
        assert_eq!(error.to_string(), format!("a cluster of {count} replicas; allowed: 1 to 64"));
    }
    assert!(matches!(create(&Hosts::List(Vec::new()), PortChoice::default()), Err(CreateError::ReplicaCount { .. })));
    let hosts = Hosts::List(vec!["a".to_owned(), "b:5".to_owned()]);
    let error = create(&hosts, PortChoice::default()).unwrap_err();
    assert!(matches!(error, CreateError::BadHost { number: 2, problem: HostProblem::HasPort, .. }), "{error}");
    assert_eq!(error.to_string(), "host number 2: \"b:5\" has a port in it; the port has a key of its own");
    assert!(matches!(create(&Hosts::Template, PortChoice::default()), Err(CreateError::NoReplicasInTemplate)));
}

#[test]
fn a_template_that_is_another_clusters_file_gives_its_replicas_but_not_its_identity() {
    let remote = replica_text(5).replace("127.0.0.1", "10.1.1.1");
    let template = template(&format!(r#"{{"cluster_id": "{CLUSTER_ID}", "worker_num": 1, "replicas": [{remote}]}}"#));
    let cluster = new_cluster(&template, ID, &Hosts::Template, PortChoice::default()).unwrap();
    assert_eq!(cluster.cluster_id(), ID);
    assert_eq!(cluster.replica(5).unwrap().peer_address(), "10.1.1.1:17005");
}

#[test]
fn a_file_is_written_whole_and_an_existing_one_is_kept_unless_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my cluster.json");
    let first = create(&elsewhere(), PortChoice::default()).unwrap();
    let second = create(&Hosts::List(vec!["c".to_owned()]), PortChoice::default()).unwrap();
    let names =
        || std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    write_cluster(&path, &first, false).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), first.to_json_pretty());
    assert!(matches!(write_cluster(&path, &second, false), Err(WriteError::Exists { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), first.to_json_pretty());
    write_cluster(&path, &second, true).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), second.to_json_pretty());
    assert_eq!(names(), ["my cluster.json"], "no temporary file is left");
    assert!(matches!(write_cluster(folder.path(), &first, true), Err(WriteError::Directory { .. })));
    let missing = folder.path().join("no/such/folder.json");
    assert!(matches!(write_cluster(&missing, &first, false), Err(WriteError::Io { .. })));
    assert_eq!(names(), ["my cluster.json"]);
}
