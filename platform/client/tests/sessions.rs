//! The client against replicas on real sockets that do what the test says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use quorate_client::{Client, ClientEvent, ConnectError, Outcome, SessionClient, SubmitError};
use quorate_executor::{Command, CommandResult, Commands};
use quorate_framework::{ReplicaId, Sequence, Status};
use std::time::{Duration, Instant};
use support::{FakeReplica, LONG, SESSION, body, replicas};
use tokio::time::timeout;

async fn connected(
    replica: &FakeReplica,
    options: quorate_client::ClientOptions,
) -> (SessionClient, support::FakeConnection) {
    let (client, connection) = tokio::join!(SessionClient::connect(options, LONG), replica.accept_and_open());
    (client.unwrap(), connection)
}

/// Takes turns until something ended.
async fn ended(client: &mut SessionClient) -> Vec<(u64, Outcome)> {
    let mut events = Vec::new();
    let turns = timeout(LONG, async {
        loop {
            client.turn(&mut events).await;
            let ended = events.drain(..).filter_map(|event| match event {
                ClientEvent::Ended(ended) => Some((ended.number, ended.outcome)),
                _ => None,
            });
            let ended: Vec<_> = ended.collect();
            if !ended.is_empty() {
                return ended;
            }
        }
    });
    turns.await.expect("a request ends")
}

#[tokio::test]
async fn a_redirected_request_is_executed_by_the_hinted_replica_under_its_sequence() {
    let (replicas, mut options) = replicas(2).await;
    options.replicas.truncate(1);
    options.replicas.push(replicas[1].endpoint());
    let connect = tokio::spawn(async move { Client::connect(options, LONG).await.unwrap() });
    // Whichever replica is asked first sends the client to the other one.
    let (first, second) = tokio::select! {
        connection = replicas[0].accept() => ((connection, 0), 1),
        connection = replicas[1].accept() => ((connection, 1), 0),
    };
    let (mut first, first_place) = first;
    let open = first.request().await;
    first.answer(&open, Status::NotLeader, Some(replicas[second].id), b"").await;
    let mut leader = replicas[second].accept().await;
    let again = leader.request().await;
    assert_eq!(again.bytes, open.bytes, "the same nonce");
    leader.answer(&again, Status::Ok, None, b"").await;
    let client = connect.await.unwrap();
    assert_eq!(client.leader(), Some(replicas[second].id));

    let execute = tokio::spawn({
        let client = client.clone();
        async move { client.execute(&[Command::Put { key: b"k", value: b"v" }, Command::Get { key: b"k" }]).await }
    });
    let request = leader.request().await;
    assert_eq!((request.header.session, request.header.sequence), (SESSION, Sequence(1)));
    let commands: Vec<_> = Commands::parse(request.body(), request.header.count).unwrap().map(|c| c.writes()).collect();
    assert_eq!(commands, [true, false]);
    leader.answer(&request, Status::NotLeader, Some(replicas[first_place].id), b"").await;
    let again = first.request().await;
    assert_eq!(again.bytes, request.bytes);
    let mut results = Vec::new();
    CommandResult::plain(Status::Ok).encode(&mut results);
    CommandResult::bytes(b"v").encode(&mut results);
    first.answer(&again, Status::Ok, None, &results).await;
    let Outcome::Done(done) = execute.await.unwrap() else { panic!("done") };
    let results: Vec<_> = done.results().map(Result::unwrap).collect();
    assert_eq!(results, [CommandResult::plain(Status::Ok), CommandResult::bytes(b"v")]);
    assert_eq!(client.leader(), Some(replicas[first_place].id));
    assert_eq!((client.counters().not_leader, client.counters().leader_changes), (2, 1));
}

#[tokio::test]
async fn what_was_on_a_lost_connection_stays_unknown_until_the_session_settles_it() {
    let (replicas, mut options) = replicas(1).await;
    options.request_deadline = Duration::from_millis(300);
    let (mut client, mut connection) = connected(&replicas[0], options).await;
    client.submit(1, 1, b"first").unwrap();
    client.submit(2, 1, b"second").unwrap();
    let server = async {
        let first = connection.request().await;
        connection.request().await;
        drop(connection);
        let mut connection = replicas[0].accept().await;
        let again = connection.request().await;
        assert_eq!(again.bytes, first.bytes);
        connection.answer(&again, Status::Ok, None, b"settled").await;
        let second = connection.request().await;
        assert_eq!(second.header.sequence, Sequence(2));
        connection.answer(&second, Status::NotLeader, None, b"").await;
        connection
    };
    let both = async {
        let mut outcomes = ended(&mut client).await;
        outcomes.extend(ended(&mut client).await);
        outcomes
    };
    let (outcomes, _connection) = tokio::join!(both, server);
    let Outcome::Done(done) = &outcomes[0].1 else { panic!("{outcomes:?}") };
    assert_eq!(&done.body[..], b"settled");
    assert_eq!(outcomes[1], (2, Outcome::Unknown), "refused the second time, but not the first");
    assert_eq!(client.counters().connection_lost, 2);
}

