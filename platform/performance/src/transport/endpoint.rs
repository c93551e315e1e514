//! The two ends. Each works in turns as a replica's core does: takes what has come in, and sends what follows from it together.

use super::{TransportError, TransportPlan};
use crate::host::process_cpu;
use crate::recording::{latency_histogram, microseconds};
use bytes::Bytes;
use hdrhistogram::Histogram;
use quorate_communicator::{
    Agreement, CommunicatorConfiguration, CommunicatorHandle, CommunicatorOptions, Inbound, InboundLanes,
    TcpCommunicator,
};
use quorate_framework::{ClusterId, Encoded, FrameClass, Incarnation, Lane, MemberClaim, PeerFrame, ReplicaId};
use std::collections::VecDeque;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

/// Messages and bytes taken in a turn, as a replica's core takes them of its replication lane.
const TURN: (usize, usize) = (256, 1 << 20);
/// Time for the connection.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Nothing coming back for so long ends the experiment.
const STALL_TIME: Duration = Duration::from_secs(10);

/// One end before it is started.
pub(super) struct Endpoint {
    pub(super) replica: ReplicaId,
    pub(super) peer: ReplicaId,
    pub(super) listener: TcpListener,
    pub(super) peer_address: String,
}

/// What was measured.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) histogram: Histogram<u64>,
    pub(super) latency_sum: Duration,
    pub(super) length: Duration,
    pub(super) cpu: Duration,
    pub(super) socket_calls: u64,
    pub(super) frames: u64,
}

/// A running end.
struct Running {
    communicator: TcpCommunicator,
    inbound: Arc<InboundLanes>,
    peer: ReplicaId,
    taken: Vec<Inbound>,
    outgoing: Vec<PeerFrame>,
}

fn runtime() -> Result<Runtime, TransportError> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

impl Running {
    /// Starts an end and waits for the connection.
    async fn start(endpoint: Endpoint) -> Result<Running, TransportError> {
        let Endpoint { replica, peer, listener, peer_address } = endpoint;
        listener.set_nonblocking(true)?;
        let inbound = Arc::new(InboundLanes::default());
        let incarnation = u64::from(replica.0);
        let claim =
            MemberClaim { incarnation: Incarnation(incarnation), start_nonce: incarnation, ..MemberClaim::default() };
        let configuration = CommunicatorConfiguration {
            cluster: ClusterId([1; 16]),
            replica,
            peers: [(peer, peer_address)].into(),
            agreement: Agreement { consensus: "transport".to_owned(), ..Agreement::default() },
            claim,
            options: CommunicatorOptions::default(),
        };
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let random = Box::new(rand::random::<u64>);
        let communicator = TcpCommunicator::start(configuration, listener, Arc::clone(&inbound), random);
        let mut running = Running { communicator, inbound, peer, taken: Vec::new(), outgoing: Vec::new() };
        let connected = timeout(CONNECT_TIME, running.connected()).await;
        connected.map_err(|_| TransportError::NotConnected(CONNECT_TIME))?;
        Ok(running)
    }

    async fn connected(&mut self) {
        loop {
            self.inbound.drain_links(&mut self.taken);
            if self.taken.drain(..).any(|inbound| matches!(inbound, Inbound::PeerConnected { .. })) {
                return;
            }
            self.inbound.wait().await;
        }
    }

    /// Takes what has come in and gives whether more waits; an end of the connection is an error.
    fn take(
        &mut self,
        mut each: impl FnMut(Bytes, Bytes) -> Result<(), TransportError>,
    ) -> Result<bool, TransportError> {
        let more = self.inbound.drain(Lane::Replication, TURN.0, TURN.1, &mut self.taken);
        for inbound in self.taken.drain(..) {
            match inbound {
                Inbound::PeerFrame { head, body, .. } => each(head, body)?,
                Inbound::PeerDisconnected { reason, .. } => return Err(TransportError::Ended(reason.to_string())),
                _ => {}
            }
        }
        Ok(more)
    }
}

fn frame(to: ReplicaId, head: Bytes, body: Bytes) -> PeerFrame {
    let encoded = Encoded { head, body: vec![body] };
    PeerFrame { to: vec![to], lane: Lane::Replication, class: FrameClass::Message, encoded }
}

/// The far end: sends everything back until the connection ends, which is how it is told to.
pub(super) fn echo(endpoint: Endpoint, traffic: &Sender<CommunicatorHandle>) -> Result<(), TransportError> {
    runtime()?.block_on(async {
        let mut running = Running::start(endpoint).await?;
        if traffic.send(running.communicator.handle()).is_err() {
            return Ok(());
        }
        loop {
            let mut outgoing = std::mem::take(&mut running.outgoing);
            let peer = running.peer;
            // A head is a slice of the read buffer and must not be kept.
            let more = running.take(|head, body| {
                outgoing.push(frame(peer, Bytes::copy_from_slice(&head), body));
                Ok(())
            });
            let Ok(more) = more else { return Ok(()) };
            running.communicator.send_now(&mut outgoing);
            running.outgoing = outgoing;
            if more {
                tokio::task::yield_now().await;
            } else {
                running.inbound.wait().await;
            }
        }
    })
}

