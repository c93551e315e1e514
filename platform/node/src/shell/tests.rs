//! The shell with mocks of the async traits and a scripted protocol: what is called, in which order, how often.

mod checkpoints;
mod doubles;
mod durable;

use super::storage::NoStorage;
use super::*;
use crate::driver::scripted::{EventKind, Scripted, ScriptedMessage, Step, block};
use crate::driver::{DriverSettings, Durability, Inbound, ReceivedFrame};
use bytes::Bytes;
use doubles::TestMachine;
use parking_lot::Mutex;
use quorate_framework::communication::MockReplicaCommunicator;
use quorate_framework::execution::MockTransactionExecutor;
use quorate_framework::{
    Answer, BlockId, ClientFrame, ConnectionId, Destination, ExecutorError, Forming, FrameClass, Incarnation, Lane,
    LinkId, MemberClaim, Observation, Outcome, ReplicaId, ReplyKind, RequestHeader, Sequence, SessionId, Status,
};
use std::collections::VecDeque;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const SELF: ReplicaId = ReplicaId(1);
const PEER: ReplicaId = ReplicaId(2);
const CLIENT: ConnectionId = ConnectionId(40);

/// What was called, in order.
type Calls = Arc<Mutex<Vec<String>>>;

#[derive(Default)]
struct Door {
    /// What each turn is to find, in order.
    groups: VecDeque<Vec<Inbound>>,
    claims: Vec<MemberClaim>,
    shut: bool,
    /// Something waits to be written.
    unwritten: bool,
    endless: bool,
    takes: u64,
}

/// Connections without a network.
#[derive(Clone, Default)]
struct TestConnections {
    door: Arc<Mutex<Door>>,
    wake: Arc<Notify>,
}

impl TestConnections {
    /// Lets one turn find all of this.
    fn arrive(&self, group: Vec<Inbound>) {
        self.door.lock().groups.push_back(group);
        self.wake.notify_one();
    }
}

impl Connections for TestConnections {
    fn take(&mut self, input: &mut TurnInput) -> bool {
        let mut door = self.door.lock();
        door.takes += 1;
        assert!(door.takes < 100_000, "the shell spins");
        for inbound in door.groups.pop_front().unwrap_or_default() {
            input.push(inbound);
        }
        door.endless || !door.groups.is_empty()
    }

    async fn wait(&self) {
        self.wake.notified().await;
    }

    fn announce(&self, claim: MemberClaim) {
        self.door.lock().claims.push(claim);
    }

    fn close_doors(&mut self) {
        self.door.lock().shut = true;
    }

    fn is_flushed(&self) -> bool {
        !self.door.lock().unwritten
    }

    fn figures(&self) -> ConnectionFigures {
        ConnectionFigures { clients: 3, ..ConnectionFigures::default() }
    }
}

fn claim(incarnation: u64) -> MemberClaim {
    MemberClaim { incarnation: Incarnation(incarnation), formed_on: None, start_counter: 1, start_nonce: incarnation }
}

fn connected(link: u64) -> Inbound {
    Inbound::PeerConnected { peer: PEER, link: LinkId(link), claim: claim(2) }
}

fn request(sequence: u64) -> Inbound {
    let session = SessionId { position: Position(1), offset: 0 };
    let frame = ClientFrame::new(&RequestHeader::in_session(session, Sequence(sequence)), &[]).unwrap();
    Inbound::ClientRequest { connection: CLIENT, frame }
}

/// Answers every batch of a group with `Ok`, as the executor would.
fn outcome(group: &[ExecutorCommand]) -> Outcome {
    let mut outcome = Outcome::default();
    for command in group {
        let ExecutorCommand::Execute { range, .. } = command else { panic!("only commits are ordered here") };
        for (offset, batch) in range.batches.iter().enumerate() {
            let position = Position(range.first.0 + offset as u64);
            let header = ClientFrame::parse(batch.payload.clone()).unwrap().header;
            outcome.executed = position;
            outcome.transactions += 1;
            outcome.answers.push(Answer {
                position,
                block: batch.block,
                kind: ReplyKind::Committed,
                session: header.session,
                sequence: header.sequence,
                status: Status::Ok,
                body: Bytes::new(),
            });
        }
    }
    outcome
}

