//! Connections of clients over real sockets.

mod common;

use bytes::Bytes;
use common::{CLUSTER, Replica, bind, configuration, ok, request, until, within};
use quorate_communicator::bounds::{CLIENT_LANE, PEER_LANES};
use quorate_communicator::{
    ClientReceiver, ClientSendError, ClientSender, ClientWelcome, HandshakeError, Inbound, InboundLanes, LaneBound,
    QueueError, RefusalCode, connect_client,
};
use quorate_framework::{ClientReply, ClusterId, Lane, ReplicaCommunicator, ReplicaId, ReplyHeader, Sequence, Status};
use std::time::Duration;

async fn connect(address: &str) -> (ClientSender, ClientReceiver) {
    let (sender, receiver, welcome) =
        connect_client(address, Some(CLUSTER), Duration::from_secs(5)).await.expect("welcome");
    assert_eq!(welcome, ClientWelcome { replica: ReplicaId(1), cluster: CLUSTER });
    (sender, receiver)
}

async fn replies(receiver: &mut ClientReceiver, count: usize) -> Vec<(ReplyHeader, Bytes)> {
    let mut output = Vec::new();
    while output.len() < count {
        within("replies", receiver.replies(&mut output)).await.expect("the connection is up");
    }
    output
}

async fn alone() -> (Replica, String) {
    let (listener, address) = bind().await;
    (Replica::start(configuration(1, &[]), listener), address)
}

#[tokio::test]
async fn requests_of_one_turn_leave_in_one_write_and_their_replies_come_in_one_read() {
    let (replica, address) = alone().await;
    tokio::spawn(replica.echo());
    let (sender, mut receiver) = connect(&address).await;
    for number in 1..=200 {
        sender.queue(&request(number, format!("body {number}").as_bytes())).expect("queued");
    }
    sender.flush();
    let answers = replies(&mut receiver, 200).await;
    for (number, (header, body)) in (1..).zip(&answers) {
        assert_eq!((header.status, header.sequence), (Status::Ok, Sequence(number)));
        assert_eq!(body, format!("body {number}").as_bytes());
    }
    let traffic = sender.traffic();
    assert_eq!((traffic.writes, traffic.reads), (1, 1));
}

#[tokio::test]
async fn a_request_and_a_reply_of_nine_megabytes_arrive_unchanged() {
    let (replica, address) = alone().await;
    tokio::spawn(replica.echo());
    let (sender, mut receiver) = connect(&address).await;
    let body: Vec<u8> = (0..9u32 << 20).map(|place| (place >> 5) as u8).collect();
    sender.send(&request(1, &body)).expect("queued");
    sender.send(&request(2, b"small")).expect("queued");
    let answers = replies(&mut receiver, 2).await;
    assert!(answers[0].1 == body, "the large one came back unchanged");
    assert_eq!(&answers[1].1[..], b"small");
    let refused = sender.send(&request(3, &vec![0; 17 << 20]));
    assert!(matches!(refused, Err(ClientSendError::Wire(_))), "{refused:?}");
    sender.send(&request(4, b"still there")).expect("the connection stays");
    assert_eq!(replies(&mut receiver, 1).await[0].0.sequence, Sequence(4));
}

