//! The world: replicas, network and clients on one virtual clock.

mod faults;

use crate::client::Client;
use crate::coverage::Coverage;
use crate::disk::Written;
use crate::event::{Agenda, Flight, Happening};
use crate::network::Network;
use crate::oracle::{Violation, check_bounds};
use crate::plan::{CrashMode, Plan};
use crate::process::Process;
use crate::protocol::{Moment, SimulatedProtocol, Watch};
use crate::random::SimulatedRandom;
use bytes::Bytes;
use quorate_framework::{
    ConnectionId, ExecutorCommand, FormingStatus, LinkId, Outcome, PeerFrame, ReplicaId, Status, Ticket, Time,
};
use quorate_node::driver::{Inbound, ReceivedFrame};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

/// Events kept for a report.
const LAST_EVENTS: usize = 60;
/// How long a replica takes to begin a turn after something came in.
const TURN_DELAY: (Duration, Duration) = (Duration::from_micros(1), Duration::from_micros(200));
/// How long a sync takes.
const SYNC_TIME: (Duration, Duration) = (Duration::from_micros(80), Duration::from_millis(4));
/// Pause between attempts to connect.
const CONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// The world.
pub struct World<P: SimulatedProtocol> {
    /// What it was drawn from.
    pub plan: Plan,
    /// The true time.
    pub now: Time,
    /// The replicas.
    pub processes: BTreeMap<ReplicaId, Process<P>>,
    /// The clients.
    pub clients: Vec<Client>,
    /// What was counted.
    pub coverage: Coverage,
    /// Whether the plan's faults are over.
    pub healed: bool,
    network: Network,
    agenda: Agenda,
    random: SimulatedRandom,
    watch: P::Watch,
    /// The event log, if it is wanted, or its last lines.
    log: VecDeque<String>,
    keep_all: bool,
    turns: u64,
}

impl<P: SimulatedProtocol> World<P> {
    /// The world of a plan. With `keep_all`, the whole event log is kept.
    #[must_use]
    pub fn new(plan: Plan, keep_all: bool) -> World<P> {
        let mut random = SimulatedRandom::new(plan.seed);
        let network = Network::new(random.fork(), plan.latency, plan.loss, plan.duplication);
        let processes = (1..=plan.replicas)
            .zip(plan.clock_rates.iter().copied().chain(std::iter::repeat(1_000)))
            .map(|(id, rate)| (ReplicaId(id), Process::new(ReplicaId(id), rate, random.fork())))
            .collect();
        let clients = (1..=plan.clients).map(|number| Client::new(number, &plan, random.fork())).collect();
        let mut world = World {
            now: Time(1_000_000),
            processes,
            clients,
            coverage: Coverage::default(),
            healed: false,
            network,
            agenda: Agenda::default(),
            random,
            watch: P::Watch::default(),
            log: VecDeque::new(),
            keep_all,
            turns: 0,
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for (at, fault) in self.plan.faults.clone() {
            self.agenda.add(self.now + at, Happening::Fault(fault));
        }
        let replicas: Vec<ReplicaId> = self.processes.keys().copied().collect();
        for replica in &replicas {
            self.start(*replica);
        }
        for number in 1..=self.plan.clients {
            self.agenda.add(self.now, Happening::Client(number));
        }
    }

    /// Lets the world run until `end`.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn run_until(&mut self, end: Time) -> Result<(), Violation> {
        while self.agenda.next_time().is_some_and(|at| at <= end) {
            let Some((at, happening)) = self.agenda.pop() else { break };
            self.now = self.now.max(at);
            self.happen(happening)?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// The event log: all of it, or its last lines.
    #[must_use]
    pub fn event_log(&self) -> String {
        self.log.iter().fold(String::new(), |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        })
    }

    fn note(&mut self, line: std::fmt::Arguments<'_>) {
        let mut text = String::new();
        if !self.keep_all && self.log.len() == LAST_EVENTS {
            text = self.log.pop_front().unwrap_or_default();
            text.clear();
        }
        let _ = write!(text, "{} {line}", self.now);
        self.log.push_back(text);
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::Turn(replica) => return self.turn(replica),
            Happening::Arrival(flight) => self.arrive(flight),
            Happening::Synced(replica, life, ticket) => return self.synced(replica, life, ticket),
            Happening::Connect(one, other) => self.connect(one, other),
            Happening::Noticed(own, other, link) => self.notice(own, other, link),
            Happening::Resume(replica) => {
                self.note(format_args!("{replica} goes on"));
                self.wake(replica);
            }
            Happening::Request(replica, connection, frame) => {
                self.push(replica, Inbound::ClientRequest { connection, frame });
            }
            Happening::Answer(reply) => {
                let number = reply.connection.0 as usize;
                self.coverage.count(reply_name(reply.header.status));
                if let Some(client) = self.clients.get_mut(number - 1) {
                    client.on_reply(self.now, &reply);
                    if let Some(complaint) = client.complaint.take() {
                        return Err(Violation::new("client", complaint));
                    }
                }
            }
            Happening::Client(number) => self.client_acts(number),
            Happening::Fault(fault) => return self.strike(&fault),
        }
        Ok(())
    }

