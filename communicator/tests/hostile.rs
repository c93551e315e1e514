//! Senders that do not behave hurt nobody else.

mod common;

use bytes::Bytes;
use common::{CLUSTER, Replica, bind, closed, configuration, frames_of, raw_client, request, until, within, write_all};
use quorate_communicator::connect_client;
use quorate_framework::{Sequence, Status};
use rand::RngExt;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A client that asks and is answered, over and over.
async fn ask(address: &str, times: u64) {
    let (sender, mut receiver, _) =
        connect_client(address, Some(CLUSTER), Duration::from_secs(5)).await.expect("welcome");
    let mut replies = Vec::new();
    for number in 1..=times {
        sender.send(&request(number, b"hello")).expect("queued");
        within("a reply", receiver.replies(&mut replies)).await.expect("the connection is up");
        let (header, body) = replies.pop().expect("one reply");
        assert_eq!((header.status, header.sequence, &body[..]), (Status::Ok, Sequence(number), &b"hello"[..]));
    }
}

async fn echoing(options: impl FnOnce(&mut quorate_communicator::CommunicatorOptions)) -> String {
    let (listener, address) = bind().await;
    let mut configuration = configuration(1, &[(2, "127.0.0.1:1")]);
    options(&mut configuration.options);
    tokio::spawn(Replica::start(configuration, listener).echo());
    address
}

/// A valid request whose header was tampered with.
fn tampered(offset: usize, value: u32) -> Vec<u8> {
    let mut bytes = frames_of(&request(1, &[7; 100]));
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn hostile() -> Vec<(String, Vec<u8>)> {
    let mut list = Vec::new();
    for (field, offset) in [("length", 0), ("head length", 4), ("message length", 8)] {
        for value in [u32::MAX, i32::MIN as u32, (1 << 20) + 1, 1 << 30] {
            list.push((format!("{field} {value}"), tampered(offset, value)));
        }
    }
    list.push(("length 0".into(), tampered(0, 0)));
    list.push(("message length 0".into(), tampered(8, 0)));
    // The payload is no request: its signature is longer than the frame; its command count is above the limit.
    let payload = |offset: usize, value: &[u8]| {
        let mut bytes = request(1, b"body").to_vec();
        bytes[offset..offset + value.len()].copy_from_slice(value);
        frames_of(&Bytes::from(bytes))
    };
    list.push(("signature longer than the frame".into(), payload(2, &[255, 255])));
    list.push(("command count".into(), payload(4, &u32::MAX.to_le_bytes())));
    let mut random = rand::rng();
    for number in 0..20 {
        list.push((format!("random bytes {number}"), (0..200).map(|_| random.random()).collect()));
    }
    list
}

#[tokio::test]
async fn hostile_lengths_close_their_own_connection_and_no_other() {
    let address = echoing(|_| {}).await;
    let asking = tokio::spawn({
        let address = address.clone();
        async move { ask(&address, 2_000).await }
    });
    for (what, bytes) in hostile() {
        for shaken in [false, true] {
            let mut stream = if shaken {
                raw_client(&address).await
            } else {
                TcpStream::connect(&address).await.expect("connected")
            };
            // The replica may close before it has read all.
            let _ = stream.write_all(&bytes).await;
            let mut noticed = [0; 1];
            let end = within(&what, stream.read(&mut noticed)).await;
            assert!(matches!(end, Ok(0) | Err(_)), "{what}, shaken: {shaken}: answered with {noticed:?}");
        }
    }
    asking.await.expect("the other client was served all the time");
    ask(&address, 10).await;
}

#[tokio::test]
async fn half_a_frame_and_silence_delays_nobody() {
    let address = echoing(|_| {}).await;
    let frame = frames_of(&request(1, &[7; 1_000]));
    let mut halves = Vec::new();
    for length in [1, 10, 19, 20, 500] {
        let mut stream = raw_client(&address).await;
        write_all(&mut stream, &frame[..length]).await;
        halves.push((stream, length));
    }
    ask(&address, 500).await;
    for (mut stream, length) in halves {
        write_all(&mut stream, &frame[length..]).await;
        let mut reply = [0; 20 + 36 + 1_000];
        within("the answer to the other half", stream.read_exact(&mut reply)).await.expect("answered");
        assert_eq!(reply[20], Status::Ok as u8);
    }
}

#[tokio::test]
async fn a_sender_of_single_bytes_does_not_delay_a_fast_one() {
    let address = echoing(|_| {}).await;
    let slow = tokio::spawn({
        let address = address.clone();
        async move {
            let mut stream = raw_client(&address).await;
            stream.set_nodelay(true).expect("an open socket");
            for byte in frames_of(&request(1, &[7; 1_000])) {
                write_all(&mut stream, &[byte]).await;
                tokio::task::yield_now().await;
            }
            let mut reply = [0; 20 + 36 + 1_000];
            within("the answer", stream.read_exact(&mut reply)).await.expect("answered");
            assert_eq!(reply[56..], [7; 1_000]);
        }
    });
    ask(&address, 1_000).await;
    slow.await.expect("answered like any other");
}

#[tokio::test]
async fn three_hundred_silent_connections_keep_neither_peer_nor_client_out() {
    let (first_listener, first) = bind().await;
    let mut patient = configuration(1, &[(2, "127.0.0.1:1")]);
    // The silent ones are not cut while the test runs: who comes in, comes in past them.
    patient.options.handshake_timeout = Duration::from_secs(600);
    let mut one = Replica::start(patient, first_listener);
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(TcpStream::connect(&first).await.expect("connected"));
    }
    let handle = one.communicator.handle();
    until("the door to be full", || handle.traffic().accepted == 300).await;
    assert_eq!(handle.connections(), (0, 256), "unfinished handshakes are bounded");
    let _two = Replica::start(configuration(2, &[(1, &first)]), bind().await.0);
    one.connected(2).await;
    tokio::spawn(one.echo());
    ask(&first, 10).await;
}

#[tokio::test]
async fn who_is_silent_or_trickles_is_cut_by_the_time_limit() {
    let address = echoing(|options| options.handshake_timeout = Duration::from_millis(150)).await;
    let mut silent = TcpStream::connect(&address).await.expect("connected");
    let (mut trickle_read, mut trickle_write) = TcpStream::connect(&address).await.expect("connected").into_split();
    let trickling = tokio::spawn(async move {
        // A frame's header that announces a hello of 60,000 bytes, and then its bytes, one by one.
        let header = quorate_communicator::frame::FrameHeader {
            lane: quorate_framework::Lane::Control,
            kind: quorate_communicator::frame::FrameKind::Hello,
            more: false,
            continued: false,
            head_length: 0,
            body_length: 60_000,
            total_length: 60_000,
        };
        for byte in header.encode([]).into_iter().chain(std::iter::repeat(0)) {
            if trickle_write.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    closed(&mut silent).await;
    let mut bytes = [0; 16];
    within("the trickle to be cut", async { while matches!(trickle_read.read(&mut bytes).await, Ok(1..)) {} }).await;
    within("the trickle to notice", trickling).await.expect("no panic");
    ask(&address, 10).await;
}
