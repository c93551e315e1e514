//! The shell with a storage: what leaves when, and what a failure, a full disk, a hung executor and a stop do.

use super::doubles::{Delay, TestMachine, TestStorage};
use super::*;
use crate::driver::scripted::{After, ScriptedPromise};

/// A durable replica of a cluster of two that is formed and linked, and what it has done so far is forgotten.
struct Durable {
    running: Running,
    storage: TestStorage,
}

impl Durable {
    async fn start(core: Scripted, executor: impl FnOnce(&Calls) -> Option<MockTransactionExecutor>) -> Durable {
        Durable::start_with(core, executor, None).await
    }

    async fn start_with(
        core: Scripted,
        executor: impl FnOnce(&Calls) -> Option<MockTransactionExecutor>,
        checkpoints: Option<CheckpointSettings>,
    ) -> Durable {
        let forming = Forming::new(SELF, claim(1), [SELF, PEER].into(), None);
        let settings = DriverSettings { snapshots: true, ..DriverSettings::new(Durability::External) };
        let driver = Driver::new(core, settings, forming, Box::new(|| 7));
        let calls = Calls::default();
        let (executor, storage) = (TestMachine(executor(&calls), Delay::None), TestStorage::new(&calls));
        let running = Running::start_parts(driver, executor, Box::new(storage.clone()), &calls, checkpoints);
        let durable = Durable { running, storage };
        durable.running.connections.arrive(vec![connected(1)]);
        assert_eq!(durable.running.calls(1).await, ["submit members true"]);
        assert_eq!(durable.running.connections.door.lock().claims.len(), 0, "it is not formed before that is durable");
        durable.sync();
        durable.until(|durable| !durable.running.connections.door.lock().claims.is_empty()).await;
        durable.running.calls.lock().clear();
        durable
    }

    fn wake(&self) {
        self.running.connections.wake.notify_one();
    }

    fn sync(&self) {
        self.storage.sync();
        self.wake();
    }