#[tokio::test]
async fn a_busy_answer_is_followed_by_a_pause_and_the_same_frame() {
    let (replicas, options) = replicas(1).await;
    let (mut client, mut connection) = connected(&replicas[0], options).await;
    client.submit(1, 1, b"body").unwrap();
    let server = async {
        let started = Instant::now();
        let request = connection.request().await;
        for _ in 0..5 {
            connection.answer(&request, Status::Busy, None, b"").await;
            assert_eq!(connection.request().await.bytes, request.bytes);
        }
        // Half of 1 + 2 + 4 + 8 + 16 ms at the least.
        assert!(started.elapsed() >= Duration::from_millis(15), "{:?}", started.elapsed());
        connection.answer(&request, Status::Ok, None, b"").await;
        connection
    };
    let (outcomes, _connection) = tokio::join!(ended(&mut client), server);
    assert!(matches!(outcomes[..], [(1, Outcome::Done(_))]));
    assert_eq!((client.counters().busy, client.counters().retried), (5, 5));
}

#[tokio::test]
async fn an_expired_session_is_opened_anew_and_its_request_is_not_repeated() {
    let (replicas, options) = replicas(1).await;
    let (mut client, mut connection) = connected(&replicas[0], options).await;
    client.submit(1, 1, b"body").unwrap();
    let server = async {
        let request = connection.request().await;
        connection.answer(&request, Status::Expired, None, b"").await;
        let open = connection.request().await;
        assert!(open.header.session.is_none(), "not the request again");
        connection.answer(&open, Status::Ok, None, b"").await;
    };
    let (outcomes, ()) = tokio::join!(
        async {
            let first = ended(&mut client).await;
            drive(&mut client).await;
            first
        },
        server
    );
    assert_eq!(outcomes, [(1, Outcome::Expired)]);
    assert_eq!(client.counters().sessions_expired, 1);
}

/// Takes turns until there is capacity again.
async fn drive(client: &mut SessionClient) {
    let mut events = Vec::new();
    while client.capacity() == 0 {
        let _ = timeout(Duration::from_millis(20), client.turn(&mut events)).await;
    }
}

#[tokio::test]
async fn frames_carry_the_low_mark_and_leave_in_the_order_of_their_submit() {
    let (replicas, mut options) = replicas(1).await;
    options.window_frames = 2;
    let (mut client, mut connection) = connected(&replicas[0], options).await;
    for number in 1..=40_u64 {
        client.submit(number, 1, &number.to_le_bytes()).unwrap();
        let server = async {
            let request = connection.request().await;
            assert_eq!(request.header.sequence, Sequence(number));
            assert_eq!(request.header.acknowledged, Sequence(number - 1));
            assert_eq!(&body(&request)[..], number.to_le_bytes());
            connection.answer(&request, Status::Ok, None, b"").await;
        };
        let (outcomes, ()) = tokio::join!(ended(&mut client), server);
        assert_eq!(outcomes[0].0, number);
    }
}

#[tokio::test]
async fn a_lost_batch_gives_its_slot_back() {
    let (replicas, mut options) = replicas(1).await;
    (options.window_frames, options.request_deadline) = (1, Duration::from_millis(50));
    let (mut client, mut connection) = connected(&replicas[0], options).await;
    for number in 1..=3 {
        client.submit(number, 1, b"body").unwrap();
        assert_eq!(client.submit(9, 1, b"body"), Err(SubmitError::WindowFull));
        let (outcomes, request) = tokio::join!(ended(&mut client), connection.request());
        assert_eq!(outcomes, [(number, Outcome::Unknown)]);
        assert_eq!((request.header.sequence, client.capacity()), (Sequence(number), 1));
    }
}

#[tokio::test]
async fn a_request_that_fits_no_frame_is_refused_before_it_takes_a_slot() {
    let (replicas, options) = replicas(1).await;
    let (mut client, _connection) = connected(&replicas[0], options).await;
    let body = vec![0; quorate_client::FRAME_BYTES_MAX];
    assert!(matches!(client.submit(1, 1, &body), Err(SubmitError::TooLarge { commands: 1, .. })));
    assert!(matches!(client.submit(1, u32::MAX, b""), Err(SubmitError::TooLarge { .. })));
    assert_eq!(client.in_flight(), 0);
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_is_an_error_that_names_each_replica() {
    let (replicas, options) = replicas(2).await;
    let silent = replicas[0].endpoint();
    let refusing = replicas[1].endpoint();
    let mut replicas = replicas.into_iter();
    let _keeps_listening_without_a_word = replicas.next();
    drop(replicas);
    let error = SessionClient::connect(options, Duration::from_millis(300)).await.unwrap_err();
    let ConnectError::Unreachable { replicas, .. } = &error else { panic!("{error}") };
    assert_eq!(replicas.iter().map(|replica| replica.0).collect::<Vec<_>>(), [ReplicaId(1), ReplicaId(2)]);
    let text = error.to_string();
    for endpoint in [silent, refusing] {
        assert!(text.contains(&format!("replica {} at {}: ", endpoint.id, endpoint.address())), "{text}");
    }
}

#[tokio::test]
async fn another_replica_at_an_address_is_named_and_not_used() {
    let (replicas, mut options) = replicas(1).await;
    options.replicas[0].id = ReplicaId(5);
    let (error, _connection) =
        tokio::join!(SessionClient::connect(options, Duration::from_millis(200)), replicas[0].accept());
    let text = error.unwrap_err().to_string();
    assert!(text.contains("replica 1 answers there; check host and port"), "{text}");
}
