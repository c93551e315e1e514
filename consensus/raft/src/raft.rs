//! The core: its state and the dispatch of events. What each event does stands in the modules `start`, `links`, `votes`, `append`
//! (follower), `replicate` (leader), `commit`, and those of snapshots; the change of roles in `role`.

use crate::durability::Durability;
use crate::election::LeaderElectionManager;
use crate::fetch::Fetch;
use crate::log::Log;
use crate::message::{RaftMessage, RaftPromise};
use crate::record::{HardState, RaftRecord};
use crate::role::Role;
use crate::settings::RaftSettings;
use crate::stall::HandedOut;
use crate::term::Term;
use quorate_framework::entry::Entry;
use quorate_framework::{
    Capabilities, ClientPolicy, Consensus, Effect, Effects, Event, HaltReason, Incarnation, Incoming, MemberVector,
    Operation, OperationError, OperationId, Position, ProtocolStatus, Refusal, ReplicaId, Time, TrustedLinks,
};
use std::collections::BTreeMap;

/// The effects of a Raft core.
pub(crate) type RaftEffects = Effects<Raft>;

/// Counters for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Counters {
    pub(crate) elections_started: u64,
    pub(crate) leaderships: u64,
    pub(crate) step_downs: u64,
    pub(crate) entries_appended: u64,
    pub(crate) groups_appended: u64,
    pub(crate) appends_sent: u64,
    pub(crate) probes_sent: u64,
    pub(crate) conflicts: u64,
    pub(crate) in_flight_timeouts: u64,
    pub(crate) refused_busy: u64,
    pub(crate) stall_step_downs: u64,
    pub(crate) term_anomalies: u64,
    pub(crate) snapshots_taken: u64,
    pub(crate) snapshots_offered: u64,
    pub(crate) snapshots_given_up: u64,
    pub(crate) snapshots_installed: u64,
    pub(crate) snapshots_not_fetched: u64,
}

/// One replica's Raft core.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Raft {
    pub(crate) settings: RaftSettings,
    pub(crate) replica: ReplicaId,
    /// The member list of the forming or of the snapshot, and those of the log by index; the last one counts.
    pub(crate) member_lists: Vec<(Position, MemberVector)>,
    pub(crate) hard_state: HardState,
    pub(crate) role: Role,
    pub(crate) leader: Option<ReplicaId>,
    pub(crate) manager: LeaderElectionManager,
    pub(crate) log: Log,
    pub(crate) durability: Durability,
    /// The largest index known to equal the log of this term's leader.
    pub(crate) verified: Position,
    pub(crate) commit: Position,
    /// Handed to the executor up to here.
    pub(crate) handed: Position,
    /// Executed up to here.
    pub(crate) executed: Position,
    /// Handed over without the log: what the executor's state held at the start, or a snapshot that was installed.
    pub(crate) handed_without_log: Position,
    /// Where the executor's state ended at the start, with the entry's term, until that entry is found to be committed.
    pub(crate) ahead: Option<(Position, Term)>,
    /// When what is not executed was handed over.
    pub(crate) executing: HandedOut<Position>,
    /// The last durable snapshot covers up to here.
    pub(crate) snapshot: Position,
    /// The durable log may have forgotten up to here.
    pub(crate) forgotten: Position,
    /// Operators that wait for a snapshot at this position or above.
    pub(crate) snapshot_operators: Vec<(OperationId, Position)>,
    /// The snapshot that is being fetched or installed.
    pub(crate) fetch: Option<Fetch>,
    /// Links that are up, with the peer's incarnation.
    pub(crate) links: BTreeMap<ReplicaId, Incarnation>,
    /// Whether the link to the leader was lost and not come up since: only then may this replica help to unseat it early.
    pub(crate) leader_link_lost: bool,
    pub(crate) counters: Counters,
    pub(crate) started: bool,
    pub(crate) halted: bool,
}