    async fn until(&self, condition: impl Fn(&Durable) -> bool) {
        let waiting = async {
            while !condition(self) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(
            tokio::time::timeout(Duration::from_secs(60), waiting).await.is_ok(),
            "{:?}",
            self.running.calls.lock()
        );
    }

    /// What was called within this time.
    async fn calls_within(&self, millis: u64) -> Vec<String> {
        sleep(Duration::from_millis(millis)).await;
        self.running.calls.lock().clone()
    }
}

fn working(calls: &Calls) -> Option<MockTransactionExecutor> {
    Some(executor(calls))
}

fn all() -> Destination {
    Destination::All
}

/// Accepts a request, tells the peers, persists it, promises it and executes it.
fn persisting() -> Scripted {
    let promise = Step::Promise(all(), After::Last, ScriptedPromise(5));
    let steps = [
        Step::AcceptAll { first: Position(1), variant: 0 },
        Step::Persist(70),
        Step::Send(all(), ScriptedMessage::new(Lane::Replication, 1)),
        promise,
        Step::Execute { first: Position(1), blocks: vec![block(1, 0)] },
    ];
    Scripted::new().once(EventKind::Propose, steps)
}

#[tokio::test(start_paused = true)]
async fn appends_leave_before_their_records_are_submitted_and_promises_once_they_are_durable() {
    let durable = Durable::start(persisting(), working).await;
    durable.running.connections.arrive(vec![request(1)]);
    let calls = durable.calls_within(50).await;
    assert_eq!(calls, ["send [Replication]", "submit record 70", "execute 1 up to 1", "reply 1:Ok"]);
    durable.wake();
    assert_eq!(durable.calls_within(50).await.len(), 4, "the promise waits for the disk");
    durable.sync();
    assert_eq!(durable.calls_within(50).await[4..], ["send [Acknowledgement]"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_submitted_is_told_as_durable_once_and_wakes_nobody_again() {
    let durable = Durable::start(persisting(), working).await;
    durable.running.connections.arrive(vec![request(1)]);
    durable.calls_within(10).await;
    durable.sync();
    durable.calls_within(10).await;
    let counters = durable.running.board.ask(Duration::from_secs(1)).await.unwrap().driver.counters;
    (0..5).for_each(|_| durable.wake());
    durable.calls_within(10).await;
    let later = durable.running.board.ask(Duration::from_secs(1)).await.unwrap().driver.counters;
    assert_eq!(later.events, counters.events, "the protocol hears of a ticket once");
}

#[tokio::test(start_paused = true)]
async fn a_failed_storage_is_final_who_waits_is_told_unknown_and_nothing_is_promised_any_more() {
    let steps = [
        Step::AcceptAll { first: Position(1), variant: 0 },
        Step::Persist(70),
        Step::Promise(all(), After::Last, ScriptedPromise(5)),
    ];
    let durable = Durable::start(Scripted::new().once(EventKind::Propose, steps), working).await;
    durable.running.connections.arrive(vec![request(1)]);
    assert_eq!(durable.calls_within(10).await, ["submit record 70"]);
    durable.storage.disk.lock().failure = Some("segment: syncing failed; free space".to_owned());
    durable.sync();
    let calls = durable.running.calls(2).await;
    assert_eq!(calls[1], "reply 1:Unknown", "a late success says nothing after a failure");
    durable.running.connections.arrive(vec![request(2)]);
    assert_eq!(durable.running.calls(3).await[2], "reply 2:Stopped");
    let ending = durable.running.task.await.unwrap();
    assert_eq!(ending, Ending::Halted(HaltReason::Storage("segment: syncing failed; free space".to_owned())));
    assert!(!durable.running.calls.lock().iter().any(|call| call.starts_with("send") || call.starts_with("stop")));
}

#[tokio::test(start_paused = true)]
async fn requests_are_refused_as_busy_while_too_much_waits_for_the_disk() {
    let durable = Durable::start(persisting(), working).await;
    durable.storage.disk.lock().pending_bytes = (1 << 20) + 1;
    durable.running.connections.arrive(vec![request(1)]);
    assert_eq!(durable.running.calls(1).await, ["reply 1:Busy"]);
    durable.storage.disk.lock().pending_bytes = 1 << 20;
    durable.running.connections.arrive(vec![request(2)]);
    let calls = durable.running.calls(5).await;
    assert_eq!(calls[1..], ["send [Replication]", "submit record 70", "execute 1 up to 1", "reply 2:Ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_until_the_storage_has_noted_it_and_a_failure_then_is_one() {
    for failure in [None, Some("no space".to_owned())] {
        let durable = Durable::start(persisting(), working).await;
        durable.running.connections.arrive(vec![request(1)]);
        durable.calls_within(10).await;
        durable.running.switch_off();
        let calls = durable.calls_within(3_000).await;
        assert_eq!(calls.last().unwrap(), "stop the storage", "after what was submitted");
        assert!(!durable.running.task.is_finished(), "the log is not noted as clean yet");
        let expected = match &failure {
            None => Ending::Stopped,
            Some(text) => Ending::Halted(HaltReason::Storage(text.clone())),
        };
        {
            let mut disk = durable.storage.disk.lock();
            disk.failure = failure;
            disk.stopped = true;
        }
        durable.wake();
        assert_eq!(durable.running.task.await.unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_at_the_stop_does_not_keep_the_process_for_ever() {
    let durable = Durable::start(persisting(), working).await;
    let stopped = Instant::now();
    durable.running.switch_off();
    let ending = durable.running.task.await.unwrap();
    assert!(matches!(ending, Ending::Halted(HaltReason::Storage(_))), "{ending:?}");
    assert!(stopped.elapsed() < STORAGE_FAREWELL + Duration::from_secs(1), "{:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_hangs_stops_execution_and_nothing_else() {
    let core = persisting().always(EventKind::PeerAlive, [Step::Send(all(), ScriptedMessage::new(Lane::Control, 1))]);
    let durable = Durable::start(core, |_| None).await;
    durable.running.connections.arrive(vec![request(1)]);
    assert_eq!(durable.calls_within(10).await, ["send [Replication]", "submit record 70"]);
    durable.running.connections.arrive(vec![Inbound::PeerAlive { peer: PEER, link: LinkId(1) }]);
    assert_eq!(durable.calls_within(10).await[2..], ["send [Control]"]);
    durable.running.switch_off();
    durable.storage.disk.lock().stopped = true;
    assert_eq!(durable.running.task.await.unwrap(), Ending::Stopped);
    assert!(durable.running.calls.lock().contains(&"reply 1:Unknown".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_is_done_is_heard_even_if_something_else_always_comes_in() {
    let told = Arc::new(tokio::sync::Notify::new());
    let forming = Forming::new(SELF, claim(1), [SELF, PEER].into(), None);
    let driver = Driver::new(leader(), DriverSettings::new(Durability::InMemory), forming, Box::new(|| 7));
    let calls = Calls::default();
    let slow = TestMachine(working(&calls), Delay::Until(Arc::clone(&told)));
    let running = Running::start_parts(driver, slow, Box::new(NoStorage), &calls, None);
    running.connections.arrive(vec![connected(1)]);
    running.connections.arrive(vec![request(1), request(2)]);
    assert_eq!(running.calls(1).await, ["send [Replication]"]);
    running.connections.door.lock().endless = true;
    running.connections.wake.notify_one();
    told.notify_one();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(running.calls.lock()[1..], ["execute 2 up to 2", "reply 1:Ok 2:Ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_is_told_once_the_metadata_name_it_durably() {
    let settings = CheckpointSettings { interval: Duration::from_secs(3_600), transactions: 1, log_bytes: u64::MAX };
    let core = persisting()
        .once(EventKind::SnapshotDue, [Step::TakeSnapshot(Position(1))])
        .once(EventKind::SnapshotTaken, [Step::Send(all(), ScriptedMessage::new(Lane::Control, 1))]);
    let durable = Durable::start_with(core, working, Some(settings)).await;
    durable.running.connections.arrive(vec![request(1)]);
    // The file is written by a thread, which does not know of paused time.
    let named = |durable: &Durable| durable.running.calls.lock().contains(&"submit snapshot 1".to_owned());
    while !named(&durable) {
        std::thread::yield_now();
        sleep(Duration::from_millis(1)).await;
    }
    let before = durable.calls_within(50).await;
    assert_eq!(before.last().unwrap(), "submit snapshot 1", "the protocol does not know of it yet");
    durable.sync();
    let calls = durable.calls_within(50).await;
    assert_eq!(calls[before.len()..], ["send [Acknowledgement, Control]"]);
    let figures = durable.running.board.ask(Duration::from_secs(1)).await.unwrap().snapshots;
    assert_eq!((figures.position, figures.bytes, figures.taken, figures.failed), (1, 5, 1, 0));
}
