//! A listener with a bounded number of connections, each with a bounded life: nobody keeps others out by saying nothing, nor by asking
//! and never reading the answer.

use axum::serve::Listener;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

/// Connections at a time; one more ends the oldest.
pub(crate) const CONNECTIONS: usize = 64;
/// How long a connection may live in all: longer than any answer takes.
const LIFE: Duration = Duration::from_secs(10);

/// The listener.
#[derive(Debug)]
pub(super) struct LimitedListener {
    listener: TcpListener,
    /// The connections that live, the oldest first; dropping one ends it.
    living: VecDeque<oneshot::Sender<()>>,
}

impl LimitedListener {
    /// Bounds `listener`.
    pub(super) fn new(listener: TcpListener) -> LimitedListener {
        LimitedListener { listener, living: VecDeque::new() }
    }
}

impl Listener for LimitedListener {
    type Io = LimitedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedStream, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        self.living.retain(|connection| !connection.is_closed());
        if self.living.len() >= CONNECTIONS {
            self.living.pop_front();
        }
        let (life, ended) = oneshot::channel();
        self.living.push_back(life);
        (LimitedStream { stream, end: Box::pin(sleep(LIFE)), ended, is_over: false }, address)
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
    /// Ready once the connection has to make room.
    ended: oneshot::Receiver<()>,
    is_over: bool,
}

impl LimitedStream {
    /// Fails once its life is over, and otherwise sees to it that the task is woken then.
    fn lives(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        // What was ready once must not be asked again.
        self.is_over = self.is_over
            || self.end.as_mut().poll(context).is_ready()
            || Pin::new(&mut self.ended).poll(context).is_ready();
        if self.is_over { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.lives(context)?;
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.lives(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
