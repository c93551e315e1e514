//! The world: replicas, network and clients on one virtual clock.

mod disk_checks;
mod execution;
mod faults;
mod lives;
mod snapshots;
mod storage;

use crate::client::Client;
use crate::coverage::Coverage;
use crate::event::{Agenda, Flight, Happening};
use crate::fault::{About, Fault};
use crate::network::Network;
use crate::oracle::{Violation, check_bounds};
use crate::plan::{CrashMode, Plan};
use crate::process::{Process, Running};
use crate::protocol::{Moment, SimulatedProtocol, Watch};
use crate::random::SimulatedRandom;
use bytes::Bytes;
use quorate_framework::{
    ClientReply, ConnectionId, Digest, ExecutorCommand, FormingStatus, FrameClass, PeerFrame, Position, ReplicaId,
    Status, Time,
};
use quorate_node::driver::{Inbound, ReceivedFrame, SnapshotEvent};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

/// Events kept for a report.
const LAST_EVENTS: usize = 60;
/// How long a replica takes to begin a turn after something came in.
const TURN_DELAY: (Duration, Duration) = (Duration::from_micros(1), Duration::from_micros(200));
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
    /// The digest of the state at a position, wherever one was computed, and by whom first.
    digests: BTreeMap<Position, (Digest, ReplicaId)>,
    /// Deaths that wait for a snapshot to be moved.
    traps: Vec<Fault>,
}