impl Raft {
    /// A core that waits for [`Event::Start`].
    #[must_use]
    pub fn new(settings: RaftSettings) -> Raft {
        let manager = LeaderElectionManager::new(Time::ZERO, settings.heartbeat_interval, settings.election_timeout, 0);
        Raft {
            settings,
            replica: ReplicaId(0),
            member_lists: Vec::new(),
            hard_state: HardState::default(),
            role: Role::Follower,
            leader: None,
            manager,
            log: Log::default(),
            durability: Durability::recovered(Position::ZERO),
            verified: Position::ZERO,
            commit: Position::ZERO,
            handed: Position::ZERO,
            executed: Position::ZERO,
            handed_without_log: Position::ZERO,
            ahead: None,
            executing: HandedOut::default(),
            snapshot: Position::ZERO,
            forgotten: Position::ZERO,
            snapshot_operators: Vec::new(),
            fetch: None,
            links: BTreeMap::new(),
            leader_link_lost: false,
            counters: Counters::default(),
            started: false,
            halted: false,
        }
    }

    /// The current term.
    #[must_use]
    pub fn term(&self) -> Term {
        self.hard_state.term
    }

    /// Whether this replica leads its term.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// The commit index.
    #[must_use]
    pub fn commit_index(&self) -> Position {
        self.commit
    }

    /// Index and term of the last entry.
    #[must_use]
    pub fn last_entry(&self) -> (Position, Term) {
        (self.log.last_index(), self.log.last_term())
    }

    /// The term of the entry at an index, if the log holds it.
    #[must_use]
    pub fn term_at(&self, index: Position) -> Option<Term> {
        self.log.term_at(index)
    }

    /// The entry at an index, if the log holds it.
    #[must_use]
    pub fn entry_at(&self, index: Position) -> Option<&Entry> {
        self.log.from(index).next().map(|(_, entry)| entry)
    }

    /// The index before the first entry that the log holds.
    #[must_use]
    pub fn base_index(&self) -> Position {
        self.log.base_index()
    }

    /// The bound members.
    pub(crate) fn members(&self) -> &MemberVector {
        static NONE: MemberVector = MemberVector::new();
        self.member_lists.last().map_or(&NONE, |(_, members)| members)
    }

    pub(crate) fn is_voter(&self, replica: ReplicaId) -> bool {
        self.members().contains_key(&replica)
    }

    pub(crate) fn halt(&mut self, effects: &mut RaftEffects, what: String) {
        self.halted = true;
        effects.push(Effect::Halt(HaltReason::Safety(what)));
    }

    fn on_message(
        &mut self,
        now: Time,
        from: ReplicaId,
        incoming: Incoming<RaftMessage, RaftPromise>,
        effects: &mut RaftEffects,
    ) {
        // Only current voters count, by the link's proven id; a message without a link is from an incarnation that is gone.
        if !self.is_voter(from) || from == self.replica || !self.links.contains_key(&from) {
            return;
        }
        match incoming {
            Incoming::Message(RaftMessage::Append(append)) => self.on_append(now, from, append, effects),
            Incoming::Message(RaftMessage::Heartbeat(heartbeat)) => self.on_heartbeat(now, from, heartbeat, effects),
            Incoming::Message(RaftMessage::InstallSnapshot(offer)) => {
                self.on_install_snapshot(now, from, offer, effects);
            }
            Incoming::Promise(RaftPromise::InstallSnapshotReply(reply)) => {
                self.on_install_reply(now, from, reply, effects);
            }
            Incoming::Message(RaftMessage::PreVote(request)) => self.on_pre_vote(now, from, request, effects),
            Incoming::Message(RaftMessage::PreVoteReply(reply)) => self.on_pre_vote_reply(now, from, reply, effects),
            Incoming::Promise(RaftPromise::RequestVote(request)) => self.on_request_vote(now, from, request, effects),
            Incoming::Promise(RaftPromise::VoteReply(reply)) => self.on_vote_reply(now, from, reply, effects),
            Incoming::Promise(RaftPromise::AppendReply(reply)) => self.on_append_reply(now, from, reply, effects),
            Incoming::Promise(RaftPromise::HeartbeatReply(reply)) => {
                self.on_heartbeat_reply(now, from, reply, effects);
            }
        }
    }