    fn client_acts(&mut self, number: u32) {
        let now = self.now;
        let Some(client) = self.clients.get_mut(number as usize - 1) else { return };
        let (sent, again) = client.act(now);
        self.agenda.add(again, Happening::Client(number));
        for (replica, frame) in sent {
            if !self.random.chance(self.plan.loss) || self.healed {
                let at = now + self.random.duration_between(self.plan.latency.0, self.plan.latency.1);
                self.agenda.add(at, Happening::Request(replica, ConnectionId(u64::from(number)), frame));
            }
        }
    }

    /// Gives a running replica something, and a turn soon.
    fn push(&mut self, replica: ReplicaId, inbound: Inbound) {
        if let Some(running) = self.processes.get_mut(&replica).and_then(|process| process.running.as_mut()) {
            running.input.push(inbound);
            self.wake(replica);
        }
    }

    fn wake(&mut self, replica: ReplicaId) {
        let delay = self.random.duration_between(TURN_DELAY.0, TURN_DELAY.1);
        self.schedule_turn(replica, self.now + delay);
    }

    fn schedule_turn(&mut self, replica: ReplicaId, at: Time) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return };
        let at = process.paused_until.map_or(at, |until| at.max(until)).max(now);
        let Some(running) = process.running.as_mut() else { return };
        if running.turn_at.is_none_or(|turn_at| at < turn_at) {
            running.turn_at = Some(at);
            self.agenda.add(at, Happening::Turn(replica));
        }
    }

    fn turn(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        let paused = process.is_paused(now);
        let Some(running) = process.running.as_mut() else { return Ok(()) };
        if running.turn_at != Some(now) || paused {
            return Ok(());
        }
        running.turn_at = None;
        let local = process.clock.local(now);
        running.driver.turn(local, &mut running.input, &mut running.output);
        self.carry_out(replica)?;
        let Some(process) = self.processes.get(&replica) else { return Ok(()) };
        if let Some(running) = &process.running
            && let Some(deadline) = running.driver.next_deadline()
        {
            let at = process.clock.when(deadline).max(Time(now.0 + 1));
            self.schedule_turn(replica, at);
        }
        Ok(())
    }

    /// Carries out what a turn wants, in the order of the shell: frames, disk, execution, replies.
    fn carry_out(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        let life = process.life;
        let Some(running) = process.running.as_mut() else { return Ok(()) };
        let core = running.driver.core();
        let at = Moment { replica, life, now: self.now, members: self.plan.replicas as usize };
        let commands = std::mem::take(&mut running.output.commands);
        count_commands(&mut self.coverage, &commands);
        self.watch.after_turn(at, core, &commands)?;
        self.turns += 1;
        // A status costs as much as a turn; the states last for many turns.
        if self.turns.is_multiple_of(8) {
            self.watch.count_states(core, &mut self.coverage);
        }
        if let Some(reason) = &running.output.halt {
            return Err(Violation::new("halt", format!("replica {replica} stopped itself: {reason}")));
        }
        let frames = std::mem::take(&mut running.output.frames);
        let disconnect = std::mem::take(&mut running.output.disconnect);
        let records = std::mem::take(&mut running.output.records);
        let identity = std::mem::take(&mut running.output.identity);
        if !commands.is_empty() {
            let mut outcome = Outcome::default();
            running
                .executor
                .apply(commands, &mut outcome)
                .map_err(|error| Violation::new("executor", format!("replica {replica}: {error}")))?;
            running.driver.executed(outcome, &mut running.output);
        }
        let replies = std::mem::take(&mut running.output.replies);
        running.output.clear();
        let written = records.into_iter().map(|(ticket, record)| (ticket, Written::Record(record)));
        let identity = identity.into_iter().map(|(ticket, vector)| (ticket, Written::Vector(vector)));
        self.send(replica, frames)?;
        self.write(replica, written.chain(identity).collect());
        for order in disconnect {
            self.note(format_args!("{replica} drops its link to {}: {}", order.peer, order.reason));
            self.drop_side(replica, order.peer, order.link);
        }
        for reply in replies {
            if !self.random.chance(self.plan.loss) || self.healed {
                let at = self.now + self.random.duration_between(self.plan.latency.0, self.plan.latency.1);
                self.agenda.add(at, Happening::Answer(reply));
            }
        }
        Ok(())
    }

    fn send(&mut self, from: ReplicaId, frames: Vec<PeerFrame>) -> Result<(), Violation> {
        for frame in frames {
            let body = frame.encoded.body.concat();
            for to in &frame.to {
                let Some(link) = self.network.side(from, *to) else { continue };
                let flight = Flight {
                    from,
                    to: *to,
                    link,
                    lane: frame.lane,
                    class: frame.class,
                    head: frame.encoded.head.to_vec(),
                    body: body.clone(),
                };
                if self.plan.crash_mode == CrashMode::Durable
                    && let Some(process) = self.processes.get(&from)
                {
                    self.watch.before_sending(&process.disk, &flight)?;
                }
                let arrivals = self.network.arrivals(self.now, from, *to, link, frame.lane);
                self.coverage.count(match arrivals.len() {
                    0 => "message lost",
                    1 => "message delivered",
                    _ => "message repeated",
                });
                for at in arrivals {
                    self.agenda.add(at, Happening::Arrival(flight.clone()));
                }
            }
        }
        Ok(())
    }

    fn arrive(&mut self, flight: Flight) {
        if self.network.side(flight.to, flight.from) != Some(flight.link) {
            return;
        }
        self.note(format_args!(
            "{} to {}: {:?} {:?} {:02x?} +{}",
            flight.from,
            flight.to,
            flight.class,
            flight.lane,
            &flight.head[..flight.head.len().min(24)],
            flight.body.len()
        ));
        let frame = ReceivedFrame {
            peer: flight.from,
            link: flight.link,
            lane: flight.lane,
            class: flight.class,
            head: Bytes::from(flight.head),
            body: Bytes::from(flight.body),
        };
        self.watch.heard(flight.to, flight.from, self.now);
        self.push(flight.to, Inbound::PeerFrame(frame));
    }

    fn write(&mut self, replica: ReplicaId, mut written: Vec<(Ticket, Written<P::Core>)>) {
        written.sort_by_key(|(ticket, _)| *ticket);
        let Some(process) = self.processes.get_mut(&replica) else { return };
        written.into_iter().for_each(|(ticket, written)| process.disk.write(ticket, written));
        self.sync(replica);
    }

    /// Starts a sync of everything written, unless one is under way.
    fn sync(&mut self, replica: ReplicaId) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return };
        let Some(last) = process.disk.last_pending() else { return };
        let Some(running) = process.running.as_mut().filter(|running| !running.is_syncing) else { return };
        running.is_syncing = true;
        let mut time = process.random.duration_between(SYNC_TIME.0, SYNC_TIME.1);
        if let Some((extra, _)) = process.slow_disk.filter(|(_, until)| now < *until) {
            time += extra;
        }
        self.agenda.add(now + time, Happening::Synced(replica, process.life, last));
    }

    fn synced(&mut self, replica: ReplicaId, life: u64, ticket: Ticket) -> Result<(), Violation> {
        let Some(process) = self.processes.get_mut(&replica).filter(|process| process.life == life) else {
            return Ok(());
        };
        let Some(running) = process.running.as_mut() else { return Ok(()) };
        process
            .disk
            .synced(ticket)
            .map_err(|error| Violation::new("records", format!("replica {replica}: {error}")))?;
        running.input.persisted = Some(ticket);
        running.is_syncing = false;
        self.wake(replica);
        self.sync(replica);
        Ok(())
    }

    fn start(&mut self, replica: ReplicaId) {
        let Some(process) = self.processes.get_mut(&replica) else { return };
        process.start(&self.plan);
        let (life, incarnation) = (process.life, process.disk.incarnation);
        self.note(format_args!("{replica} starts, life {life}, incarnation {incarnation}"));
        self.wake(replica);
        let others: Vec<ReplicaId> = self.processes.keys().copied().filter(|other| *other != replica).collect();
        for other in others {
            self.connect_soon(replica, other);
        }
    }

    fn connect_soon(&mut self, one: ReplicaId, other: ReplicaId) {
        let pause = self.random.duration_between(CONNECT_PAUSE.0, CONNECT_PAUSE.1);
        self.agenda.add(self.now + pause, Happening::Connect(one, other));
    }

    fn connect(&mut self, one: ReplicaId, other: ReplicaId) {
        let (Some(first), Some(second)) = (self.processes.get(&one), self.processes.get(&other)) else { return };
        let (Some(a), Some(b)) = (&first.running, &second.running) else { return };
        if self.network.is_whole(one, other) {
            return;
        }
        let claims = (a.driver.forming().claim(), b.driver.forming().claim());
        if first.is_paused(self.now) || second.is_paused(self.now) {
            return self.connect_soon(one, other);
        }
        let Some(link) = self.network.connect(one, other) else { return self.connect_soon(one, other) };
        self.note(format_args!("{one} and {other} connect, link {}", link.0));
        self.push(one, Inbound::PeerConnected { peer: other, link, claim: claims.1 });
        self.push(other, Inbound::PeerConnected { peer: one, link, claim: claims.0 });
        self.network.forget_old_links();
    }

    /// A side's connection is gone, and it knows.
    fn drop_side(&mut self, own: ReplicaId, other: ReplicaId, link: LinkId) {
        if self.network.side(own, other) == Some(link) {
            self.network.close_side(own, other);
            self.push(own, Inbound::PeerDisconnected { peer: other, link });
            self.connect_soon(own, other);
        }
    }

    fn notice(&mut self, own: ReplicaId, other: ReplicaId, link: LinkId) {
        self.note(format_args!("{own} notices that its link {} to {other} is gone", link.0));
        self.drop_side(own, other, link);
    }

    /// The bound replicas that run and can keep up: those whose word counts and whom the log can still reach.
    #[must_use]
    pub fn able(&self) -> Vec<ReplicaId> {
        let statuses: Vec<_> =
            self.processes.values().filter_map(|process| Some(process.running.as_ref()?.driver.status())).collect();
        let stuck: Vec<ReplicaId> = statuses
            .iter()
            .filter(|status| status.protocol.role == "leader")
            .flat_map(|status| &status.protocol.peers)
            .filter(|peer| peer.state == "needs_snapshot")
            .map(|peer| peer.id)
            .collect();
        let formed = statuses.iter().filter(|status| status.forming == FormingStatus::Formed);
        formed.map(|status| status.replica).filter(|replica| !stuck.contains(replica)).collect()
    }

    /// Checks the bounds of every replica.
    ///
    /// # Errors
    /// A [`Violation`].
    pub fn check_bounds(&self) -> Result<(), Violation> {
        for running in self.processes.values().filter_map(|process| process.running.as_ref()) {
            let own = self.plan.log_memory_bytes + running.recovered_log_bytes;
            check_bounds(&running.driver.status(), own)?;
        }
        Ok(())
    }
}

fn reply_name(status: Status) -> &'static str {
    match status {
        Status::Ok => "reply: ok",
        Status::NotLeader => "reply: not leader",
        Status::Busy => "reply: busy",
        Status::Unknown => "reply: unknown",
        Status::Expired => "reply: expired",
        _ => "reply: other",
    }
}

/// Counts what the executor is told beside plain execution.
fn count_commands(coverage: &mut Coverage, commands: &[ExecutorCommand]) {
    for command in commands {
        match command {
            ExecutorCommand::Speculate { .. } => coverage.count("executor: speculated"),
            ExecutorCommand::Rollback { .. } => coverage.count("executor: rolled back"),
            _ => {}
        }
    }
}
