//! What the tasks of a communicator share.

use crate::bounds::{CommunicatorOptions, LaneBound, UNFINISHED_REQUEST_BYTES};
use crate::budget::Budget;
use crate::frame::FrameKind;
use crate::handshake::{AboutPeer, Identity, Refusal, RefusalCode};
use crate::inbound::InboundLanes;
use crate::outbox::Outbox;
use crate::outgoing::Message;
use crate::reader::{Fill, FrameReader};
use crate::reason::DisconnectReason;
use crate::repeated_log::RepeatedLog;
use crate::traffic::TrafficCounters;
use crate::transfer::Transfers;
use bytes::Bytes;
use parking_lot::Mutex;
use quorate_framework::reply::REPLY_HEADER_BYTES;
use quorate_framework::{
    ConnectionId, Encoded, LOST_DATA, Lane, LinkId, MemberClaim, RandomSource, ReplicaId, ReplyHeader, Starts, limits,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::AbortHandle;

/// The node's own judgement of a peer's claim; the text goes to both sides' logs.
pub type Admission = dyn Fn(ReplicaId, &MemberClaim) -> Result<(), String> + Send + Sync;

/// What a log line that may repeat is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// A peer that cannot be reached or will not talk.
    Trouble(ReplicaId),
    /// A peer's comings and goings.
    Link(ReplicaId),
    /// Connections that ended in their handshake.
    Door,
    /// Errors of accept.
    Accept,
    /// Snapshots pulled from or by a peer.
    Transfer(ReplicaId),
}

impl Topic {
    fn lines_per_window(self) -> u32 {
        match self {
            Topic::Trouble(_) | Topic::Accept => 1,
            Topic::Link(_) | Topic::Door | Topic::Transfer(_) => 4,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) peers: HashMap<ReplicaId, (LinkId, Outbox)>,
    pub(crate) clients: HashMap<ConnectionId, Outbox>,
    /// Handshakes under way at the door, the oldest first.
    pub(crate) unfinished: VecDeque<(u64, AbortHandle)>,
    /// The task that accepts connections, while the door is open.
    pub(crate) door: Option<AbortHandle>,
    /// Peers that pull a snapshot from here.
    pub(crate) served: HashMap<ReplicaId, (u64, AbortHandle)>,
    /// The tasks that dial peers, and then read what they say.
    pub(crate) dialling: Vec<AbortHandle>,
    stopping: bool,
    last_number: u64,
}

impl Registry {
    /// Lets nobody in any more: no connection is accepted, no handshake ends in one.
    pub(crate) fn shut(&mut self) {
        self.stopping = true;
        self.door.take().into_iter().for_each(|door| door.abort());
        self.unfinished.drain(..).for_each(|(_, handshake)| handshake.abort());
        self.served.drain().for_each(|(_, (_, serving))| serving.abort());
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

pub(crate) struct Hub {
    pub(crate) identity: Identity,
    pub(crate) options: CommunicatorOptions,
    pub(crate) addresses: BTreeMap<ReplicaId, String>,
    pub(crate) claim: Mutex<MemberClaim>,
    pub(crate) admission: Mutex<Option<Arc<Admission>>>,
    pub(crate) inbound: Arc<InboundLanes>,
    pub(crate) counters: Arc<TrafficCounters>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) transfers: Transfers,
    /// Bytes of answers queued since what waits was last summed up.
    answers_queued: AtomicUsize,
    starts: Mutex<Starts>,
    random: Mutex<Box<dyn RandomSource>>,
    log: Mutex<HashMap<Topic, RepeatedLog>>,
    /// Why there is no connection to a member, as far as this side knows.
    trouble: Mutex<HashMap<ReplicaId, String>>,
}

impl Hub {
    pub(crate) fn new(
        identity: Identity,
        addresses: BTreeMap<ReplicaId, String>,
        claim: MemberClaim,
        options: CommunicatorOptions,
        inbound: Arc<InboundLanes>,
        random: Box<dyn RandomSource>,
    ) -> Hub {
        Hub {
            transfers: Transfers::new(&options),
            identity,
            options,
            addresses,
            claim: Mutex::new(claim),
            admission: Mutex::default(),
            inbound,
            counters: Arc::default(),
            budget: Budget::new(UNFINISHED_REQUEST_BYTES),
            registry: Mutex::default(),
            answers_queued: AtomicUsize::new(0),
            starts: Mutex::default(),
            random: Mutex::new(random),
            log: Mutex::default(),
            trouble: Mutex::default(),
        }
    }

    /// A line that may repeat: whether to write it, and what to add about those that were not written.
    pub(crate) fn log_line(&self, topic: Topic) -> Option<String> {
        self.log_line_if(topic, false)
    }