    fn on_tick(&mut self, now: Time, effects: &mut RaftEffects) {
        if self.is_leader() {
            self.lead(now, effects);
        } else if self.manager.election_is_due(now) {
            self.campaign(now, effects);
        }
    }

    /// Everything up to a position is executed; what the log need not hold any longer may go.
    pub(crate) fn on_executed(&mut self, position: Position) {
        self.executed = self.executed.max(position);
        self.executing.answered(position);
        self.trim_log(0);
    }

    fn on_persisted(&mut self, now: Time, effects: &mut RaftEffects) {
        match &self.role {
            Role::Candidate { .. } => self.count_own_vote(now, effects),
            Role::Leader(_) => self.advance_commit(effects),
            Role::Follower | Role::PreCandidate { .. } => {}
        }
    }
}

impl Consensus for Raft {
    type Message = RaftMessage;
    type Promise = RaftPromise;
    type Record = RaftRecord;
    type Verifier = TrustedLinks;

    const NAME: &'static str = "raft";

    fn on_event(&mut self, now: Time, event: Event<Raft>, effects: &mut RaftEffects) {
        if self.halted {
            return;
        }
        match event {
            Event::Start(start) => self.start(now, start, effects),
            Event::Message { from, message } => self.on_message(now, from, message.into_inner(), effects),
            Event::PeerUp { peer, incarnation } => self.on_peer_up(now, peer, incarnation, effects),
            Event::PeerDown { peer } => self.on_peer_down(now, peer, effects),
            Event::PeerAlive { peer } => self.on_peer_alive(now, peer, effects),
            Event::Propose(proposals) => self.on_propose(now, proposals, effects),
            Event::Read(reads) => {
                reads.into_iter().for_each(|read| effects.refuse(read.proposal, Refusal::Unsupported));
            }
            Event::Operate { id, operation: Operation::TakeSnapshot } => self.on_snapshot_wanted(id, effects),
            Event::Operate { id, .. } => {
                effects.push(Effect::Operated { id, result: Err(OperationError::Unsupported) });
            }
            Event::Persisted(ticket) => {
                self.durability.on_persisted(ticket);
                self.on_persisted(now, effects);
            }
            Event::Executed { position, .. } => self.on_executed(position),
            Event::Tick => self.on_tick(now, effects),
            Event::SnapshotDue => self.on_snapshot_due(effects),
            Event::SnapshotTaken { position, .. } => self.on_snapshot_taken(position, effects),
            Event::SnapshotNotTaken { position } => self.on_snapshot_not_taken(position, effects),
            Event::SnapshotReady { to, snapshot } => self.on_snapshot_ready(now, to, snapshot, effects),
            Event::SnapshotUnready { to } => self.on_snapshot_unready(now, to, effects),
            Event::SnapshotProgress { peer } => self.on_snapshot_progress(now, peer),
            Event::SnapshotFetched { id } => self.on_snapshot_fetched(id, effects),
            Event::SnapshotNotFetched { id } => self.on_snapshot_not_fetched(id, effects),
            Event::SnapshotInstalled { position } => self.on_snapshot_installed(position, effects),
            // Raft asks for no payload.
            Event::PayloadFetched { .. } => {}
        }
        self.note_handed_out(now);
    }

    fn next_deadline(&self) -> Option<Time> {
        if !self.started || self.halted {
            return None;
        }
        let manager = self.manager.next_deadline();
        Some(match &self.role {
            Role::Leader(leadership) => self.leader_deadline(leadership).min(manager),
            _ => manager,
        })
    }

    fn client_policy(&self) -> ClientPolicy {
        ClientPolicy::trusting()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { snapshots: self.settings.snapshots, ..Capabilities::default() }
    }

    fn verifier(&self) -> TrustedLinks {
        TrustedLinks
    }

    fn status(&self) -> ProtocolStatus {
        self.protocol_status()
    }

    fn validate(&self) -> Result<(), String> {
        self.check_invariants()
    }
}