fn communicator(calls: &Calls) -> MockReplicaCommunicator {
    let mut communicator = MockReplicaCommunicator::new();
    let log = Arc::clone(calls);
    communicator.expect_send().returning(move |frames| {
        // Forming has traffic of its own, which is not what these tests are about.
        let lanes: Vec<Lane> =
            frames.drain(..).filter(|frame| frame.class != FrameClass::Forming).map(|frame| frame.lane).collect();
        if !lanes.is_empty() {
            log.lock().push(format!("send {lanes:?}"));
        }
    });
    let log = Arc::clone(calls);
    communicator.expect_reply().returning(move |replies| {
        let what = replies.drain(..).map(|reply| format!("{}:{:?}", reply.header.sequence, reply.header.status));
        log.lock().push(format!("reply {}", what.collect::<Vec<_>>().join(" ")));
    });
    let log = Arc::clone(calls);
    communicator
        .expect_disconnect()
        .returning(move |peer, link| log.lock().push(format!("disconnect {peer}, link {link}")));
    communicator
}

fn executor(calls: &Calls) -> MockTransactionExecutor {
    let mut executor = MockTransactionExecutor::new();
    let log = Arc::clone(calls);
    executor.expect_execute().returning(move |group| {
        let outcome = outcome(group);
        group.clear();
        log.lock().push(format!("execute {} up to {}", outcome.answers.len(), outcome.executed));
        Ok(outcome)
    });
    executor
}

/// A shell that runs as a task, and what a test needs of it.
struct Running {
    connections: TestConnections,
    calls: Calls,
    board: Arc<StatusBoard>,
    stop: StopSwitch,
    task: JoinHandle<Ending>,
}

impl Running {
    /// A replica of a cluster of two, whose peer is not linked yet.
    fn start(core: Scripted, executor: impl FnOnce(&Calls) -> MockTransactionExecutor) -> Running {
        let forming = Forming::new(SELF, claim(1), [SELF, PEER].into(), None);
        let driver = Driver::new(core, DriverSettings::new(Durability::InMemory), forming, Box::new(|| 7));
        let calls = Calls::default();
        let executor = TestMachine(Some(executor(&calls)), doubles::Delay::None);
        Running::start_parts(driver, executor, Box::new(NoStorage), &calls, None)
    }

    /// The same of these parts.
    fn start_parts(
        driver: Driver<Scripted>,
        executor: TestMachine,
        storage: Box<dyn Storage<Scripted>>,
        calls: &Calls,
        checkpoints: Option<CheckpointSettings>,
    ) -> Running {
        let (connections, calls) = (TestConnections::default(), Arc::clone(calls));
        let durable = checkpoints.is_some();
        let wake = Arc::clone(&connections.wake);
        let board = Arc::new(StatusBoard::new(Box::new(move || wake.notify_one())));
        let stop = StopSwitch::default();
        let shell = Shell::new(Parts {
            driver,
            connections: connections.clone(),
            communicator: communicator(&calls),
            executor,
            executed: Position::ZERO,
            storage,
            pending_bytes_limit: 1 << 20,
            snapshots: doubles::snapshots(Arc::clone(&connections.wake), durable),
            checkpoints,
            clock: Clock::start(),
            board: Arc::clone(&board),
            stop: stop.clone(),
        });
        Running { connections, calls, board, stop, task: tokio::spawn(shell.run()) }
    }

    /// Waits until `calls` calls were made, and gives them.
    async fn calls(&self, count: usize) -> Vec<String> {
        let made = async {
            while self.calls.lock().len() < count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(60), made).await;
        assert!(in_time.is_ok(), "only {:?}", self.calls.lock());
        self.calls.lock().clone()
    }

    fn switch_off(&self) {
        self.stop.switch_on();
        self.connections.wake.notify_one();
    }
}

/// Accepts every request, tells the peers, and executes it in the same turn.
fn leader() -> Scripted {
    let message = ScriptedMessage::new(Lane::Replication, 1);
    let turn = |first: u64, count: u64| {
        vec![
            Step::AcceptAll { first: Position(first), variant: 0 },
            Step::Send(Destination::All, message.clone()),
            Step::Execute {
                first: Position(first),
                blocks: (first..first + count).map(|position| block(position, 0)).collect::<Vec<BlockId>>(),
            },
        ]
    };
    Scripted::new().once(EventKind::Propose, turn(1, 2)).once(EventKind::Propose, turn(3, 1))
}

#[tokio::test(start_paused = true)]
async fn appends_leave_before_execution_and_answers_after_it_with_one_call_for_the_whole_group() {
    let running = Running::start(leader(), executor);
    running.connections.arrive(vec![connected(1)]);
    running.connections.arrive(vec![request(1), request(2)]);
    let calls = running.calls(3).await;
    assert_eq!(calls, ["send [Replication]", "execute 2 up to 2", "reply 1:Ok 2:Ok"]);
    running.connections.arrive(vec![request(3)]);
    let calls = running.calls(6).await;
    assert_eq!(calls[3..], ["send [Replication]", "execute 1 up to 3", "reply 3:Ok"]);
    assert!(running.connections.door.lock().claims[0].formed_on.is_some(), "handshakes claim that it is formed");
}

