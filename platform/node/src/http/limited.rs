//! A listener with a bounded number of connections, each with a bounded life: nobody keeps others out by saying nothing.

use axum::serve::Listener;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// Connections at a time; more wait in the operating system's queue.
pub(super) const CONNECTIONS: usize = 64;
/// How long a connection may wait for a request, in all.
const LIFE: Duration = if cfg!(test) { Duration::from_millis(2_500) } else { Duration::from_secs(10) };

/// The listener.
#[derive(Debug)]
pub(super) struct LimitedListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

impl LimitedListener {
    /// Bounds `listener`.
    pub(super) fn new(listener: TcpListener) -> LimitedListener {
        LimitedListener { listener, permits: Arc::new(Semaphore::new(CONNECTIONS)) }
    }
}

impl Listener for LimitedListener {
    type Io = LimitedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedStream, SocketAddr) {
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (LimitedStream { stream, end: Box::pin(sleep(LIFE)), _permit: permit }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct LimitedStream {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for LimitedStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