    /// The same for a line that, with `is_news`, says something else than the last of its topic.
    pub(crate) fn log_line_if(&self, topic: Topic, is_news: bool) -> Option<String> {
        let mut log = self.log.lock();
        let lines = log.entry(topic).or_insert_with(|| RepeatedLog::new(topic.lines_per_window()));
        let suppressed = lines.permit(Instant::now(), is_news)?;
        Some(if suppressed == 0 { String::new() } else { format!(" ({suppressed} more since the last such line)") })
    }

    /// Notes why there is no connection to a member; gives whether that is another reason than before.
    pub(crate) fn note_trouble(&self, peer: ReplicaId, reason: String) -> bool {
        if !self.identity.members.contains(&peer) {
            return false;
        }
        let mut trouble = self.trouble.lock();
        let is_news = trouble.get(&peer).is_none_or(|known| *known != reason);
        trouble.insert(peer, reason);
        is_news
    }

    pub(crate) fn trouble(&self, peer: ReplicaId) -> Option<String> {
        self.trouble.lock().get(&peer).cloned()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.registry.lock().stopping
    }

    /// The pause before the next attempt: half of `backoff` to all of it.
    pub(crate) fn jittered(&self, backoff: Duration) -> Duration {
        let nanos = u64::try_from(backoff.as_nanos()).unwrap_or(u64::MAX).max(2);
        Duration::from_nanos(nanos / 2 + self.random.lock().next_u64() % (nanos / 2))
    }

    pub(crate) fn about(&self) -> AboutPeer {
        self.identity.about(*self.claim.lock())
    }

    /// Judges what a peer claims, in either direction; the start counter last, since it is noted.
    pub(crate) fn admit(&self, peer: ReplicaId, about: &AboutPeer) -> Result<(), Refusal> {
        let admission = self.admission.lock().clone();
        if let Some(admission) = admission {
            let refused = |reason| Refusal { code: RefusalCode::NotAdmitted, reason };
            admission(peer, &about.claim).map_err(refused)?;
        }
        let claim = &about.claim;
        if !self.starts.lock().admit(peer, claim) {
            let reason = format!(
                "start {} of replica {peer}, incarnation {}, is not newer than another start of it that replica {} has seen: a copied \
                 or rolled-back data directory, and only the one of the latest start may go on; {LOST_DATA}",
                claim.start_counter, claim.incarnation, self.identity.replica
            );
            return Err(Refusal { code: RefusalCode::CopiedIncarnation, reason });
        }
        Ok(())
    }

    /// Makes a connection the peer's; an older one is closed. None if the communicator is stopping.
    pub(crate) fn register_peer(
        &self,
        peer: ReplicaId,
        about: &AboutPeer,
        half: OwnedWriteHalf,
    ) -> Option<(LinkId, Outbox)> {
        let outbox = Outbox::new(half, self.options.peer_outbox, Arc::clone(&self.counters));
        let mut registry = self.registry.lock();
        if registry.stopping {
            outbox.close(DisconnectReason::Stopping);
            return None;
        }
        let link = LinkId(registry.next_number());
        if let Some((_, old)) = registry.peers.insert(peer, (link, outbox.clone())) {
            old.close(DisconnectReason::Replaced);
        }
        self.trouble.lock().remove(&peer);
        self.inbound.peer_connected(peer, link, about.claim);
        if let Some(more) = self.log_line(Topic::Link(peer)) {
            tracing::info!(replica = %self.identity.replica, %peer, incarnation = %about.claim.incarnation, "connected{more}");
        }
        let noted = about.agreement.noted_differences(&self.identity.agreement);
        if !noted.is_empty()
            && let Some(more) = self.log_line(Topic::Link(peer))
        {
            let differences = crate::agreement::describe(&noted);
            tracing::warn!(replica = %self.identity.replica, %peer, "settings differ, which may be meant: {differences}{more}");
        }
        Some((link, outbox))
    }

    pub(crate) fn unregister_peer(&self, peer: ReplicaId, link: LinkId, outbox: &Outbox, reason: DisconnectReason) {
        outbox.close(reason.clone());
        let reason = outbox.closed().unwrap_or(reason);
        {
            let mut registry = self.registry.lock();
            if registry.peers.get(&peer).is_some_and(|(current, _)| *current == link) {
                registry.peers.remove(&peer);
            }
        }
        if let Some(more) = self.log_line(Topic::Link(peer)) {
            tracing::info!(replica = %self.identity.replica, %peer, "disconnected: {reason}{more}");
        }
        self.note_trouble_of_end(peer, &reason);
        self.inbound.peer_disconnected(peer, link, reason);
    }

