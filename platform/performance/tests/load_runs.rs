//! Whole load runs against a replica on loopback that really executes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use quorate_performance::plan::{LoadInput, LoadPlan};
use quorate_performance::result::LoadResult;
use quorate_performance::run::{LoadError, run};
use quorate_performance::text::to_json;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Behaviour, Replica};

fn plan(replica: &Replica, folder: &Path, change: impl FnOnce(&mut LoadInput)) -> LoadPlan {
    let mut input = LoadInput { duration: given("1"), warm_up: given("0.2"), ..LoadInput::default() };
    change(&mut input);
    LoadPlan::new(replica.cluster(), &input, folder.to_owned()).unwrap()
}

fn given(text: &str) -> Option<String> {
    Some(text.to_owned())
}

struct Ran {
    result: Result<LoadResult, LoadError>,
    lines: Vec<String>,
}

fn ran(behaviour: Behaviour, change: impl FnOnce(&mut LoadInput)) -> Ran {
    let (replica, folder) = (Replica::start(behaviour), tempfile::tempdir().unwrap());
    ran_on(&plan(&replica, folder.path(), change), &Arc::default())
}

fn ran_on(plan: &LoadPlan, stop: &Arc<AtomicBool>) -> Ran {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    let result = run(plan, stop, Box::new(move |line| seen.lock().unwrap().push(line.to_owned())));
    let lines = lines.lock().unwrap().clone();
    Ran { result, lines }
}

#[test]
fn a_run_measures_a_replica_that_executes_and_its_figures_agree_with_each_other() {
    let Ran { result, lines } = ran(Behaviour::default(), |input| input.read_share = given("0.5"));
    let result = result.unwrap();
    assert!(result.valid, "{:?}", result.invalid_because);
    assert!(result.throughput_per_s > 100.0 && (result.duration_s - 1.0).abs() < 1e-3, "{result:?}");
    assert!((result.throughput_per_s / result.batches_per_s - 10.0).abs() < 1e-6);
    let batches: u64 = result.histogram_us.iter().map(|(_, count)| count).sum();
    assert_eq!(batches * 10, result.accepted);
    assert!(result.in_flight_mean > 8.0 && result.in_flight_mean <= 16.0, "{}", result.in_flight_mean);
    assert_eq!((result.durable, result.errors, result.leader_changes, result.clients), (Some(false), 0, 0, 1));
    assert!(result.fsync_ms.is_some_and(|times| times.p50 > 0.0), "a probe stands in for the replicas' syncs");
    assert_eq!(result.leader_batch_mean, Some(2.0));
    assert!(result.cpu_us_per_transaction.is_some_and(|cpu| cpu > 1.0));
    // The replica of this test says one microsecond, one call and a quarter of a park a transaction, and that it has no peers.
    assert_eq!(result.leader_cpu_us_per_transaction, Some(1.0));
    assert_eq!(result.leader_socket_calls_per_1000_transactions, Some(1_000.0));
    assert!(result.parks_per_1000_transactions.is_some_and(|parks| (parks - 250.0).abs() < 1.0), "{result:?}");
    assert_eq!(result.messages_per_batch, Some(0.0));
    // Other tests of this process count too: `costs.rs` has the client's own part.
    let client = result.client_socket_calls_per_1000_transactions.unwrap();
    let all = result.socket_calls_per_1000_transactions.unwrap();
    assert!((all - client - 1_000.0).abs() < 1e-6, "{all}");
    assert_eq!(result.null_because["follower_cpu_us_per_transaction"], "there was no follower");
    let memory = result.replica_figures[0].rss_mib.unwrap();
    assert_eq!((memory.start, memory.end, memory.max), (1.0, 1.0, 1.0));
    assert_eq!((result.replica_figures[0].threads, result.replica_figures[0].thread_names.len()), (Some(2), 2));
    assert!(result.reads.as_ref().is_some_and(|reads| reads.contains("through the log")));
    assert_eq!(result.replica_figures[0].role.as_deref(), Some("leader"));
    assert_eq!(result.settings.client["read_share"], 0.5);
    assert_eq!(result.settings.replicas[0]["settings"]["max_process_txn"], 16);
    assert_eq!(result.commit.as_deref(), Some("abc"));
    assert!(lines.iter().any(|line| line.contains("txn/s") && line.contains("in flight")), "{lines:?}");
    let read: LoadResult = serde_json::from_str(&to_json(&result).unwrap()).unwrap();
    assert!(read.histogram_us == result.histogram_us && read.replica_figures == result.replica_figures);
}

#[test]
fn a_silence_is_reported_as_it_happens_and_as_a_gap_and_the_run_goes_on() {
    let silent = Some((Duration::from_millis(500), Duration::from_millis(1_100)));
    let Ran { result, lines } = ran(Behaviour { silent, ..Behaviour::default() }, |input| input.duration = given("3"));
    let result = result.unwrap();
    assert!(lines.iter().any(|line| line.starts_with("no answer since")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("answers again after a gap of")), "{lines:?}");
    let longest = result.gaps_ms.iter().map(|gap| gap.length_ms).fold(0.0, f64::max);
    assert!(longest > 450.0, "{:?}", result.gaps_ms);
    assert_eq!(result.errors, 0);
    assert!(result.retried > 0 && result.latency_ms.max > 450.0, "{result:?}");
}

