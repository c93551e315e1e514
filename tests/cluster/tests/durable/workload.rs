//! Appends and increments whose outcomes are remembered: what was acknowledged must be there, once, and nothing that nobody asked for.

use quorate_client::{Client, ClientOptions, Outcome};
use quorate_cluster_tests::{Cluster, PATIENCE};
use quorate_executor::Command;
use quorate_executor::result::ResultValue;
use quorate_framework::Status;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::RwLock;

/// Numbers in one list: a value stays small.
const LIST: u64 = 500;

/// What a writer remembers of its requests, by their numbers.
#[derive(Debug, Default)]
struct Remembered {
    done: BTreeSet<u64>,
    unknown: BTreeSet<u64>,
    last: u64,
}

/// Writers that go on until they are ended.
pub(crate) struct Workload {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    /// Each request is made while this is held for reading.
    busy: Arc<RwLock<()>>,
    thread: JoinHandle<Vec<Remembered>>,
    file: String,
}

fn options(file: &str) -> ClientOptions {
    let cluster = quorate_config::load_cluster(file.as_ref()).unwrap().config;
    ClientOptions {
        attempt_timeout: Duration::from_millis(500),
        request_deadline: Duration::from_secs(5),
        ..ClientOptions::of_cluster(&cluster)
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn list_key(writer: usize, number: u64) -> String {
    format!("list {writer} {}", number / LIST)
}

fn sum_key(writer: usize) -> String {
    format!("sum {writer}")
}

impl Workload {
    /// Starts so many writers, each with one request in flight and `padding` more bytes to write in each.
    pub(crate) fn start(cluster: &Cluster, writers: usize, padding: usize) -> Workload {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted, file) = (Arc::clone(&stop), Arc::clone(&done), cluster.file());
        let busy = Arc::new(RwLock::new(()));
        let (options, asking) = (options(&file), Arc::clone(&busy));
        let thread = std::thread::spawn(move || {
            runtime().block_on(async {
                let client = Client::connect(options, PATIENCE).await.unwrap();
                let tasks: Vec<_> = (0..writers)
                    .map(|writer| {
                        let (client, stop, done) = (client.clone(), Arc::clone(&stopped), Arc::clone(&counted));
                        let busy = Arc::clone(&asking);
                        tokio::spawn(async move { write(&client, writer, padding, &stop, &done, &busy).await })
                    })
                    .collect();
                let mut remembered = Vec::new();
                for task in tasks {
                    remembered.push(task.await.unwrap());
                }
                remembered
            })
        });
        Workload { stop, done, busy, thread, file }
    }

    /// Does something while no request is on its way, and lets the writers go on afterwards.
    pub(crate) fn at_rest(&self, act: impl FnOnce()) {
        let _no_request = self.busy.blocking_write();
        act();
    }

    /// From now on no request is begun.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Requests that were acknowledged so far.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Waits until so many more requests are acknowledged.
    pub(crate) fn wait_for(&self, more: u64, cluster: &Cluster) {
        let before = self.done();
        cluster.wait_until("the workload goes on", |_| self.done() >= before + more);
    }

    /// Ends the writers and compares the state with what they remember. Gives how many requests were acknowledged, and of how many
    /// nobody knows.
    pub(crate) fn end_and_check(self) -> (u64, u64) {
        self.stop();
        let remembered = self.thread.join().unwrap();
        let options = options(&self.file);
        runtime().block_on(async {
            let client = Client::connect(options, PATIENCE).await.unwrap();
            for (writer, remembered) in remembered.iter().enumerate() {
                check(&client, writer, remembered).await;
            }
        });
        let count = |numbers: fn(&Remembered) -> usize| remembered.iter().map(numbers).sum::<usize>() as u64;
        (count(|remembered| remembered.done.len()), count(|remembered| remembered.unknown.len()))
    }
}

async fn write(
    client: &Client,
    writer: usize,
    padding: usize,
    stop: &AtomicBool,
    done: &AtomicU64,
    busy: &RwLock<()>,
) -> Remembered {
    let mut remembered = Remembered::default();
    let filler = vec![b'.'; padding];
    loop {
        let _busy = busy.read().await;
        if stop.load(Ordering::Acquire) {
            return remembered;
        }
        let number = remembered.last + 1;
        remembered.last = number;
        let (list, sum, token) = (list_key(writer, number), sum_key(writer), format!("{number},"));
        let pad = format!("padding {writer} {}", number % 64);
        let mut commands = vec![
            Command::Append { key: list.as_bytes(), value: token.as_bytes() },
            Command::Increment { key: sum.as_bytes(), by: 1 },
        ];
        if padding > 0 {
            commands.push(Command::Put { key: pad.as_bytes(), value: &filler });
        }
        match client.execute(&commands).await {
            Outcome::Done(answer) => {
                assert_eq!(answer.status, Status::Ok);
                remembered.done.insert(number);
                done.fetch_add(1, Ordering::AcqRel);
            }
            Outcome::NotDone(_) => {}
            Outcome::Unknown | Outcome::Expired => {
                remembered.unknown.insert(number);
            }
        }
    }
}

/// The value of a key, read through the log; asked again while the cluster cannot answer.
async fn read(client: &Client, key: &str) -> Option<Vec<u8>> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Outcome::Done(done) = client.execute(&[Command::Get { key: key.as_bytes() }]).await {
            let result = done.results().next().unwrap().unwrap();
            return match (result.status, result.value) {
                (Status::Ok, ResultValue::Bytes(value)) => Some(value.to_vec()),
                (Status::NotFound, _) => None,
                other => panic!("{key}: {other:?}"),
            };
        }
        assert!(Instant::now() < end, "{key} cannot be read");
    }
}

async fn check(client: &Client, writer: usize, remembered: &Remembered) {
    let mut found = Vec::new();
    for list in 0..=remembered.last / LIST {
        let text = read(client, &format!("list {writer} {list}")).await.unwrap_or_default();
        let text = String::from_utf8(text).unwrap();
        found.extend(text.split_terminator(',').map(|number| number.parse::<u64>().unwrap()));
    }
    let distinct: BTreeSet<u64> = found.iter().copied().collect();
    assert_eq!(found.len(), distinct.len(), "writer {writer}: something was applied twice: {found:?}");
    let lost: Vec<&u64> = remembered.done.difference(&distinct).collect();
    assert!(lost.is_empty(), "writer {writer}: acknowledged and lost: {lost:?}");
    let known: BTreeSet<u64> = remembered.done.union(&remembered.unknown).copied().collect();
    let invented: Vec<&u64> = distinct.difference(&known).collect();
    assert!(invented.is_empty(), "writer {writer}: said not to be done, and done: {invented:?}");
    let sum =
        read(client, &sum_key(writer)).await.map_or(0, |sum| String::from_utf8(sum).unwrap().parse::<u64>().unwrap());
    assert_eq!(sum, distinct.len() as u64, "writer {writer}: list and sum were written together");
}
