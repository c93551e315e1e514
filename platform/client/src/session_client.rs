//! The client on sockets: everything runs in the task that calls it, with no task, channel or lock of its own on the way of a request.

use crate::engine::{Engine, Output};
use crate::options::{ClientOptions, OptionsError};
use crate::outcome::{ClientCounters, ClientEvent};
use crate::request::LinkId;
use bytes::Bytes;
use quorate_communicator::{
    ClientReceiver, ClientSendError, ClientSender, ClientWelcome, HandshakeError, connect_client,
};
use quorate_framework::request::REQUEST_HEADER_BYTES;
use quorate_framework::{ReplicaId, ReplyHeader, limits};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::fmt::Write as _;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep_until};

/// Why no session could be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// The options make no sense.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Nobody opened the sessions in time.
    #[error("the cluster took no session within {:.1} s:{}", waited.as_secs_f64(), describe(replicas))]
    Unreachable {
        /// How long it was tried.
        waited: Duration,
        /// Each replica with its address and what is known of it.
        replicas: Vec<(ReplicaId, String, String)>,
    },
    /// The cluster will not have the session.
    #[error("the cluster does not open sessions for this client: {0}")]
    Refused(String),
}

fn describe(replicas: &[(ReplicaId, String, String)]) -> String {
    replicas.iter().fold(String::new(), |mut text, (id, address, state)| {
        let _ = write!(text, "\n  replica {id} at {address}: {state}");
        text
    })
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// There is no room for another request: take events first.
    #[error("the window is full")]
    WindowFull,
    /// No replica would accept it.
    #[error(
        "the request has {commands} commands in {bytes} bytes; {} commands and {} bytes are the most",
        limits::COMMANDS_PER_FRAME,
        FRAME_BYTES_MAX
    )]
    TooLarge {
        /// Its commands.
        commands: u32,
        /// Its bytes, header included.
        bytes: usize,
    },
}

/// Bytes of a request at most, its header included.
pub const FRAME_BYTES_MAX: usize = limits::PAYLOAD_BYTES;

type Dialled = (usize, Result<(ClientSender, ClientReceiver, ClientWelcome), HandshakeError>);

struct Connection {
    id: LinkId,
    sender: ClientSender,
    receiver: ClientReceiver,
    unflushed: bool,
}

/// A pipelining client: requests are submitted by the thousand and end in batches. It makes progress only inside
/// [`SessionClient::turn`].
pub struct SessionClient {
    engine: Engine,
    options: ClientOptions,
    connections: Vec<Connection>,
    dials: JoinSet<Dialled>,
    next_link: u64,
    replies: Vec<(ReplyHeader, Bytes)>,
    timer: Pin<Box<Sleep>>,
}

