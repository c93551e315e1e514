//! Clients and strangers that do not behave, on real processes under load: each costs its own connection and nothing else.

// The workspace allows `unwrap` in tests; clippy does not see that the helpers of this file are one.
#![allow(clippy::unwrap_used)]

mod support;

use quorate_cluster_tests::{Cluster, Load, Surroundings};
use quorate_communicator::frame::FrameKind;
use quorate_executor::{Command, CommandWriter};
use quorate_framework::{ClientFrame, Lane, ReplyHeader, RequestHeader, Sequence, SessionId, Status, limits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};
use support::{
    RawClient, RawPeer, closed_by_the_other_side, connect, frame_with_head, hello, noise, open_descriptors_allowed,
    request_frame,
};

/// What a replica may take, whatever is done to it, in bytes.
const MEMORY_BOUND: u64 = 300 << 20;

fn load(cluster: &Cluster, duration_s: u32) -> Load {
    let duration = duration_s.to_string();
    let arguments = ["--window", "8", "--batch", "10", "--warm-up", "0", "--deadline-ms", "20000", "--duration"];
    cluster.load(&[&arguments[..], &[&duration]].concat())
}

#[track_caller]
fn assert_unharmed((code, result): (Option<i32>, Value)) {
    assert_eq!(result["errors"], 0, "{result}");
    assert!(result["accepted"].as_u64().unwrap() > 0, "{result}");
    assert!(code == Some(0) || code == Some(3), "{code:?}: {result}");
}

fn number(cluster: &Cluster, id: u32, pointer: &str) -> u64 {
    cluster.status(id).pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in /status"))
}

fn wait_for_load(cluster: &Cluster, id: u32) {
    let before = number(cluster, id, "/positions/executed");
    cluster.wait_until("the load executes", |cluster| number(cluster, id, "/positions/executed") > before + 20);
}

#[track_caller]
fn assert_memory_is_bounded(cluster: &Cluster, bound: u64) {
    for id in 1..=3 {
        let resident = number(cluster, id, "/process/resident_bytes");
        assert!(resident < bound, "replica {id} takes {} MiB", resident >> 20);
    }
}

/// A request of a session that does not exist, answered as such: it travels the whole way all the same.
fn stray_request(sequence: u64, count: u32, body: &[u8]) -> Vec<u8> {
    let session = SessionId { position: quorate_framework::Position(1 << 40), offset: 0 };
    let header = RequestHeader { count, ..RequestHeader::in_session(session, Sequence(sequence)) };
    request_frame(&ClientFrame::new(&header, body).unwrap().bytes)
}

