//! B100: the log about a trouble must not become the trouble. Alone in its process, since it listens to the whole log.

mod common;

use common::{Replica, bind, configuration, until};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_peer_that_stays_down_and_a_door_under_siege_cost_a_few_lines() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
    let (listener, address) = bind().await;
    let mut eager = configuration(2, &[(1, "127.0.0.1:1")]);
    (eager.options.backoff_min, eager.options.backoff_max) = (Duration::from_millis(1), Duration::from_millis(1));
    let replica = Replica::start(eager, listener);
    let handle = replica.communicator.handle();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(&address).await.expect("connected");
        stream.write_all(&[255; 40]).await.expect("written");
    }
    until("many failures", || handle.traffic().dials >= 100 && handle.traffic().refused == 100).await;
    let text = String::from_utf8(log.0.lock().clone()).expect("text");
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    assert_eq!(count("no connection"), 1, "{text}");
    assert_eq!(count("connection not accepted"), 4, "{text}");
    assert_eq!(text.lines().count(), 5, "{text}");
}
