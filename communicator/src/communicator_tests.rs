use super::*;
use crate::client_connection::connect_client;
use crate::inbound::Inbound;
use quorate_framework::Incarnation;
use socket2::SockRef;
use std::time::Duration;
use tokio::net::TcpStream;

async fn start(replica: u32, peers: &[(u32, String)], listener: TcpListener) -> (TcpCommunicator, Arc<InboundLanes>) {
    let configuration = CommunicatorConfiguration {
        cluster: ClusterId([1; 16]),
        replica: ReplicaId(replica),
        peers: peers.iter().map(|(peer, address)| (ReplicaId(*peer), address.clone())).collect(),
        agreement: Agreement::default(),
        claim: MemberClaim { incarnation: Incarnation(u64::from(replica)), ..MemberClaim::default() },
        options: CommunicatorOptions::default(),
    };
    let inbound = Arc::new(InboundLanes::default());
    (TcpCommunicator::start(configuration, listener, Arc::clone(&inbound), Box::new(rand::random::<u64>)), inbound)
}

fn keepalive_s(stream: &TcpStream) -> u64 {
    let socket = SockRef::from(stream);
    assert!(stream.nodelay().expect("readable"), "nothing waits to be joined with more");
    assert!(socket.keepalive().expect("readable"));
    let retries = u64::from(socket.tcp_keepalive_retries().expect("readable"));
    let first = socket.tcp_keepalive_time().expect("readable").as_secs();
    first + retries * socket.tcp_keepalive_interval().expect("readable").as_secs()
}

#[tokio::test]
async fn both_ends_of_every_connection_send_at_once_and_notice_a_silent_host() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (one, inbound) = start(1, &[(2, "127.0.0.1:1".into())], listener).await;
    let (two, _) = start(2, &[(1, address.clone())], TcpListener::bind("127.0.0.1:0").await.unwrap()).await;
    let (sender, receiver, _) = connect_client(&address, None, Duration::from_secs(5)).await.unwrap();
    let mut items: Vec<Inbound> = Vec::new();
    while items.len() < 2 {
        inbound.wait().await;
        inbound.drain_links(&mut items);
    }
    let (here, there) = (one.hub.registry.lock(), two.hub.registry.lock());
    for outbox in [&here.peers[&ReplicaId(2)].1, &there.peers[&ReplicaId(1)].1] {
        assert_eq!(keepalive_s(outbox.stream()), 4);
        let user_timeout = SockRef::from(outbox.stream()).tcp_user_timeout().unwrap();
        assert_eq!(user_timeout, Some(Duration::from_secs(4)));
    }
    let accepted = here.clients.values().next().expect("one client");
    assert_eq!(keepalive_s(accepted.stream()), 60);
    assert_eq!(keepalive_s(receiver.half.as_ref()), 60);
    drop(sender);
}
