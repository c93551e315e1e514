//! One replica on loopback that executes what it is sent, with a `/status`, and that can be told to misbehave.

use bytes::Bytes;
use quorate_communicator::ClientWelcome;
use quorate_communicator::exchange::{accept_hello, welcome_client};
use quorate_communicator::frame::{FrameHeader, FrameKind};
use quorate_communicator::reader::{Expected, Fill, FrameReader};
use quorate_config::{ClusterConfig, parse_cluster};
use quorate_executor::{KvExecutor, MemoryStore, ReplicatedLimits};
use quorate_framework::entry::EntryKind;
use quorate_framework::{
    Answer, Batch, BlockId, ClientFrame, ClusterId, ExecuteRange, ExecutorCommand, Lane, Outcome, ReplicaId,
    ReplyHeader, ReplyKind, Status,
};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

const CLUSTER: &str = "000102030405060708090a0b0c0d0e0f";

/// How a replica misbehaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Behaviour {
    /// No answers in this time since the first request.
    pub(crate) silent: Option<(Duration, Duration)>,
    /// Every so many requests one is answered `Busy`.
    pub(crate) busy_each: Option<u64>,
    /// Requests are answered without being executed.
    pub(crate) lies: bool,
}

/// A running replica; it ends with the test's process.
pub(crate) struct Replica {
    pub(crate) port: u16,
    pub(crate) http_port: u16,
}

struct Executing {
    executor: KvExecutor<MemoryStore>,
    executed: Arc<AtomicU64>,
    requests: u64,
    first: Option<Instant>,
    behaviour: Behaviour,
}

impl Replica {
    pub(crate) fn start(behaviour: Behaviour) -> Replica {
        let executed = Arc::new(AtomicU64::new(0));
        let http = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let http_port = http.local_addr().unwrap().port();
        let counted = Arc::clone(&executed);
        thread::spawn(move || serve_status(&http, &counted));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let executing = Executing {
            executor: KvExecutor::new(MemoryStore::new(), ReplicatedLimits::default()),
            executed,
            requests: 0,
            first: None,
            behaviour,
        };
        let state = || Rc::new(RefCell::new(executing));
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            LocalSet::new().block_on(&runtime, accept(listener, state()));
        });
        Replica { port, http_port }
    }

    /// The cluster of this one replica.
    pub(crate) fn cluster(&self) -> ClusterConfig {
        let text = format!(
            r#"{{ "recovery_enabled": false, "client_batch_num": 10, "max_process_txn": 16, "cluster_id": "{CLUSTER}",
                "replicas": [{{ "id": 1, "host": "127.0.0.1", "port": {}, "http_port": {}, "resp_port": 1 }}] }}"#,
            self.port, self.http_port
        );
        parse_cluster("cluster.json", text.as_bytes()).unwrap().config
    }
}

fn serve_status(listener: &std::net::TcpListener, executed: &AtomicU64) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let _ = stream.read(&mut [0; 4_096]);
        let executed = executed.load(Ordering::SeqCst);
        let body = format!(
            r#"{{ "id": 1, "incarnation": "a", "durable": false, "role": "leader", "leader": 1, "unbound": [],
                "counters": {{ "transactions_executed": {executed}, "entries_appended": {executed}, "groups_appended": {},
                    "batches_executed": {}, "socket_calls": {executed}, "parks": {}, "peer_frames_sent": 0, "peer_frames_received": 0 }},
                "process": {{ "cpu_user_us": {executed}, "cpu_system_us": 0, "resident_bytes": 1048576, "threads": 2 }},
                "threads": ["core", "http"], "view": 1, "round_trip_ms": null, "settings": {{ "max_process_txn": 16 }}, "version": "0", "commit": "abc" }}"#,
            executed / 2,
            executed / 10,
            executed / 4
        );
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        let _ = stream.write_all((head + &body).as_bytes());
    }
}

async fn accept(listener: std::net::TcpListener, state: Rc<RefCell<Executing>>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::task::spawn_local(serve(stream, Rc::clone(&state)));
    }
}

async fn serve(mut stream: TcpStream, state: Rc<RefCell<Executing>>) {
    stream.set_nodelay(true).unwrap();
    let mut reader = FrameReader::new(Expected::Handshake);
    let hello = accept_hello(&mut stream, &mut reader).await.unwrap();
    let welcome = ClientWelcome { replica: ReplicaId(1), cluster: hello.cluster.unwrap_or(ClusterId([0; 16])) };
    welcome_client(&mut stream, welcome).await.unwrap();
    reader.expect(Expected::Requests);
    let mut output = Vec::new();
    while !matches!(reader.fill(&mut stream).await, Ok(Fill::Closed) | Err(_)) {
        while let Some(message) = reader.next_message().unwrap() {
            let request = ClientFrame::parse(Bytes::copy_from_slice(&message.body)).unwrap();
            state.borrow_mut().handle(&request, &mut output);
        }
        let silent = state.borrow().is_silent();
        if !silent && stream.write_all(&std::mem::take(&mut output)).await.is_err() {
            return;
        }
    }
}

impl Executing {
    fn is_silent(&self) -> bool {
        let since = self.first.map(|first| first.elapsed());
        let silent = self.behaviour.silent;
        silent.zip(since).is_some_and(|((from, until), since)| (from..until).contains(&since))
    }

    fn handle(&mut self, request: &ClientFrame, output: &mut Vec<u8>) {
        let opens = request.header.session.is_none();
        if !opens {
            self.requests += 1;
            self.first.get_or_insert_with(Instant::now);
        }
        let status = match self.behaviour {
            Behaviour { busy_each: Some(each), .. } if !opens && self.requests.is_multiple_of(each) => Status::Busy,
            Behaviour { lies: true, .. } if !opens => Status::Ok,
            _ => return self.execute(request, output),
        };
        let header = ReplyHeader {
            status,
            kind: ReplyKind::Committed,
            hint: None,
            session: request.header.session,
            sequence: request.header.sequence,
            position: self.executor.executed(),
        };
        let results = vec![0; if status == Status::Ok { request.header.count as usize } else { 0 }];
        write_reply(&header, &results, output);
    }

    fn execute(&mut self, request: &ClientFrame, output: &mut Vec<u8>) {
        let batch = Batch { block: BlockId::default(), kind: EntryKind::Request, payload: request.bytes.clone() };
        let range = ExecuteRange { first: self.executor.executed().next(), batches: vec![batch] };
        let mut outcome = Outcome::default();
        self.executor.apply(vec![ExecutorCommand::Execute { range, answers: true }], &mut outcome).unwrap();
        self.executed.fetch_add(outcome.transactions, Ordering::SeqCst);
        for Answer { position, kind, session, sequence, status, body, .. } in outcome.answers {
            write_reply(&ReplyHeader { status, kind, hint: None, session, sequence, position }, &body, output);
        }
    }
}

fn write_reply(header: &ReplyHeader, body: &[u8], output: &mut Vec<u8>) {
    let mut content = Vec::new();
    header.encode(&mut content);
    content.extend_from_slice(body);
    let frame = FrameHeader {
        lane: Lane::Client,
        kind: FrameKind::Reply,
        more: false,
        continued: false,
        head_length: 0,
        body_length: content.len(),
        total_length: content.len(),
    };
    output.extend_from_slice(&frame.encode([&content[..]]));
    output.append(&mut content);
}
