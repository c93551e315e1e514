use super::*;
use std::fs;

fn plan(folder: &Path) -> StorePlan {
    StorePlan {
        stores: StoreName::ALL.to_vec(),
        keys: 2_500,
        value_size_bytes: 100,
        batch: 100,
        duration: Duration::from_millis(20),
        repeat: 2,
        folder: folder.to_owned(),
    }
}

#[test]
fn both_stores_are_really_filled_read_and_written_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let result = run(&plan(folder.path()), &AtomicBool::new(false), Box::new(|_| {})).unwrap();
    assert_eq!(result.rows.iter().map(|row| row.store).collect::<Vec<_>>(), StoreName::ALL);
    for row in &result.rows {
        for figure in [row.puts_per_s, row.batch_p50_us, row.hits_per_s, row.misses_per_s, row.fill_s] {
            assert!(figure.min > 0.0 && figure.min <= figure.median && figure.median <= figure.max, "{row:?}");
        }
        assert!(row.batch_p50_us.median <= row.batch_p99_us.max && row.batch_p99_us.median <= row.batch_max_us.max);
        assert!(row.stall_ms.median >= row.stalls.median * 10.0, "a stall is longer than 10 ms: {row:?}");
    }
    assert_eq!(result.rows[0].disk_mib.max, 0.0);
    // 2,500 keys of 24 bytes with 100 bytes each.
    assert!(result.rows[1].disk_mib.min > 0.29, "{:?}", result.rows[1]);
    assert!(result.rows[0].memory_mib.min > 0.29, "{:?}", result.rows[0]);
    let text = render(&result);
    assert!(text.contains("\n| memory | ") && text.contains("\n| lsm | ") && text.contains("2500 keys of 24 bytes"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn options_that_cannot_be_used_are_named_all_at_once() {
    let given = |text: &str| Some(text.to_owned());
    let input = StoreInput {
        stores: vec!["memory".into(), "disk".into(), "memory".into()],
        keys: given("0"),
        batch: given("ten"),
        duration: given("-1"),
        ..StoreInput::default()
    };
    let errors = StorePlan::new(&input, PathBuf::from("no such folder")).unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "--store disk: must be memory or lsm",
            "--store memory: is given twice",
            "--keys 0: must be a whole number from 1 to 100000000, without a unit",
            "--batch ten: must be a whole number from 1 to 100000, without a unit",
            "--duration -1: must be a number of seconds from 0.01 to 86400, without a unit",
            "--dir no such folder: there is no such folder; make it first",
        ]
    );
    let plan = StorePlan::new(&StoreInput::default(), PathBuf::from(".")).unwrap();
    assert_eq!((plan.keys, plan.batch, plan.value_size_bytes, plan.repeat), (10_000, 100, 100, 3));
}

#[test]
fn a_stop_ends_it_without_a_result_and_without_a_rest() {
    let folder = tempfile::tempdir().unwrap();
    let error = run(&plan(folder.path()), &AtomicBool::new(true), Box::new(|_| {})).unwrap_err();
    assert!(matches!(error, StoreRunError::Stopped), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