/// The near end: keeps so many messages on their way, and measures.
pub(super) fn exchange(
    endpoint: Endpoint,
    plan: &TransportPlan,
    far: &Receiver<CommunicatorHandle>,
) -> Result<Measured, TransportError> {
    runtime()?.block_on(async {
        let mut running = Running::start(endpoint).await?;
        // It connects when this end does, and ends without an answer only if it could not.
        let far = far.recv_timeout(CONNECT_TIME).map_err(|_| TransportError::Thread)?;
        let ends = [running.communicator.handle(), far];
        let mut exchange = Exchange::new(plan);
        let start = Instant::now();
        let (measure_from, end) = (start + plan.warm_up, start + plan.warm_up + plan.duration);
        let mut at_start = None;
        let mut watch = pin!(sleep(STALL_TIME));
        let mut last_seen = 0;
        exchange.send(&mut running, start);
        loop {
            let more = running.take(|head, body| exchange.came_back(&head, &body))?;
            let now = Instant::now();
            exchange.count(now);
            if at_start.is_none() && now >= measure_from {
                at_start = Some(Moment::now(now, &ends));
                exchange.begin();
            }
            if now >= end {
                let at_start = at_start.ok_or(TransportError::NoSamples)?;
                return Ok(exchange.measured(&at_start, &Moment::now(now, &ends)));
            }
            exchange.send(&mut running, now);
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                biased;
                () = running.inbound.wait() => {}
                () = &mut watch => {
                    if std::mem::replace(&mut last_seen, exchange.next_back) == exchange.next_back {
                        return Err(TransportError::Stalled(STALL_TIME));
                    }
                    watch.as_mut().reset(tokio::time::Instant::now() + STALL_TIME);
                }
            }
        }
    })
}

/// What both ends have used up to a moment.
struct Moment {
    at: Instant,
    cpu: Duration,
    socket_calls: u64,
    frames: u64,
}

impl Moment {
    fn now(at: Instant, ends: &[CommunicatorHandle; 2]) -> Moment {
        let mut traffic = ends[0].traffic();
        traffic += ends[1].traffic();
        let (socket_calls, frames) = (traffic.socket_calls(), traffic.peer_frames_written());
        Moment { at, cpu: process_cpu(), socket_calls, frames }
    }
}

/// The messages on their way; they come back in the order in which they were sent.
struct Exchange {
    body: Bytes,
    outstanding: usize,
    sent: VecDeque<Instant>,
    next_sent: u64,
    next_back: u64,
    /// Come back in this turn.
    back: usize,
    histogram: Histogram<u64>,
    latency_sum: Duration,
}

impl Exchange {
    fn new(plan: &TransportPlan) -> Exchange {
        Exchange {
            body: (0..plan.size_bytes).map(|number| number as u8).collect::<Vec<u8>>().into(),
            outstanding: plan.outstanding,
            sent: VecDeque::with_capacity(plan.outstanding),
            next_sent: 0,
            next_back: 0,
            back: 0,
            histogram: latency_histogram(),
            latency_sum: Duration::ZERO,
        }
    }

    fn send(&mut self, running: &mut Running, now: Instant) {
        while self.sent.len() < self.outstanding {
            let head = Bytes::copy_from_slice(&self.next_sent.to_le_bytes());
            running.outgoing.push(frame(running.peer, head, self.body.clone()));
            self.sent.push_back(now);
            self.next_sent += 1;
        }
        if !running.outgoing.is_empty() {
            running.communicator.send_now(&mut running.outgoing);
        }
    }

    fn came_back(&mut self, head: &[u8], body: &[u8]) -> Result<(), TransportError> {
        let expected = self.next_back;
        let wrong = |what| Err(TransportError::Wrong { expected, what });
        if head != expected.to_le_bytes() {
            return wrong("it has another number");
        }
        // Each of the first ones whole, of the others the length: comparing all would be most of the work.
        if body.len() != self.body.len() || (expected < 64 && body != self.body) {
            return wrong("it has another body");
        }
        self.next_back += 1;
        self.back += 1;
        Ok(())
    }

    /// Counts what has come back in this turn.
    fn count(&mut self, now: Instant) {
        for sent in self.sent.drain(..self.back) {
            let latency = now.saturating_duration_since(sent);
            self.histogram.saturating_record(microseconds(latency));
            self.latency_sum += latency;
        }
        self.back = 0;
    }

    /// Forgets the warm-up.
    fn begin(&mut self) {
        self.histogram.reset();
        self.latency_sum = Duration::ZERO;
    }

    fn measured(self, start: &Moment, end: &Moment) -> Measured {
        Measured {
            histogram: self.histogram,
            latency_sum: self.latency_sum,
            length: end.at - start.at,
            cpu: end.cpu.saturating_sub(start.cpu),
            socket_calls: end.socket_calls - start.socket_calls,
            frames: end.frames - start.frames,
        }
    }
}