impl std::fmt::Debug for SessionClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SessionClient").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl SessionClient {
    /// Finds the leader and opens all sessions, within `time_limit`. Must be called in a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(options: ClientOptions, time_limit: Duration) -> Result<SessionClient, ConnectError> {
        options.check()?;
        let started = Instant::now();
        let engine = Engine::new(options.clone(), SmallRng::from_rng(&mut rand::rng()), started);
        let mut client = SessionClient {
            engine,
            options,
            connections: Vec::new(),
            dials: JoinSet::new(),
            next_link: 0,
            replies: Vec::new(),
            timer: Box::pin(sleep_until(started.into())),
        };
        let opened = tokio::time::timeout(time_limit, async {
            // What happens before the first request is of no interest to the user, except who leads.
            poll_fn(|context| {
                client.poll_until(context, |engine| engine.sessions_missing() == 0 || engine.open_failure().is_some())
            })
            .await;
        });
        let in_time = opened.await.is_ok();
        if let Some(reason) = client.engine.open_failure() {
            return Err(ConnectError::Refused(reason.to_owned()));
        }
        if !in_time {
            let replicas = client.states();
            return Err(ConnectError::Unreachable { waited: started.elapsed(), replicas });
        }
        Ok(client)
    }

    /// Requests that [`SessionClient::submit`] takes now.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.engine.capacity()
    }

    /// Requests in flight, those in a pause included.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    /// The replica that has last proven to lead.
    #[must_use]
    pub fn leader(&self) -> Option<ReplicaId> {
        self.engine.leader()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> ClientCounters {
        self.engine.counters()
    }

    /// Puts a batch of `count` encoded commands in flight under the caller's `number`. Nothing is written before the next
    /// [`SessionClient::turn`], so everything submitted in between leaves together.
    ///
    /// # Errors
    /// [`SubmitError`]: nothing was taken.
    pub fn submit(&mut self, number: u64, count: u32, body: &[u8]) -> Result<(), SubmitError> {
        self.submit_at(Instant::now(), number, count, body)
    }

    /// The same for one who submits many at a time and has read the clock for all of them: latencies and deadlines count from `now`.
    ///
    /// # Errors
    /// [`SubmitError`]: nothing was taken.
    pub fn submit_at(&mut self, now: Instant, number: u64, count: u32, body: &[u8]) -> Result<(), SubmitError> {
        let bytes = REQUEST_HEADER_BYTES + body.len();
        if bytes > FRAME_BYTES_MAX || count as usize > limits::COMMANDS_PER_FRAME {
            return Err(SubmitError::TooLarge { commands: count, bytes });
        }
        if self.engine.submit(now, number, count, body) { Ok(()) } else { Err(SubmitError::WindowFull) }
    }

    /// Writes what was submitted, waits until something has happened and appends it to `events`. Cancelling it loses nothing. Bodies
    /// are slices of the read buffer: copy what is kept, and drop the rest before the next turn.
    pub async fn turn(&mut self, events: &mut Vec<ClientEvent>) {
        poll_fn(|context| self.poll_until(context, Engine::has_events)).await;
        self.engine.take_events(events);
    }

    /// Ends everything in flight as not done or unknown and closes the connections.
    pub fn close(mut self, events: &mut Vec<ClientEvent>) {
        self.engine.close();
        self.engine.take_events(events);
    }

    /// Each replica with its address and what is known of it.
    #[must_use]
    pub fn states(&self) -> Vec<(ReplicaId, String, String)> {
        let mut states: Vec<_> = self
            .options
            .replicas
            .iter()
            .map(|replica| (replica.id, replica.address(), "answers, but no leader took a session".to_owned()))
            .collect();
        for (replica, state) in states.iter_mut().enumerate() {
            if !self.engine.was_reached(replica) {
                state.2 = "was not reached in time".to_owned();
            }
        }
        for (replica, error) in self.engine.dial_errors() {
            states[replica].2 = error.to_owned();
        }
        states
    }

    fn poll_until(&mut self, context: &mut Context<'_>, done: impl Fn(&Engine) -> bool) -> Poll<()> {
        loop {
            let now = Instant::now();
            self.engine.on_time(now);
            self.send(now);
            let mut progressed = self.poll_dials(context);
            progressed |= self.poll_connections(context);
            if done(&self.engine) {
                return Poll::Ready(());
            }
            if !progressed && !self.poll_timer(now, context) {
                return Poll::Pending;
            }
        }
    }

    /// Lets the engine send and dial, then writes each connection once.
    fn send(&mut self, now: Instant) {
        let mut wire = Wire { connections: &mut self.connections, dials: Vec::new() };
        self.engine.pump(now, &mut wire);
        for replica in wire.dials {
            let address = self.options.replicas[replica].address();
            let (cluster, limit) = (self.options.cluster, self.options.connect_timeout);
            self.dials.spawn(async move { (replica, connect_client(&address, cluster, limit).await) });
        }
        for connection in self.connections.iter_mut().filter(|connection| connection.unflushed) {
            connection.unflushed = false;
            connection.sender.flush();
        }
    }

    fn poll_dials(&mut self, context: &mut Context<'_>) -> bool {
        let mut progressed = false;
        while let Poll::Ready(Some(joined)) = self.dials.poll_join_next(context) {
            progressed = true;
            // A dial neither panics nor is aborted while its set lives.
            let Ok((replica, result)) = joined else { continue };
            let now = Instant::now();
            let expected = self.options.replicas[replica].id;
            match result {
                Ok((sender, receiver, welcome)) if welcome.replica == expected => {
                    let id = LinkId(self.next_link);
                    self.next_link += 1;
                    self.connections.push(Connection { id, sender, receiver, unflushed: false });
                    self.engine.link_up(now, id, replica);
                }
                Ok((_, _, welcome)) => {
                    let error = format!("replica {} answers there; check host and port", welcome.replica);
                    self.engine.dial_failed(now, replica, error);
                }
                Err(error) => self.engine.dial_failed(now, replica, error.to_string()),
            }
        }
        progressed
    }

    /// Makes one read on each connection that has something.
    fn poll_connections(&mut self, context: &mut Context<'_>) -> bool {
        let mut progressed = false;
        let mut place = 0;
        while let Some(connection) = self.connections.get_mut(place) {
            let id = connection.id;
            let read = pin!(connection.receiver.replies(&mut self.replies)).poll(context);
            match read {
                Poll::Pending => place += 1,
                Poll::Ready(Ok(())) => {
                    let now = Instant::now();
                    for (header, body) in self.replies.drain(..) {
                        self.engine.on_reply(now, id, &header, body);
                    }
                    (progressed, place) = (true, place + 1);
                }
                Poll::Ready(Err(reason)) => {
                    tracing::debug!(%reason, "a connection to the cluster ended");
                    self.connections.swap_remove(place);
                    self.engine.link_down(Instant::now(), id);
                    progressed = true;
                }
            }
        }
        progressed
    }

    /// Whether the engine's time has come; otherwise the task is woken then.
    fn poll_timer(&mut self, now: Instant, context: &mut Context<'_>) -> bool {
        let Some(wake) = self.engine.next_wake(now) else { return false };
        let wake = tokio::time::Instant::from_std(wake);
        // Re-arming costs; a timer that is early only makes one turn for nothing.
        if self.timer.is_elapsed() || self.timer.deadline() > wake {
            self.timer.as_mut().reset(wake);
        }
        self.timer.as_mut().poll(context).is_ready()
    }
}

struct Wire<'a> {
    connections: &'a mut Vec<Connection>,
    dials: Vec<usize>,
}

impl Output for Wire<'_> {
    fn send(&mut self, link: LinkId, frame: &Bytes) -> bool {
        let Some(connection) = self.connections.iter_mut().find(|connection| connection.id == link) else {
            return false;
        };
        match connection.sender.queue(frame) {
            Ok(()) => {
                connection.unflushed = true;
                true
            }
            // It is full, or closed: its end will be read in a moment.
            Err(ClientSendError::Queue(_)) => false,
            Err(ClientSendError::Wire(error)) => {
                debug_assert!(false, "a request is checked when it is submitted: {error}");
                false
            }
        }
    }

    fn dial(&mut self, replica: usize) {
        self.dials.push(replica);
    }
}