#[tokio::test(start_paused = true)]
async fn a_large_commit_is_executed_in_pieces_between_which_answers_and_frames_leave() {
    let count = 2 * backlog::GROUP_BATCHES as u64;
    let blocks: Vec<BlockId> = (1..=count).map(|position| block(position, 0)).collect();
    let message = ScriptedMessage::new(Lane::Control, 1);
    let core = Scripted::new()
        .once(
            EventKind::Propose,
            [Step::AcceptAll { first: Position(1), variant: 0 }, Step::Execute { first: Position(1), blocks }],
        )
        .once(EventKind::Executed, [Step::Send(Destination::All, message)]);
    let running = Running::start(core, executor);
    running.connections.arrive(vec![connected(1)]);
    running.connections.arrive((1..=count).map(request).collect());
    let calls = running.calls(5).await;
    assert_eq!(calls[0], "execute 256 up to 256");
    assert!(calls[1].starts_with("reply 1:Ok ") && calls[1].ends_with(" 256:Ok"), "{}", calls[1]);
    assert_eq!(calls[2], "send [Control]", "what the protocol says to the first piece does not wait for the second");
    assert_eq!(calls[3], "execute 256 up to 512");
    assert!(calls[4].starts_with("reply 257:Ok ") && calls[4].ends_with(" 512:Ok"), "{}", calls[4]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_executor_halts_the_replica_and_its_clients_are_told() {
    let running = Running::start(leader(), |_| {
        let mut executor = MockTransactionExecutor::new();
        let broken = || Err(ExecutorError::Store("full".to_owned()));
        executor.expect_execute().times(1).returning(move |_| broken());
        executor
    });
    running.connections.arrive(vec![connected(1)]);
    running.connections.arrive(vec![request(1), request(2)]);
    let calls = running.calls(2).await;
    assert_eq!(calls, ["send [Replication]", "reply 1:Unknown 2:Unknown"]);
    running.connections.arrive(vec![request(3)]);
    assert_eq!(running.calls(3).await[2], "reply 3:Stopped");
    let ending = running.task.await.unwrap();
    assert_eq!(ending, Ending::Halted(HaltReason::Executor("the store failed: full".to_owned())));
    assert!(running.connections.door.lock().shut, "nobody is let in any more");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_replica_tells_who_waits_refuses_who_comes_and_goes_when_everything_is_written() {
    let accepts = Scripted::new().always(EventKind::Propose, [Step::AcceptAll { first: Position(1), variant: 0 }]);
    let running = Running::start(accepts, executor);
    running.connections.arrive(vec![connected(1)]);
    running.connections.arrive(vec![request(1)]);
    sleep(Duration::from_millis(20)).await;
    assert_eq!(running.calls.lock().len(), 0, "the request waits");
    running.connections.door.lock().unwritten = true;
    running.switch_off();
    assert_eq!(running.calls(1).await, ["reply 1:Unknown"]);
    assert!(running.connections.door.lock().shut, "nobody is let in any more");
    sleep(Duration::from_millis(500)).await;
    running.connections.arrive(vec![request(2)]);
    assert_eq!(running.calls(2).await[1], "reply 2:Stopped", "it stays while the answer is not written");
    running.connections.door.lock().unwritten = false;
    let written = Instant::now();
    assert_eq!(running.task.await.unwrap(), Ending::Stopped);
    assert!(written.elapsed() <= LOOK + Duration::from_millis(1), "{:?}", written.elapsed());
}

#[tokio::test(start_paused = true)]
async fn clients_that_never_stop_asking_or_never_read_do_not_keep_a_stopped_replica_alive() {
    for unwritten in [false, true] {
        let time = time_to_go_with_a_nagging_client(unwritten).await;
        let wanted = if unwritten { FAREWELL } else { LOOK };
        assert!((wanted..wanted + Duration::from_millis(20)).contains(&time), "{unwritten}: {time:?}");
    }
}

async fn time_to_go_with_a_nagging_client(unwritten: bool) -> Duration {
    let running = Running::start(Scripted::new(), executor);
    running.connections.arrive(vec![connected(1)]);
    running.connections.door.lock().unwritten = unwritten;
    let stopped = Instant::now();
    running.switch_off();
    let connections = running.connections.clone();
    let nagging = tokio::spawn(async move {
        for sequence in 1.. {
            connections.arrive(vec![request(sequence)]);
            sleep(Duration::from_millis(10)).await;
        }
    });
    assert_eq!(running.task.await.unwrap(), Ending::Stopped);
    nagging.abort();
    stopped.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_the_protocol_is_kept_to_the_millisecond() {
    let at = Time::ZERO + Duration::from_millis(137);
    let message = ScriptedMessage::new(Lane::Control, 1);
    let core = Scripted::new()
        .once(EventKind::Start, [Step::Deadline(Some(at))])
        .once(EventKind::Tick, [Step::Send(Destination::All, message)]);
    let start = Instant::now();
    let running = Running::start(core, executor);
    running.connections.arrive(vec![connected(1)]);
    assert_eq!(running.calls(1).await, ["send [Control]"]);
    let late = start.elapsed().saturating_sub(Duration::from_millis(137));
    assert!(start.elapsed() >= Duration::from_millis(137) && late < Duration::from_millis(3), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_shell_sleeps_and_does_not_spin() {
    let running = Running::start(Scripted::new(), executor);
    running.connections.arrive(vec![connected(1)]);
    sleep(Duration::from_secs(60)).await;
    let before = running.connections.door.lock().takes;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(running.connections.door.lock().takes, before, "nothing happens, nothing is done");
}

#[tokio::test(start_paused = true)]
async fn a_shell_with_endless_work_lets_the_reader_tasks_run() {
    let running = Running::start(Scripted::new(), executor);
    running.connections.door.lock().endless = true;
    running.connections.arrive(vec![connected(1)]);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let takes = running.connections.door.lock().takes;
    assert!((50..=102).contains(&takes), "{takes} turns while this task ran 100 times");
}

#[tokio::test(start_paused = true)]
async fn only_the_link_that_offended_is_closed() {
    let undecodable = |link| {
        Inbound::PeerFrame(ReceivedFrame {
            peer: PEER,
            link: LinkId(link),
            lane: Lane::Control,
            class: FrameClass::Message,
            head: Bytes::from_static(&[99]),
            body: Bytes::new(),
        })
    };
    let running = Running::start(Scripted::new(), executor);
    running.connections.arrive(vec![connected(1)]);
    running.connections.arrive(vec![undecodable(1)]);
    assert_eq!(running.calls(1).await, ["disconnect 2, link 1"]);
    running.connections.arrive(vec![connected(3)]);
    running.connections.arrive(vec![undecodable(1), undecodable(3)]);
    assert_eq!(running.calls(2).await[1], "disconnect 2, link 3", "by its name, so that a newer one stays");
    let counters = running.board.ask(Duration::from_secs(1)).await.unwrap().driver.counters;
    assert_eq!((counters.frames_undecodable, counters.frames_stale), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_gets_a_snapshot_of_the_running_core() {
    let trip = Observation::RoundTrip { peer: PEER, duration: Duration::from_millis(3) };
    let core = leader().once(EventKind::Start, [Step::LeaderIs(Some(SELF)), Step::Observe(trip)]);
    let running = Running::start(core, executor);
    running.connections.arrive(vec![connected(1)]);
    running.connections.arrive(vec![request(1), request(2)]);
    running.calls(3).await;
    let snapshot = running.board.ask(Duration::from_secs(1)).await.unwrap();
    assert_eq!((snapshot.executed, snapshot.driver.leader), (Position(2), Some(SELF)));
    assert_eq!((snapshot.shell.batches_executed, snapshot.shell.groups_executed), (2, 1));
    assert_eq!((snapshot.shell.replies_sent, snapshot.clients), (2, 3));
    assert_eq!(snapshot.driver.counters.transactions, 2);
    assert_eq!(snapshot.round_trips.as_ref().unwrap().p50, 3.0);
    assert!(snapshot.shell.parks > 0, "the runtime has waited for the request");
}

#[tokio::test(start_paused = true)]
async fn the_protocol_hears_of_what_was_executed_without_waiting_for_anything_else() {
    let message = ScriptedMessage::new(Lane::Acknowledgement, 1);
    let core = leader().once(EventKind::Executed, [Step::Send(Destination::All, message)]);
    let running = Running::start(core, executor);
    running.connections.arrive(vec![connected(1)]);
    running.connections.arrive(vec![request(1), request(2)]);
    let before = Instant::now();
    assert_eq!(running.calls(4).await[3], "send [Acknowledgement]");
    assert!(before.elapsed() <= Duration::from_millis(2), "{:?}", before.elapsed());
}