#[tokio::test]
async fn a_full_client_lane_answers_busy_at_once_and_reads_on() {
    let (listener, address) = bind().await;
    let lanes = InboundLanes::new(PEER_LANES, LaneBound { messages: 3, ..CLIENT_LANE });
    let mut replica = Replica::with_lanes(configuration(1, &[]), listener, lanes);
    let (sender, mut receiver) = connect(&address).await;
    (1..=5).for_each(|number| sender.queue(&request(number, b"")).expect("queued"));
    sender.flush();
    // The core has not taken anything: the answers come from the reader.
    let busy = replies(&mut receiver, 2).await;
    let seen: Vec<(Status, Sequence)> = busy.iter().map(|(header, _)| (header.status, header.sequence)).collect();
    assert_eq!(seen, [(Status::Busy, Sequence(4)), (Status::Busy, Sequence(5))]);
    assert_eq!(busy[0].0.session.position.0, 1, "the session is echoed too");
    let mut taken = Vec::new();
    replica.inbound.drain(Lane::Client, 10, usize::MAX, &mut taken);
    sender.send(&request(6, b"")).expect("queued");
    let Inbound::ClientRequest { frame, connection } = replica.next().await else { panic!("room again") };
    assert_eq!(frame.header.sequence, Sequence(6));
    replica.communicator.reply(&mut vec![ClientReply { connection, header: ok(&frame), body: Bytes::new() }]).await;
    assert_eq!(replies(&mut receiver, 1).await[0].0.status, Status::Ok);
    assert_eq!(replica.communicator.handle().traffic().busy_answers, 2);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped_and_another_is_served() {
    let (listener, address) = bind().await;
    let mut bounded = configuration(1, &[]);
    bounded.options.client_outbox = LaneBound { messages: 1_000_000, bytes: 4 << 20 };
    let mut replica = Replica::start(bounded, listener);
    let (slow, _unread) = connect(&address).await;
    slow.send(&request(1, b"")).expect("queued");
    let (fast, mut receiver) = connect(&address).await;
    fast.send(&request(2, b"")).expect("queued");
    let (mut slow_connection, mut fast_connection, mut header) = (None, None, None);
    while slow_connection.is_none() || fast_connection.is_none() {
        if let Inbound::ClientRequest { connection, frame } = replica.next().await {
            let one = if frame.header.sequence == Sequence(1) { &mut slow_connection } else { &mut fast_connection };
            *one = Some(connection);
            header = Some(ok(&frame));
        }
    }
    let (slow_connection, fast_connection) = slow_connection.zip(fast_connection).expect("both have asked");
    let header = header.expect("both have asked");
    let body = Bytes::from(vec![1; 256 << 10]);
    for _ in 0..100 {
        let to = |connection| ClientReply { connection, header, body: body.clone() };
        replica.communicator.reply_now(&mut vec![to(slow_connection), to(fast_connection)]);
        assert!(replies(&mut receiver, 1).await[0].1 == body);
    }
    let gone = Inbound::ClientDisconnected { connection: slow_connection };
    assert_eq!(replica.next().await, gone);
    assert_eq!(replica.communicator.handle().connections(), (1, 0));
}

#[tokio::test]
async fn many_clients_that_do_not_read_are_bounded_together_and_one_that_reads_is_served() {
    let (listener, address) = bind().await;
    let mut bounded = configuration(1, &[]);
    bounded.options.client_answers_bytes = 24 << 20;
    let mut replica = Replica::start(bounded, listener);
    let mut clients = Vec::new();
    for number in 1..=6 {
        let (sender, receiver) = connect(&address).await;
        sender.send(&request(number, b"")).expect("queued");
        let asked = loop {
            if let Inbound::ClientRequest { connection, frame } = replica.next().await {
                break (connection, ok(&frame));
            }
        };
        clients.push((sender, receiver, asked));
    }
    let (_, mut reading, (reader, _)) = clients.pop().expect("six clients");
    let body = Bytes::from(vec![1; 256 << 10]);
    let handle = replica.communicator.handle();
    for _ in 0..100 {
        let others = clients.iter().map(|(.., asked)| *asked);
        let to = |(connection, header)| ClientReply { connection, header, body: body.clone() };
        let mut answers: Vec<ClientReply> = others.chain([(reader, clients[0].2.1)]).map(to).collect();
        // Each stays far below its own bound of 32 MiB.
        replica.communicator.reply_now(&mut answers);
        assert!(replies(&mut reading, 1).await[0].1 == body);
        let (_, waiting) = handle.waiting_to_be_written();
        assert!(waiting <= (24 + 6 + 2) << 20, "{waiting} bytes wait");
    }
    until("those to be gone for which most waited", || handle.connections().0 < 6).await;
    assert!(handle.connections().0 >= 2, "no more of them than had to");
}

#[tokio::test]
async fn a_client_of_another_cluster_and_one_too_many_are_told_why() {
    let (listener, address) = bind().await;
    let mut bounded = configuration(1, &[]);
    (bounded.options.unfinished_handshakes, bounded.options.connections) = (4, 4 + 1 + 2);
    let _replica = Replica::start(bounded, listener);
    let time = Duration::from_secs(5);
    let code = |result: Result<(ClientSender,), HandshakeError>| match result {
        Err(HandshakeError::RefusedByOther(refusal)) => refusal.code,
        Err(other) => panic!("a typed refusal, not {other:?}"),
        Ok(_) => panic!("refused"),
    };
    let wrong = connect_client(&address, Some(ClusterId([1; 16])), time).await.map(|(sender, ..)| (sender,));
    assert_eq!(code(wrong), RefusalCode::WrongCluster);
    let first = connect(&address).await;
    let _second = connect(&address).await;
    let third = connect_client(&address, None, time).await.map(|(sender, ..)| (sender,));
    assert_eq!(code(third), RefusalCode::TooManyConnections);
    drop(first);
    within("the place of the one that left", async {
        while connect_client(&address, None, time).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn both_ends_learn_of_the_end() {
    let (mut replica, address) = alone().await;
    let (sender, receiver) = connect(&address).await;
    let Inbound::ClientConnected { connection } = replica.next().await else { panic!("a client") };
    drop((sender, receiver));
    assert_eq!(replica.next().await, Inbound::ClientDisconnected { connection });
    let (sender, mut receiver) = connect(&address).await;
    drop(replica);
    let ended = within("the end", receiver.replies(&mut Vec::new())).await;
    assert!(ended.is_err());
    let send = sender.send(&request(1, b""));
    assert!(matches!(send, Err(ClientSendError::Queue(QueueError::Closed(_)))), "{send:?}");
}

#[tokio::test]
async fn clients_that_disconnect_right_after_sending_leave_nothing() {
    let (replica, address) = alone().await;
    for _ in 0..200 {
        let (sender, receiver) = connect(&address).await;
        sender.send(&request(1, &[0; 1_000])).expect("queued");
        drop((sender, receiver));
    }
    let handle = replica.communicator.handle();
    until("all connections to be gone", || handle.connections() == (0, 0)).await;
    assert!(replica.inbound.is_empty(), "what nobody took is gone with its connection");
    let mut items = Vec::new();
    replica.inbound.drain(Lane::Client, 10, usize::MAX, &mut items);
    assert_eq!(items, []);
}

#[tokio::test]
async fn a_large_request_that_never_ends_is_cut_and_gives_its_memory_back() {
    let (listener, address) = bind().await;
    let mut impatient = configuration(1, &[]);
    impatient.options.request_timeout = Duration::from_millis(500);
    let mut replica = Replica::start(impatient, listener);
    let mut stalled = common::raw_client(&address).await;
    let frames = common::frames_of(&request(1, &vec![0; 4 << 20]));
    common::write_all(&mut stalled, &frames[..2 << 20]).await;
    let Inbound::ClientConnected { connection } = replica.next().await else { panic!("a client") };
    let handle = replica.communicator.handle();
    until("the request to begin", || handle.unfinished_request_bytes() > 4 << 20).await;
    assert_eq!(replica.next().await, Inbound::ClientDisconnected { connection });
    assert_eq!(handle.unfinished_request_bytes(), 0);
}
