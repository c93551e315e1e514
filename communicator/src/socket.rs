//! Options of every connection, at both ends.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

/// Between replicas: nothing waits to be joined with more, and a peer whose host is silent is noticed within about
/// `silence_timeout`, whether or not something is on its way to it.
pub(crate) fn prepare_peer(stream: &TcpStream, silence_timeout: Duration) -> io::Result<()> {
    prepare(stream, silence_timeout)?;
    let socket = SockRef::from(stream);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(silence_timeout))?;
    let _ = socket;
    Ok(())
}

/// To clients: the same without the time limit on what was not taken, since a client may be stopped for a while.
pub(crate) fn prepare_client(stream: &TcpStream) -> io::Result<()> {
    prepare(stream, Duration::from_secs(60))
}

fn prepare(stream: &TcpStream, silence_timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let quarter = (silence_timeout / 4).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new().with_time(quarter).with_interval(quarter).with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}