/// A frame's header with one of its three lengths replaced.
fn with_length(offset: usize, length: u32) -> Vec<u8> {
    let mut bytes = stray_request(1, 1, b"body");
    bytes[offset..offset + 4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// What nobody sends who means well, by name. Each must cost its sender the connection.
fn hostile_frames() -> Vec<(String, Vec<u8>)> {
    let mut frames = Vec::new();
    for (field, offset) in [("length", 0), ("head length", 4), ("total length", 8)] {
        for length in [u32::MAX, i32::MIN as u32, i32::MAX as u32, 1 << 24, 0] {
            // A request has no head: that one is right.
            if (offset, length) != (4, 0) {
                frames.push((format!("{field} {length}"), with_length(offset, length)));
            }
        }
    }
    let mut flipped = stray_request(1, 1, b"body");
    *flipped.last_mut().unwrap() ^= 1;
    frames.push(("a wrong checksum".to_owned(), flipped));
    let mut promising = RequestHeader::open(1, false);
    promising.count = u32::MAX;
    let mut bytes = Vec::new();
    promising.encode(&mut bytes);
    frames.push(("four thousand million commands".to_owned(), request_frame(&bytes)));
    frames.push(("a request cut in its header".to_owned(), request_frame(&bytes[..bytes.len() - 1])));
    frames.push((
        "a replica's message".to_owned(),
        frame_with_head(Lane::Control, FrameKind::Message, b"vote for me", b""),
    ));
    frames.push(("another greeting".to_owned(), hello()));
    frames.extend((0..5).map(|seed| (format!("noise {seed}"), noise(seed, 4_096))));
    frames
}

#[test]
fn hostile_bytes_at_every_port_cost_their_sender_the_connection_and_nobody_else_anything() {
    let cluster = Cluster::start(3, &json!({ "handshake_timeout_ms": 1_000 }));
    let leader = cluster.leader();
    let load = load(&cluster, 6);
    wait_for_load(&cluster, leader);
    let trickling = trickle_at(cluster.port(leader));
    let half = &hello()[..15];
    for greets_first in [false, true] {
        for (name, bytes) in hostile_frames() {
            if !greets_first && name == "another greeting" {
                continue;
            }
            let mut stream = if greets_first {
                RawClient::greet(cluster.port(leader)).stream
            } else {
                connect(cluster.port(leader))
            };
            // The other side may close before everything is written.
            let _ = stream.write_all(&bytes);
            assert!(closed_by_the_other_side(&mut stream), "{name}, greeting first: {greets_first}");
        }
    }
    let mut silent = connect(cluster.port(leader));
    silent.write_all(half).unwrap();
    let mut mute = connect(cluster.port(leader));
    more_commands_than_the_frame_holds(&cluster, leader);
    strange_questions_at_the_status_port(&cluster, leader);
    assert!(closed_by_the_other_side(&mut silent), "half a greeting and then nothing");
    assert!(closed_by_the_other_side(&mut mute), "nothing at all");
    assert_memory_is_bounded(&cluster, 128 << 20);
    assert_unharmed(load.finish());
    assert!(trickling.join().unwrap(), "a greeting of one byte a second is cut off in its time");
    assert_eq!(number(&cluster, leader, "/waiting"), 0);
    assert_eq!(number(&cluster, leader, "/admitted_frames"), 0);
}

/// A greeting of one byte a second, beside everything else; gives whether it was cut off.
fn trickle_at(port: u16) -> thread::JoinHandle<bool> {
    let mut stream = connect(port);
    thread::spawn(move || {
        for byte in hello() {
            if stream.write_all(&[byte]).is_err() {
                return true;
            }
            thread::sleep(Duration::from_secs(1));
        }
        false
    })
}

fn more_commands_than_the_frame_holds(cluster: &Cluster, leader: u32) {
    let mut client = RawClient::greet(cluster.port(leader));
    let many = u32::try_from(limits::COMMANDS_PER_FRAME).unwrap();
    for (sequence, body) in [(1, &b""[..]), (2, &[0xff; 200][..])] {
        client.stream.write_all(&stray_request(sequence, many, body)).unwrap();
        let reply = client.reply();
        assert!(matches!(reply.status, Status::Invalid | Status::Expired), "{reply:?}");
        assert_eq!(reply.sequence, Sequence(sequence));
    }
}

fn strange_questions_at_the_status_port(cluster: &Cluster, leader: u32) {
    let mut others = Vec::new();
    let endless = [&b"GET /"[..], &vec![b'a'; 1 << 20]].concat();
    let promising = b"GET /status HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n".to_vec();
    for bytes in [noise(9, 4_096), endless, promising, b"GET /sta".to_vec(), Vec::new(), hello()] {
        for _ in 0..20 {
            let mut stream = connect(cluster.http_port(leader));
            let _ = stream.write_all(&bytes);
            others.push(stream);
        }
    }
    let before = Instant::now();
    assert_eq!(cluster.status(leader)["id"], leader);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

#[test]
fn two_thousand_idle_connections_at_the_limit_of_open_files_keep_neither_peers_nor_writers_nor_operators_out() {
    open_descriptors_allowed(3_000);
    let surroundings = Surroundings { descriptors: Some(1_024), ..Surroundings::default() };
    let cluster = Cluster::launch(3, &json!({}), surroundings);
    cluster.wait_for_a_leader();
    let leader = cluster.leader();
    let load = load(&cluster, 8);
    wait_for_load(&cluster, leader);
    let mut idle: Vec<TcpStream> = (0..1_000).filter_map(|_| RawClient::try_greet(cluster.port(leader))).collect();
    let let_in = idle.len();
    assert!((600..1_000).contains(&let_in), "{let_in} were let in: many, and not more than there is room for");
    idle.extend((0..1_000).map(|_| connect(cluster.port(leader))));
    wait_for_load(&cluster, leader);
    let open = cluster.descriptors(leader);
    assert!(open <= 1_000, "{open} of 1,024 are open: some are left for peers and operators");
    let peers = cluster.status(leader)["peers"].clone();
    assert!(peers.as_array().unwrap().iter().all(|peer| peer["connected"] == true), "{peers}");
    assert_memory_is_bounded(&cluster, MEMORY_BOUND);
    assert_unharmed(load.finish());
    drop(idle);
    cluster.wait_until("the idle ones are forgotten", |cluster| number(cluster, leader, "/clients") == 0);
    cluster.wait_until("their descriptors are closed", |cluster| cluster.descriptors(leader) < 100);
    assert_unharmed(self::load(&cluster, 1).finish());
}

#[test]
fn five_thousand_clients_that_ask_and_go_leave_nothing_behind() {
    let cluster = Cluster::start(3, &json!({}));
    let leader = cluster.leader();
    let port = cluster.port(leader);
    let ask_and_go = move |first: u64, count: u64| {
        for number in first..first + count {
            let mut stream = connect(port);
            let request = stray_request(number, 1, b"never read");
            stream.write_all(&[hello(), request].concat()).unwrap();
            if number % 2 == 0 {
                // The greeting is answered: the request behind it is being let in.
                stream.read_exact(&mut [0]).unwrap();
                thread::sleep(Duration::from_micros(300));
            }
        }
    };
    // What a process takes once, it has taken before it is measured.
    ask_and_go(0, 500);
    cluster.wait_until("the first are gone", |cluster| number(cluster, leader, "/clients") == 0);
    let before = number(&cluster, leader, "/process/resident_bytes");
    let asking: Vec<_> = (0..4).map(|part| thread::spawn(move || ask_and_go(500 + part * 1_250, 1_250))).collect();
    asking.into_iter().for_each(|part| part.join().unwrap());
    cluster.wait_until("everyone is gone and nothing waits", |cluster| {
        let status = cluster.status(leader);
        ["clients", "waiting", "admitted_frames", "admitted_bytes"].iter().all(|name| status[name] == 0)
    });
    let accepted = number(&cluster, leader, "/counters/requests_accepted");
    assert!(accepted > 1_000, "only {accepted} requests came in: too few to say anything");
    let after = number(&cluster, leader, "/process/resident_bytes");
    // The log keeps what went through it: a few hundred bytes for each.
    assert!(after < before + (16 << 20), "{} KiB before, {} KiB after", before >> 10, after >> 10);
    assert!(cluster.descriptors(leader) < 100);
    assert_unharmed(load(&cluster, 1).finish());
}

#[test]
fn a_client_that_never_reads_loses_its_own_connection_and_no_other() {
    let cluster = Cluster::start(3, &json!({}));
    let leader = cluster.leader();
    let load = load(&cluster, 5);
    wait_for_load(&cluster, leader);
    let mut client = RawClient::greet(cluster.port(leader));
    let session = client.open_session();
    let value = vec![7; 1 << 20];
    let put = Command::Put { key: b"large", value: &value };
    client.stream.write_all(&in_session(session, 1, put)).unwrap();
    assert_eq!(client.reply().status, Status::Ok);
    let clients = number(&cluster, leader, "/clients");
    let mut asked = 0;
    for sequence in 2..1_000 {
        if client.stream.write_all(&in_session(session, sequence, Command::Get { key: b"large" })).is_err() {
            break;
        }
        asked += 1;
        thread::sleep(Duration::from_millis(1));
    }
    assert!((30..990).contains(&asked), "cut off after {asked} answers of a mebibyte that nobody read");
    assert!(closed_by_the_other_side(&mut client.stream));
    cluster.wait_until("it is forgotten", |cluster| number(cluster, leader, "/clients") < clients);
    assert_memory_is_bounded(&cluster, MEMORY_BOUND);
    assert_unharmed(load.finish());
    assert_unharmed(self::load(&cluster, 1).finish());
}

fn in_session(session: SessionId, sequence: u64, command: Command<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    CommandWriter::new(&mut body).push(command);
    request_frame(&ClientFrame::new(&RequestHeader::in_session(session, Sequence(sequence)), &body).unwrap().bytes)
}

/// Two real replicas of three; the test plays the third, from forming on.
fn with_a_played_third() -> (Cluster, RawPeer, Vec<TcpStream>) {
    let surroundings = Surroundings { absent: [3].into(), ..Surroundings::default() };
    let cluster = Cluster::launch(3, &json!({}), surroundings);
    let peer = RawPeer::new(3, &cluster.file());
    let links = [1, 2].map(|to| peer.link(to, cluster.port(to))).into();
    cluster.wait_for_a_leader();
    (cluster, peer, links)
}

#[test]
fn a_member_whose_links_break_a_hundred_times_costs_no_descriptor_and_no_memory() {
    let (cluster, peer, links) = with_a_played_third();
    let load = load(&cluster, 5);
    wait_for_load(&cluster, 1);
    let before = [1, 2].map(|id| (cluster.descriptors(id), number(&cluster, id, "/process/resident_bytes")));
    drop(links);
    for _ in 0..100 {
        drop([1, 2].map(|to| peer.link(to, cluster.port(to))));
    }
    for (id, (descriptors, resident)) in (1..=2).zip(before) {
        cluster.wait_until("no descriptor is left over", |cluster| cluster.descriptors(id) <= descriptors);
        let now = number(&cluster, id, "/process/resident_bytes");
        // The load goes on meanwhile and fills the log.
        assert!(now < resident + (64 << 20), "replica {id}: {} KiB before, {} KiB now", resident >> 10, now >> 10);
    }
    assert_unharmed(load.finish());
    assert_unharmed(self::load(&cluster, 1).finish());
}

#[test]
fn hostile_bytes_from_a_member_cost_its_link_and_nobody_else_anything() {
    let (cluster, peer, links) = with_a_played_third();
    let load = load(&cluster, 4);
    wait_for_load(&cluster, 1);
    drop(links);
    let message = FrameKind::Message;
    let vote = frame_with_head(Lane::Control, message, &[0; 24], b"");
    let mut hostile = hostile_frames();
    hostile.retain(|(name, _)| name != "a replica's message");
    hostile.push(("a request".to_owned(), stray_request(1, 1, b"body")));
    hostile.push(("a message of no kind".to_owned(), frame_with_head(Lane::Control, message, &[0xff; 24], b"")));
    hostile.push(("a message in another lane".to_owned(), frame_with_head(Lane::Snapshot, message, &[1; 40], b"")));
    let entries = [&4_000_000_000_u32.to_le_bytes()[..], &noise(3, 400)].concat();
    hostile.push(("an append of noise".to_owned(), frame_with_head(Lane::Replication, message, &[2; 60], &entries)));
    hostile.push((
        "a promise of noise".to_owned(),
        frame_with_head(Lane::Acknowledgement, FrameKind::Promise, &noise(4, 90), b""),
    ));
    hostile.extend((0..20).map(|seed| {
        (format!("forming noise {seed}"), frame_with_head(Lane::Control, FrameKind::Forming, &noise(seed, 60), b""))
    }));
    hostile.push(("a vote cut short".to_owned(), vote[..vote.len() - 4].to_vec()));
    for (name, bytes) in hostile {
        let mut link = peer.link(1, cluster.port(1));
        let _ = link.write_all(&bytes);
        if name == "a vote cut short" {
            let _ = link.shutdown(std::net::Shutdown::Write);
        }
        assert!(closed_by_the_other_side(&mut link), "{name}");
    }
    assert_eq!(cluster.status(1)["stopped"], Value::Null);
    for id in [1, 2] {
        assert!(number(&cluster, id, "/process/resident_bytes") < 128 << 20);
    }
    assert_unharmed(load.finish());
    assert_unharmed(self::load(&cluster, 1).finish());
}
