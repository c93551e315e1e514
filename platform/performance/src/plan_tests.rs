use super::*;
use quorate_config::parse_cluster;

fn cluster() -> ClusterConfig {
    let text = r#"{ "client_batch_num": 100, "max_process_txn": 2048, "recovery_enabled": false,
        "cluster_id": "000102030405060708090a0b0c0d0e0f",
        "replicas": [{ "id": 1, "host": "127.0.0.1", "port": 17001, "http_port": 18001, "resp_port": 19001 },
                     { "id": 2, "host": "127.0.0.1", "port": 17002, "http_port": 18002, "resp_port": 19002 }] }"#;
    parse_cluster("cluster.json", text.as_bytes()).unwrap().config
}

fn plan(change: impl FnOnce(&mut LoadInput)) -> Result<LoadPlan, Vec<String>> {
    let mut input = LoadInput::default();
    change(&mut input);
    LoadPlan::new(cluster(), &input, PathBuf::from("."))
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn given(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn without_options_it_is_resilientdbs_experiment_of_the_cluster_file() {
    let plan = plan(|_| {}).unwrap();
    assert_eq!((plan.window, plan.workload.batch, plan.workload.keys), (2048, 100, 100));
    assert_eq!((plan.workload.key_bytes(), plan.workload.value_size_bytes, plan.workload.read_share), (2, 9, 0.0));
    assert_eq!((plan.duration, plan.warm_up), (Duration::from_secs(10), Duration::from_secs(2)));
    assert_eq!((plan.threads, plan.connections, plan.rate_per_s), (1, 1, None));
    assert_eq!(plan.client_options(0).sessions(), 4);
    let settings = plan.client_settings();
    for (key, value) in [("window", 2048), ("sessions", 4), ("key_size_bytes", 2), ("deadline_ms", 10_000)] {
        assert_eq!(settings[key], value, "{key}");
    }
}

#[test]
fn every_bad_option_is_one_line_that_names_it_and_its_value() {
    type Change = fn(&mut LoadInput, String);
    let cases: [(&str, &[&str], Change); 12] = [
        ("--duration", &["0", "-1", "10s", "NaN", "inf", "", "100000"], |input, text| input.duration = Some(text)),
        ("--warm-up", &["-0.5", "2s", "x"], |input, text| input.warm_up = Some(text)),
        ("--window", &["0", "-1", "1.5", "many", "1000001"], |input, text| input.window = Some(text)),
        ("--batch", &["0", "65537", "1e3"], |input, text| input.batch = Some(text)),
        ("--keys", &["0", "-100", "100000001"], |input, text| input.keys = Some(text)),
        ("--value-size", &["-1", "9B", "8388609"], |input, text| input.value_size = Some(text)),
        ("--read-share", &["1.01", "-0.1", "50%", "NaN"], |input, text| input.read_share = Some(text)),
        ("--distribution", &["zipf", ""], |input, text| input.distribution = Some(text)),
        ("--rate", &["0", "-5", "1k"], |input, text| input.rate = Some(text)),
        ("--threads", &["0", "257"], |input, text| input.threads = Some(text)),
        ("--deadline-ms", &["0", "1s"], |input, text| input.deadline_ms = Some(text)),
        ("--expect-down", &["0", "3", "one"], |input, text| input.expect_down = vec![text]),
    ];
    for (option, values, change) in cases {
        for value in values {
            let errors = plan(|input| change(input, (*value).to_owned())).unwrap_err();
            assert_eq!(errors.len(), 1, "{option} {value}: {errors:?}");
            assert!(errors[0].starts_with(&format!("{option} {value}: must be ")), "{}", errors[0]);
            assert!(!errors[0].contains('\n'));
        }
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let errors = plan(|input| (input.window, input.keys) = (given("0"), given("0"))).unwrap_err();
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[test]
fn options_that_do_not_fit_each_other_are_refused() {
    let errors = plan(|input| (input.threads, input.window) = (given("4"), given("3"))).unwrap_err();
    assert_eq!(errors[0], "--window 3: 4 generator threads need at least one batch each");
    let errors = plan(|input| (input.threads, input.connections) = (given("4"), given("2"))).unwrap_err();
    assert_eq!(errors[0], "--connections 2: 4 generator threads need one each");
    let errors = plan(|input| (input.window, input.connections) = (given("2"), given("3"))).unwrap_err();
    assert_eq!(errors[0], "--connections 3: more than the window of 2");
    let errors = plan(|input| (input.value_size, input.batch) = (given("200000"), given("100"))).unwrap_err();
    assert!(errors[0].starts_with("--value-size 200000: a batch of 100 such commands has "), "{errors:?}");
}

#[test]
fn more_connections_than_descriptors_are_refused_before_the_run() {
    let limit = descriptor_limit().expect("this system tells");
    if limit < 60_000 {
        let errors = plan(|input| (input.connections, input.window) = (given("65000"), given("65000"))).unwrap_err();
        assert!(errors[0].contains(&format!("may open {limit} files")), "{errors:?}");
    }
}

#[test]
fn totals_are_split_over_the_threads_without_loss() {
    let plan = plan(|input| (input.threads, input.window) = (given("3"), given("8"))).unwrap();
    let windows: Vec<usize> = (0..3).map(|number| plan.client_options(number).window_frames).collect();
    assert_eq!(windows, [3, 3, 2]);
    assert_eq!(plan.client_options(2).connections, 1);
}

#[test]
fn an_output_in_a_missing_folder_or_over_a_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(check_output("--json", &folder.path().join("result.json")), Ok(()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the check leaves nothing");
    let missing = folder.path().join("missing/result.json");
    let error = check_output("--json", &missing).unwrap_err().to_string();
    assert!(error.starts_with(&format!("--json {}: there is no folder ", missing.display())), "{error}");
    assert!(check_output("--json", folder.path()).unwrap_err().to_string().contains("is a folder"));
    assert_eq!(output_folder(Path::new("result.json")), PathBuf::from("."));
}
