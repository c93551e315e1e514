//! Descriptors stay bounded, and running out of them does not close the door. Alone in its process, since descriptors are counted.

mod common;

use common::{CLUSTER, Replica, bind, configuration, raw_peer, until};
use quorate_communicator::connect_client;
use rustix::process::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;
use std::time::Duration;

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a list of descriptors").count()
}

#[tokio::test]
async fn descriptors_stay_bounded_over_reconnects_and_when_they_run_out() {
    two_hundred_reconnects_leave_nothing().await;
    two_hundred_duplicates_leave_one().await;
    running_out_of_descriptors_is_survived().await;
}

async fn two_hundred_reconnects_leave_nothing() {
    let ((first_listener, first), (second_listener, second)) = (bind().await, bind().await);
    let mut quick = configuration(2, &[(1, &first)]);
    (quick.options.backoff_min, quick.options.backoff_max) = (Duration::from_micros(100), Duration::from_millis(1));
    let mut one = Replica::start(configuration(1, &[(2, &second)]), first_listener);
    let mut two = Replica::start(quick, second_listener);
    let (_, mut link) = two.connected(1).await;
    let before = open_descriptors();
    for _ in 0..200 {
        two.communicator.disconnect_now(quorate_framework::ReplicaId(1), link);
        link = two.connected(1).await.1;
    }
    one.connected(2).await;
    until("the old connections to be gone", || open_descriptors() <= before).await;
}

async fn two_hundred_duplicates_leave_one() {
    let (listener, address) = bind().await;
    let mut one = Replica::start(configuration(1, &[(2, "127.0.0.1:1")]), listener);
    let before = open_descriptors();
    let mut diallers = Vec::new();
    for _ in 0..200 {
        diallers.push(raw_peer(&address, 2, 1, 5).await.0);
        one.connected(2).await;
    }
    // Each dialler still holds its own end; at the replica one connection is left.
    until("the losers to be closed", || open_descriptors() <= before + diallers.len() + 1).await;
}

async fn running_out_of_descriptors_is_survived() {
    let (listener, address) = bind().await;
    let replica = Replica::start(configuration(1, &[]), listener);
    let handle = replica.communicator.handle();
    let target: SocketAddr = address.parse().expect("an address");
    let sockets: Vec<Socket> =
        (0..20).map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket")).collect();
    let whole = getrlimit(Resource::Nofile);
    let mut few = whole;
    few.current = Some(open_descriptors() as u64 + 4);
    setrlimit(Resource::Nofile, few).expect("the soft limit can be lowered");
    for socket in &sockets {
        socket.connect(&target.into()).expect("the kernel takes it in");
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(handle.traffic().accepted < 20, "accept has failed for want of descriptors");
    setrlimit(Resource::Nofile, whole).expect("the soft limit can be raised again");
    until("the door to go on", || handle.traffic().accepted == 20).await;
    drop(sockets);
    connect_client(&address, Some(CLUSTER), Duration::from_secs(5)).await.expect("a client comes in");
}
