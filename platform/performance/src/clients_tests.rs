use super::*;
use crate::judge::tests::sound;
use quorate_config::parse_cluster;

fn cluster() -> ClusterConfig {
    let text = r#"{ "cluster_id": "000102030405060708090a0b0c0d0e0f",
        "replicas": [{ "id": 1, "host": "127.0.0.1", "port": 1, "http_port": 2, "resp_port": 3 }] }"#;
    parse_cluster("cluster.json", text.as_bytes()).unwrap().config
}

fn shapes(input: &ClientsInput) -> Vec<(u64, usize)> {
    let plan = ClientsPlan::new(&cluster(), input, Path::new(".")).unwrap();
    plan.rows.iter().map(|row| (row.window, row.connections)).collect()
}

#[test]
fn the_rows_are_the_numbers_of_clients_and_the_most_of_them_again_over_one_connection() {
    let expected = [(1, 1), (8, 4), (16, 4), (64, 4), (128, 4), (256, 4), (256, 1)];
    assert_eq!(shapes(&ClientsInput::default()), expected);
    let given = |clients: &[&str], connections: &str| ClientsInput {
        clients: clients.iter().map(|text| (*text).to_owned()).collect(),
        connections: Some(connections.to_owned()),
        ..ClientsInput::default()
    };
    assert_eq!(shapes(&given(&["2", "32"], "8")), [(2, 2), (32, 8), (32, 1)]);
    assert_eq!(shapes(&given(&["32"], "1")), [(32, 1)], "there is no row twice");
    assert_eq!(shapes(&given(&["1"], "4")), [(1, 1)]);
}

#[test]
fn writes_are_single_of_100_bytes_on_10_000_keys_unless_told_otherwise() {
    let plan = ClientsPlan::new(&cluster(), &ClientsInput::default(), Path::new(".")).unwrap();
    let workload = plan.rows[3].workload;
    assert_eq!((workload.batch, workload.keys, workload.value_size_bytes, workload.read_share), (1, 10_000, 100, 0.0));
    assert_eq!(plan.rows[3].rate_per_s, None);
    assert!((plan.seconds() - 7.0 * 12.0).abs() < 1e-9);
    let quick = ClientsInput { quick: true, ..ClientsInput::default() };
    assert!((ClientsPlan::new(&cluster(), &quick, Path::new(".")).unwrap().seconds() - 21.0).abs() < 1e-9);
}

#[test]
fn numbers_that_cannot_be_used_are_named() {
    let given = |text: &str| Some(text.to_owned());
    let input = ClientsInput {
        clients: vec!["8".into(), "0".into(), "many".into()],
        connections: given("-1"),
        repeat: given("0"),
        ..ClientsInput::default()
    };
    let errors = ClientsPlan::new(&cluster(), &input, Path::new(".")).unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "--clients 0: must be a whole number from 1 to 100000, without a unit",
            "--clients many: must be a whole number from 1 to 100000, without a unit",
            "--connections -1: must be a whole number from 1 to 65536, without a unit",
            "--repeat 0: must be a whole number from 1 to 100, without a unit",
        ]
    );
}

/// A durable result: the leader appended 1,000 groups of 64 in 10 s, and each replica synced 500 times.
fn durable(throughput_per_s: f64) -> LoadResult {
    let mut result = sound(64_000, 64.0);
    (result.durable, result.wal_sync) = (Some(true), Some("always".to_owned()));
    (result.throughput_per_s, result.leader_batch_mean) = (throughput_per_s, Some(64.0));
    result.fsyncs_per_write = Some(1_000.0 / 64_000.0);
    for replica in &mut result.replica_figures {
        replica.executed = Some(64_000);
        replica.counter_growth.clear();
        let counters = [("groups_appended", 1_000), ("syncs", 500), ("wal_groups", 500), ("wal_records", 750)];
        replica.counter_growth.extend(counters.map(|(name, growth)| (name.to_owned(), growth)));
    }
    result
}

fn near(is: f64, expected: f64) -> bool {
    (is - expected).abs() < 1e-9 * expected.max(1.0)
}

#[test]
fn the_model_is_rounds_times_batch_and_stands_beside_what_was_measured() {
    let row = ClientsRow::new(64, 4, vec![durable(6_080.0), durable(7_000.0), durable(6_000.0)]);
    assert!(near(row.writes_per_s.median, 6_080.0) && near(row.writes_per_s.max, 7_000.0), "{row:?}");
    let model = row.model.unwrap();
    assert!(near(model.rounds_per_s, 100.0) && near(model.writes_per_s, 6_400.0), "{model:?}");
    assert!(near(model.measured_ratio, 0.95), "{model:?}");
    // A sync of 0.1 ms and a round trip of 0.1 ms.
    assert!(near(model.overlap.unwrap(), 100.0 * 0.2 / 1_000.0), "{model:?}");
    assert!(near(model.latency_by_little_ms, 64.0 / 6.08), "{model:?}");
    assert_eq!(row.fsyncs_per_write_of, [(1, Some(500.0 / 64_000.0)), (2, Some(500.0 / 64_000.0))].into());
    assert_eq!(row.records_per_group_of[&1], Some(1.5));
}

#[test]
fn rows_together_say_how_far_syncs_fall_whether_one_connection_is_the_limit_and_what_is_not_valid() {
    let plan = ClientsPlan::new(&cluster(), &ClientsInput::default(), Path::new(".")).unwrap();
    let one = ClientsRow::new(1, 1, vec![LoadResult { fsyncs_per_write: Some(3.0), ..durable(1_000.0) }]);
    let most = ClientsRow::new(256, 4, vec![LoadResult { fsyncs_per_write: Some(0.03), ..durable(100_000.0) }]);
    let mut narrow = durable(50_000.0);
    narrow.invalid_because = vec!["a reason".into()];
    let narrow = ClientsRow::new(256, 1, vec![narrow]);
    let result = gather(vec![one, most, narrow], &plan);
    assert!(near(result.fsyncs_fall.unwrap(), 100.0) && near(result.one_connection_ratio.unwrap(), 0.5), "{result:?}");
    assert_eq!(
        (result.valid, &result.invalid_because[..]),
        (false, &["256 clients over 1 connections: a reason".to_owned()][..])
    );
    let text = render(&result);
    for part in [
        "durable, wal_sync: always; 100 bytes a value, 10000 keys, writes only\n",
        "\n| 256 | 4 | 100000 | 100000-100000 | 10.",
        "| 0.0300 | 1: 0.0078, 2: 0.0078 | 0.100 | 0.200 | 0.100 |\n",
        "syncs a write fall 100.0-fold",
        "256 clients over one connection reach 50 % of what they reach over several: the connection is the limit there",
        "NOT VALID            256 clients over 1 connections: a reason\n",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