#[test]
fn refusals_are_counted_and_hidden_in_no_figure() {
    let behaviour = Behaviour { busy_each: Some(10), ..Behaviour::default() };
    let result = ran(behaviour, |_| {}).result.unwrap();
    assert!(result.valid, "{:?}", result.invalid_because);
    let batches = result.accepted / 10;
    assert!(result.refused * 8 < batches && result.refused * 12 > batches, "{} of {batches}", result.refused);
    assert!(result.retried + 16 >= result.refused && result.errors == 0, "{} {}", result.retried, result.refused);
}

#[test]
fn with_a_rate_the_rate_is_kept_and_a_silence_is_in_every_latency_that_fell_into_it() {
    let silent = Some((Duration::from_millis(600), Duration::from_millis(1_100)));
    let change =
        |input: &mut LoadInput| (input.rate, input.window, input.duration) = (given("2000"), given("8"), given("2.8"));
    let result = ran(Behaviour { silent, ..Behaviour::default() }, change).result.unwrap();
    assert!((result.throughput_per_s - 2_000.0).abs() < 100.0, "{}", result.throughput_per_s);
    // 200 batches a second are due also in the half second of silence, though only eight can be in flight.
    let late: u64 = result.histogram_us.iter().filter(|(value, _)| *value > 100_000).map(|(_, count)| count).sum();
    assert!(late > 60, "{late} batches were late");
    assert!(result.latency_unit.contains("meant to be sent"));
}

#[test]
fn answers_that_nobody_executed_spoil_the_result() {
    let result = ran(Behaviour { lies: true, ..Behaviour::default() }, |_| {}).result.unwrap();
    assert!(!result.valid);
    let reason = &result.invalid_because[0];
    assert!(reason.contains("were answered, but no replica executed more than"), "{:?}", result.invalid_because);
}

#[test]
fn a_run_without_an_answer_is_an_error_and_never_a_zero() {
    let behaviour = Behaviour { silent: Some((Duration::ZERO, Duration::from_secs(3_600))), ..Behaviour::default() };
    let started = Instant::now();
    let Ran { result, lines } = ran(behaviour, |input| input.deadline_ms = given("500"));
    let error = result.unwrap_err();
    assert!(matches!(error, LoadError::NoSamples { errors: 16.., .. }), "{error}");
    assert!(error.to_string().contains("outcome unknown at the deadline"), "{error}");
    assert!(lines.iter().any(|line| line.starts_with("no answer since 0.0 s, with 16 batches in flight")), "{lines:?}");
    assert!(started.elapsed() < Duration::from_secs(10), "nothing hangs");
}

#[test]
fn a_cluster_that_is_not_there_is_an_error_that_names_the_replicas() {
    let folder = tempfile::tempdir().unwrap();
    let listeners = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [free, http_port] = listeners.map(|listener| listener.local_addr().unwrap().port());
    let replica = Replica { port: free, http_port };
    let Ran { result, lines } = ran_on(&plan(&replica, folder.path(), |_| {}), &Arc::default());
    let text = result.unwrap_err().to_string();
    assert!(text.contains(&format!("replica 1 at 127.0.0.1:{free}: ")), "{text}");
    assert!(lines[0].starts_with("replica 1: no status at"), "{lines:?}");
    assert_eq!(lines[1], "no leader has taken the load client yet; still looking");
}

#[test]
fn a_run_ended_early_has_a_result_that_says_so() {
    let (replica, folder) = (Replica::start(Behaviour::default()), tempfile::tempdir().unwrap());
    let plan = plan(&replica, folder.path(), |input| input.duration = given("60"));
    let stop = Arc::<AtomicBool>::default();
    let stopping = Arc::clone(&stop);
    // A line of progress shows that the measurement runs.
    let progress = move |line: &str| stopping.store(line.contains(" run "), Ordering::SeqCst);
    let result = run(&plan, &stop, Box::new(progress)).unwrap();
    assert!(result.interrupted && !result.valid && result.duration_s < 30.0, "{result:?}");
    assert!(result.invalid_because[0].starts_with("ended early by its user after"), "{:?}", result.invalid_because);
    assert!(result.accepted > 0);
}

#[test]
fn single_operations_over_several_connections_and_threads_are_measured_too() {
    let change = |input: &mut LoadInput| {
        (input.batch, input.window) = (given("1"), given("32"));
        (input.connections, input.threads) = (given("4"), given("2"));
    };
    let result = ran(Behaviour::default(), change).result.unwrap();
    assert!(result.valid, "{:?}", result.invalid_because);
    assert_eq!(result.settings.client["sessions"], 4);
    assert!((result.throughput_per_s - result.batches_per_s).abs() < 1e-6);
}
