use super::*;

fn plan(folder: &Path) -> WalPlan {
    WalPlan {
        operations: 300,
        size_bytes: 256,
        repeat: 2,
        batches: vec![64, 256],
        waits: vec![Duration::from_millis(1)],
        single_operations: 20,
        folder: folder.to_owned(),
    }
}

fn quiet() -> Progress {
    Box::new(|_| {})
}

#[test]
fn every_operation_of_every_case_is_durable_once_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let result = run(&plan(folder.path()), &AtomicBool::new(false), quiet()).unwrap();
    let names: Vec<&str> = result.cases.iter().map(|case| case.case.as_str()).collect();
    let expected = ["no_wait_batch_64", "no_wait_batch_256", "wait_1000us_batch_64", "wait_1000us_batch_256"];
    assert_eq!(names, expected);
    for case in result.cases.iter().chain(&result.raw).chain(&result.fair_raw) {
        assert_eq!(case.operations, 300, "{case:?}");
        assert_eq!(case.histogram.iter().map(|(_, count)| count).sum::<u64>(), 300, "{case:?}");
        assert!(case.max_batch <= case.batch as u64, "{case:?}");
        assert_eq!(case.batches, case.sync_batches, "no group without a sync, no sync without a group: {case:?}");
        assert!(((case.writes_per_batch * case.batches as f64) - 300.0).abs() < 1e-6, "{case:?}");
        assert!(case.write_bytes >= 300 * 256 && case.write_bytes.is_multiple_of(4_096), "{case:?}");
        assert!(case.latency_us.p50 > 0.0 && case.latency_us.p50 <= case.latency_us.max, "{case:?}");
        assert!(case.latency_us.max <= case.elapsed_ms * 1_000.0, "{case:?}");
        assert!(case.sync_us.mean > 0.0 && case.batch_us_max >= case.write_us_max, "{case:?}");
        assert!(case.qps.min <= case.qps.median && case.qps.median <= case.qps.max, "{case:?}");
    }
    let groups: Vec<u64> = result.raw.iter().map(|case| case.batches).collect();
    assert_eq!(groups, [5, 2], "the device has full groups");
    // The same operations are the same bytes for the device and for the log, but for where groups end.
    assert_eq!(result.raw[1].write_bytes, 98_304);
    assert_eq!(result.share_of_raw.len(), 2);
    assert!(result.single.log_us.p50 > 0.0 && result.single.device_us.p50 > 0.0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_wait_gathers_all_that_comes_within_it_into_one_group() {
    let folder = tempfile::tempdir().unwrap();
    let payload = Bytes::from(vec![1; 16]);
    let grouping = Grouping { wait: Some(Duration::from_secs(30)), batch: 50 };
    // The thirtieth second never comes: the wait ends with the fiftieth operation.
    let measured = log_case::all_at_once(folder.path(), grouping, 50, &payload).unwrap();
    assert_eq!(measured.groups.iter().map(|group| group.operations).collect::<Vec<_>>(), [50]);
    assert!(measured.elapsed < Duration::from_secs(30));
}

#[test]
fn a_stop_ends_it_without_a_result_and_without_a_rest() {
    let folder = tempfile::tempdir().unwrap();
    let error = run(&plan(folder.path()), &AtomicBool::new(true), quiet()).unwrap_err();
    assert!(matches!(error, WalError::Stopped), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_grid_is_that_of_the_published_report_with_a_first_row_without_a_wait() {
    let folder = tempfile::tempdir().unwrap();
    let plan = WalPlan::new(&WalInput::default(), folder.path().to_owned()).unwrap();
    assert_eq!((plan.operations, plan.size_bytes, plan.repeat), (10_240, 256, 3));
    assert_eq!(plan.batches, [256, 512, 1_024, 2_048, 4_096]);
    assert_eq!(plan.waits, [1, 2, 5].map(Duration::from_millis));
    let quick = WalPlan::new(&WalInput { quick: true, ..WalInput::default() }, folder.path().to_owned()).unwrap();
    assert!(quick.operations < plan.operations && quick.repeat == 1);
}

#[test]
fn options_that_cannot_be_used_are_named_all_at_once() {
    let given = |text: &str| Some(text.to_owned());
    let input = WalInput { operations: given("0"), size: given("2MB"), repeat: given("-1"), quick: false };
    let errors = WalPlan::new(&input, PathBuf::from("no such folder")).unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "--operations 0: must be a whole number from 1 to 1000000, without a unit",
            "--size 2MB: must be a whole number from 0 to 1048576, without a unit",
            "--repeat -1: must be a whole number from 1 to 100, without a unit",
            "--dir no such folder: there is no such folder; make it first",
        ]
    );
    let input = WalInput { operations: given("1000000"), size: given("4096"), ..WalInput::default() };
    let errors = WalPlan::new(&input, PathBuf::from(".")).unwrap_err();
    assert!(errors[0].problem.contains("wait in memory together"), "{errors:?}");
}

#[test]
fn the_report_has_the_columns_and_the_histograms_of_the_published_one() {
    let folder = tempfile::tempdir().unwrap();
    let small = WalPlan { batches: vec![64], repeat: 1, ..plan(folder.path()) };
    let result = run(&small, &AtomicBool::new(false), quiet()).unwrap();
    let report = render_report(&result);
    for part in [
        "| case | wait | configured batch | elapsed ms | qps |",
        "| writes/batch | max batch | sync avg us | sync max us | group avg us | group max us |",
        "\n| no_wait_batch_64 | none | 64 | ",
        "\n| wait_1000us_batch_64 | 1ms | 64 | ",
        "\n| raw_batch_64 | none | 64 | ",
        "\n## wait_1000us_batch_64\n\n- wait: 1ms\n- configured batch: 64\n- operations: 300\n- payload bytes: 256\n- elapsed: ",
        "### Callback Latency Histogram\n\n| bucket | count | percent |\n|---:|---:|---:|\n| 0..100 us | ",
        "\n| 101..250 us | ",
        "\n| >1000000 us | 0 | 0.00% |",
        "\n| log, no wait | ",
    ] {
        assert!(report.contains(part), "{part} in\n{report}");
    }
    assert_eq!(report.matches("### Callback Latency Histogram").count(), 4);
    assert!(!render_tables(&result).contains("Histogram"));
}