impl<P: SimulatedProtocol> World<P> {
    /// The world of a plan. With `keep_all`, the whole event log is kept.
    ///
    /// # Errors
    /// A [`Violation`] if its replicas cannot be made.
    pub fn new(plan: Plan, keep_all: bool) -> Result<World<P>, Violation> {
        let mut random = SimulatedRandom::new(plan.seed);
        let network = Network::new(random.fork(), plan.latency, plan.loss, plan.duplication);
        let rates = plan.clock_rates.iter().copied().chain(std::iter::repeat(1_000));
        let processes = (1..=plan.replicas)
            .zip(rates)
            .map(|(id, rate)| Ok((ReplicaId(id), Process::new(ReplicaId(id), &plan, rate, random.fork())?)))
            .collect::<Result<_, Violation>>()?;
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
            digests: BTreeMap::new(),
            traps: Vec::new(),
            plan,
        };
        world.begin()?;
        Ok(world)
    }

    fn begin(&mut self) -> Result<(), Violation> {
        for (at, fault) in self.plan.faults.clone() {
            self.agenda.add(self.now + at, Happening::Fault(fault));
        }
        let replicas: Vec<ReplicaId> = self.processes.keys().copied().collect();
        for replica in &replicas {
            self.start(*replica)?;
        }
        for number in 1..=self.plan.clients {
            self.agenda.add(self.now, Happening::Client(number));
        }
        Ok(())
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
            Happening::WalStep(replica, life) => return self.wal_step(replica, life),
            Happening::Reported(replica, life, ticket) => return self.reported(replica, life, ticket),
            Happening::Ended(replica, life) => self.ended(replica, life),
            Happening::SnapshotStep(replica, life) => self.snapshot_step(replica, life),
            Happening::Fetch(replica, life, id) => self.tend_fetch(replica, life, id),
            Happening::Load(replica, life, id) => return self.load(replica, life, id),
            Happening::ChunkAsked { by, of, id, offset } => self.serve_chunk(by, of, id, offset),
            Happening::ChunkServed { to, id, offset, served } => self.take_chunk(to, id, offset, served),
            Happening::Connect(one, other) => self.connect(one, other),
            Happening::Noticed(own, other, link) => self.notice(own, other, link),
            Happening::Resume(replica) => {
                self.note(format_args!("{replica} goes on"));
                self.wake(replica);
            }
            Happening::Request(replica, connection, frame) => {
                if self.keep_all {
                    let header = &frame.header;
                    self.note(format_args!(
                        "client {} asks {replica}: {} {}",
                        connection.0, header.session, header.sequence
                    ));
                }
                let is_listening = self.running_mut(replica).is_some();
                if let Some(client) = self.clients.get_mut(connection.0 as usize - 1).filter(|_| !is_listening) {
                    client.on_refused_connection(self.now, frame.header.sequence);
                }
                self.push(replica, Inbound::ClientRequest { connection, frame });
            }
            Happening::Answer(reply) => {
                let number = reply.connection.0 as usize;
                if self.keep_all {
                    let header = &reply.header;
                    self.note(format_args!(
                        "client {number} is told: {:?} {} {}",
                        header.status, header.session, header.sequence
                    ));
                }
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
        running.snapshots.before_turn(local, running.driver.is_started(), &mut running.input.snapshots);
        let is_installed = running.input.snapshots.iter().any(|event| matches!(event, SnapshotEvent::Installed(_)));
        if is_installed && running.wal.is_some() {
            process.arm(About::Reset);
        }
        if self.has_lost_power(replica) {
            return Ok(());
        }
        let Some(running) = self.running_mut(replica) else { return Ok(()) };
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

    /// Carries out what a turn wants, in the order of the shell: frames, disk, execution and snapshots, replies.
    fn carry_out(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        let unreported_for = process.model.waiting_for(now).unwrap_or_default();
        let life = process.life;
        let Some(running) = process.running.as_mut() else { return Ok(()) };
        let core = running.driver.core();
        let at = Moment { replica, life, now, members: self.plan.replicas as usize, unreported_for };
        count_commands(&mut self.coverage, &running.output.commands);
        self.watch.after_turn(at, core, &running.output.commands, &mut self.coverage)?;
        self.turns += 1;
        // A status costs as much as a turn; the states last for many turns.
        if self.turns.is_multiple_of(8) {
            self.watch.count_states(core, &mut self.coverage);
        }
        if let Some(reason) = &running.output.halt
            && !running.has_failed()
        {
            return Err(Violation::new("halt", format!("replica {replica} stopped itself: {reason}")));
        }
        let frames = std::mem::take(&mut running.output.frames);
        let disconnect = std::mem::take(&mut running.output.disconnect);
        self.send(replica, frames)?;
        self.disconnect(replica, disconnect);
        self.submit(replica)?;
        self.carry_out_tasks(replica);
        self.remake_snapshot(replica)?;
        self.execute(replica)?;
        self.name_snapshots(replica)?;
        let Some(running) = self.running_mut(replica) else { return Ok(()) };
        let replies = std::mem::take(&mut running.output.replies);
        running.output.clear();
        self.reply(replies);
        self.go_on_with_snapshots(replica);
        Ok(())
    }

    fn running_mut(&mut self, replica: ReplicaId) -> Option<&mut Running<P>> {
        self.processes.get_mut(&replica)?.running.as_mut()
    }

    /// The process of a life, if it still runs.
    fn running_in(&mut self, replica: ReplicaId, life: u64) -> Option<&mut Running<P>> {
        self.processes.get_mut(&replica).filter(|process| process.life == life)?.running.as_mut()
    }

    fn reply(&mut self, replies: Vec<ClientReply>) {
        for reply in replies {
            if !self.random.chance(self.plan.loss) || self.healed {
                let at = self.now + self.random.duration_between(self.plan.latency.0, self.plan.latency.1);
                self.agenda.add(at, Happening::Answer(reply));
            }
        }
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
                    self.watch.before_sending(&process.model.durable, &flight)?;
                    if flight.class == FrameClass::Promise && process.running.as_ref().is_some_and(Running::has_failed)
                    {
                        let what = format!("replica {from} promises something to {to} although its disk has failed");
                        return Err(Violation::new("failed disk", what));
                    }
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

    /// The bound replicas that run: those whose word counts.
    #[must_use]
    pub fn able(&self) -> Vec<ReplicaId> {
        let statuses = self.processes.values().filter_map(|process| Some(process.running.as_ref()?.driver.status()));
        statuses.filter(|status| status.forming == FormingStatus::Formed).map(|status| status.replica).collect()
    }

    /// The highest term or view that any replica knows.
    #[must_use]
    pub fn highest_view(&self) -> u64 {
        let running = self.processes.values().filter_map(|process| process.running.as_ref());
        running.map(|running| running.driver.status().protocol.view).max().unwrap_or(0)
    }

    /// Bytes in use on the fullest disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.processes.values().map(|process| process.disk.used_bytes()).max().unwrap_or(0)
    }

    /// How far a replica that runs has executed.
    #[must_use]
    pub fn executed(&self, replica: ReplicaId) -> Option<Position> {
        Some(self.processes.get(&replica)?.running.as_ref()?.executor.executed())
    }

    /// Checks the bounds of every replica.
    ///
    /// # Errors
    /// A [`Violation`].
    pub fn check_bounds(&self) -> Result<(), Violation> {
        for running in self.processes.values().filter_map(|process| process.running.as_ref()) {
            let own = self.plan.log_memory_bytes.saturating_add(self.plan.log_held_bytes) + running.recovered_log_bytes;
            check_bounds(&running.driver.status(), own)?;
        }
        self.check_snapshot_files()
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