    fn note_trouble_of_end(&self, peer: ReplicaId, reason: &DisconnectReason) {
        if *reason != DisconnectReason::Replaced {
            self.note_trouble(peer, reason.to_string());
        }
    }

    /// Counts a read, and whether to go on reading: not after an orderly end.
    pub(crate) async fn goes_on_after(&self, fill: Fill, reader: &mut FrameReader) -> Result<bool, DisconnectReason> {
        let bytes = if let Fill::Read { bytes, .. } = fill { bytes } else { 0 };
        self.counters.read(bytes, reader.take_empty_reads());
        match fill {
            Fill::Closed if reader.is_between_messages() => Ok(false),
            Fill::Closed => Err(DisconnectReason::Cut),
            Fill::Read { filled, .. } => {
                if filled {
                    // More is waiting: let the core and the other connections have their turn first.
                    tokio::task::yield_now().await;
                }
                Ok(true)
            }
        }
    }

    /// Takes a client's connection in. None if the communicator is stopping.
    pub(crate) fn register_client(&self, half: OwnedWriteHalf) -> Option<(ConnectionId, Outbox)> {
        let bounds = client_bounds(self.options.client_outbox);
        let outbox = Outbox::new(half, bounds, Arc::clone(&self.counters));
        let mut registry = self.registry.lock();
        // Others may have come in since this one was given its place.
        if registry.stopping || registry.clients.len() >= self.clients_limit() {
            outbox.close(DisconnectReason::Stopping);
            return None;
        }
        let connection = ConnectionId(registry.next_number());
        registry.clients.insert(connection, outbox.clone());
        self.inbound.client_connected(connection);
        Some((connection, outbox))
    }

    pub(crate) fn unregister_client(&self, connection: ConnectionId, outbox: &Outbox, reason: DisconnectReason) {
        outbox.close(reason);
        self.registry.lock().clients.remove(&connection);
        self.inbound.client_disconnected(connection);
    }

    /// Queues an answer to a client, a small one by copying, a large one shared. Gives whether it is the first since the last flush.
    /// [`Hub::bound_answers`] must follow.
    pub(crate) fn queue_reply(
        &self,
        outbox: &Outbox,
        header: &ReplyHeader,
        body: Bytes,
    ) -> Result<bool, DisconnectReason> {
        self.answers_queued.fetch_add(REPLY_HEADER_BYTES + body.len(), Ordering::Relaxed);
        let mut header_bytes = [0; REPLY_HEADER_BYTES];
        header.encode(&mut &mut header_bytes[..]);
        if body.len() < limits::SHARED_PAYLOAD_BYTES {
            return Ok(outbox.queue_small(Lane::Client, FrameKind::Reply, &[&header_bytes, &body])?);
        }
        let encoded = Encoded { head: Bytes::new(), body: vec![Bytes::copy_from_slice(&header_bytes), body] };
        Ok(outbox.queue(Message::new(Lane::Client, FrameKind::Reply, encoded)?)?)
    }

    /// Keeps what waits for all clients together within its bound. What waits is summed up only when so much was queued that it may
    /// have grown by a quarter of the bound.
    pub(crate) fn bound_answers(&self) {
        let bound = self.options.client_answers_bytes;
        if self.answers_queued.load(Ordering::Relaxed) <= bound / 4 {
            return;
        }
        self.answers_queued.store(0, Ordering::Relaxed);
        let registry = self.registry.lock();
        let mut waiting: Vec<(usize, &Outbox)> =
            registry.clients.values().map(|outbox| (outbox.waiting().1, outbox)).collect();
        let mut sum: usize = waiting.iter().map(|(bytes, _)| bytes).sum();
        if sum <= bound {
            return;
        }
        waiting.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
        for (bytes, outbox) in waiting {
            if sum <= bound {
                return;
            }
            outbox.close(DisconnectReason::AnswersFull(bytes));
            sum -= bytes;
        }
    }

    /// Whether there is room for one more client beside peers and handshakes.
    pub(crate) fn has_room_for_client(&self) -> bool {
        self.registry.lock().clients.len() < self.clients_limit()
    }

    fn clients_limit(&self) -> usize {
        let reserved = self.options.unfinished_handshakes + self.identity.members.len();
        self.options.connections.saturating_sub(reserved)
    }
}

/// The bounds of a client's connection: all it carries is in one lane.
pub(crate) fn client_bounds(bound: LaneBound) -> [LaneBound; 5] {
    [bound; 5]
}

/// The reading end of a connection in the hands of its task.
pub(crate) type ReadHalf = OwnedReadHalf;
