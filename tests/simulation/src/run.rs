//! One run: a stormy phase, a healed phase, and what must hold at the end.

use crate::coverage::Coverage;
use crate::oracle::{Violation, check_tokens};
use crate::plan::{CrashMode, Plan};
use crate::protocol::{SimulatedProtocol, SimulatedRaft};
use crate::world::World;
use quorate_framework::{Digest, ExecutorCommand, Outcome, Position, ReplicaId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often queues and memory are looked at.
const SLICE: Duration = Duration::from_millis(250);
/// How long clients go on after the faults.
const MORE_WORK: Duration = Duration::from_secs(1);
/// Within this time after the faults, everything under way must have ended, if a majority is able to.
const PROGRESS_BOUND: Duration = Duration::from_secs(30);
/// Time in which an idle cluster executes everything everywhere.
const SETTLE: Duration = Duration::from_secs(2);

/// What must have occurred at least once over a suite of runs.
pub const EXPECTED: [&str; 78] = [
    "fault: kill",
    "fault: power cut, synced only",
    "fault: power cut, everything",
    "fault: power cut, any pages",
    "fault: power cut, any sectors",
    "fault: power cut of all",
    "fault: power cut armed",
    "fault: clean stop",
    "fault: restart",
    "fault: wipe",
    "fault: pause",
    "fault: cut one way",
    "fault: cut pair",
    "fault: split",
    "fault: heal",
    "fault: leader crashed",
    "fault: leader paused",
    "fault: leader isolated",
    "fault: connection lost",
    "fault: connection lost, one side",
    "fault: slow link",
    "fault: clock jump",
    "fault: slow disk",
    "fault: disk failure armed",
    "fault: disk full",
    "fault: disk hangs",
    "fault: leader's disk hangs",
    "fault: rot",
    "fault: crash of a fetcher armed",
    "fault: crash of a server armed",
    "disk: power cut inside an operation",
    "disk: failed",
    "disk: full",
    "disk: a leader gave up because its disk hung",
    "disk: checked against the worst cut",
    "disk: checked against a torn write",
    "disk: checked inside a sync",
    "start: unreported records survived",
    "start: torn tail cut",
    "start: incarnation given up",
    "start: from a snapshot",
    "start: interrupted install finished",
    "start: cut off",
    "start: refused, rot",
    "start: refused, ill disk",
    "message lost",
    "message repeated",
    "role: follower",
    "role: pre-candidate",
    "role: candidate",
    "role: leader",
    "progress: probe",
    "progress: replicate",
    "progress: needs snapshot",
    "progress: snapshot",
    "snapshot: begun",
    "snapshot: asked for",
    "snapshot: fetch begun",
    "snapshot: chunk served",
    "snapshot: chunk out of place",
    "snapshot: gone",
    "snapshot: a newer one while one is served",
    "snapshot: loaded",
    "snapshot: installed, durable",
    "snapshot: installed, in memory",
    "snapshot: log forgotten",
    "snapshot: fetcher gone",
    "snapshot: server gone",
    "reply: ok",
    "reply: not leader",
    "reply: busy",
    "reply: unknown",
    "end: progress",
    "end: no majority able",
    "end: all equal",
    "end: digests compared",
    "mode: durable",
    "mode: in memory",
];

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The plan.
    pub plan: Plan,
    /// What was broken, if anything.
    pub violation: Option<Violation>,
    /// What was counted.
    pub coverage: Coverage,
    /// The last events, or all of them.
    pub event_log: String,
    /// Frames that clients were answered.
    pub frames_answered: u64,
    /// How much virtual time passed.
    pub virtual_time: Duration,
    /// The highest term or view at the end.
    pub highest_view: u64,
    /// Bytes in use on the fullest disk at the end.
    pub disk_bytes: u64,
}

/// Runs the plan of a seed.
#[must_use]
pub fn run_seed(seed: u64, replicas: u32, steps: u32, crash_mode: CrashMode) -> Report {
    run(Plan::draw(seed, replicas, steps, crash_mode), false)
}

/// Runs a plan with Raft. With `keep_all`, the report has the whole event log.
#[must_use]
pub fn run(plan: Plan, keep_all: bool) -> Report {
    run_protocol::<SimulatedRaft>(plan, keep_all)
}

/// Runs a plan with any protocol.
#[must_use]
pub fn run_protocol<P: SimulatedProtocol>(plan: Plan, keep_all: bool) -> Report {
    let mut world: World<P> = match World::new(plan.clone(), keep_all) {
        Ok(world) => world,
        Err(violation) => {
            return Report {
                plan,
                violation: Some(violation),
                coverage: Coverage::default(),
                event_log: String::new(),
                frames_answered: 0,
                virtual_time: Duration::ZERO,
                highest_view: 0,
                disk_bytes: 0,
            };
        }
    };
    world.coverage.count(match world.plan.crash_mode {
        CrashMode::Durable => "mode: durable",
        CrashMode::InMemory => "mode: in memory",
    });
    let violation = live(&mut world).err();
    Report {
        plan: world.plan.clone(),
        violation,
        event_log: world.event_log(),
        frames_answered: world.clients.iter().map(|client| client.frames_answered).sum(),
        virtual_time: world.now.since(Time::ZERO),
        highest_view: world.highest_view(),
        disk_bytes: world.disk_bytes(),
        coverage: world.coverage,
    }
}

fn live<P: SimulatedProtocol>(world: &mut World<P>) -> Result<(), Violation> {
    pass(world, world.plan.stormy_for)?;
    world.heal()?;
    pass(world, MORE_WORK)?;
    world.clients.iter_mut().for_each(|client| client.works = false);
    let deadline = world.now + PROGRESS_BOUND;
    if !until_idle(world, deadline)? {
        return no_progress(world, "requests are still under way");
    }
    let keys = written_keys(world);
    if let Some(reader) = world.clients.first_mut() {
        reader.to_read = keys;
    }
    let deadline = world.now + PROGRESS_BOUND;
    if !until_idle(world, deadline)? {
        return no_progress(world, "reads are still under way");
    }
    world.coverage.count("end: progress");
    let read = world.clients.first().map(|reader| reader.read.clone()).unwrap_or_default();
    check_tokens(&world.clients, &read)?;
    pass(world, SETTLE)?;
    until_equal(world)?;
    compare_digests(world)
}

/// Every replica that is able must come to where the others are, however far it was behind.
fn until_equal<P: SimulatedProtocol>(world: &mut World<P>) -> Result<(), Violation> {
    let deadline = world.now + PROGRESS_BOUND;
    loop {
        let able = world.able();
        if able.len() * 2 <= world.processes.len() {
            return Ok(());
        }
        let executed = able.iter().filter_map(|replica| world.executed(*replica));
        let executed: Vec<Position> = executed.collect();
        if executed.iter().all(|position| Some(position) == executed.first()) {
            world.coverage.count("end: all equal");
            return Ok(());
        }
        if world.now >= deadline {
            let what =
                format!("{PROGRESS_BOUND:?} after the last request replicas {able:?} have executed up to {executed:?}");
            return Err(Violation::new("equality", what));
        }
        pass(world, SLICE)?;
    }
}

fn pass<P: SimulatedProtocol>(world: &mut World<P>, time: Duration) -> Result<(), Violation> {
    let end = world.now + time;
    while world.now < end {
        let next = (world.now + SLICE).min(end);
        world.run_until(next)?;
        world.check_bounds()?;
    }
    Ok(())
}

fn until_idle<P: SimulatedProtocol>(world: &mut World<P>, deadline: Time) -> Result<bool, Violation> {
    while !world.clients.iter().all(crate::client::Client::is_idle) {
        if world.now >= deadline {
            return Ok(false);
        }
        pass(world, SLICE)?;
    }
    Ok(true)
}

/// No progress is a violation only if a majority was able to make it.
fn no_progress<P: SimulatedProtocol>(world: &mut World<P>, what: &str) -> Result<(), Violation> {
    let able = world.able();
    if able.len() * 2 > world.processes.len() {
        let what = format!("{what} {PROGRESS_BOUND:?} after the faults, though replicas {able:?} are able");
        return Err(Violation::new("progress", what));
    }
    world.coverage.count("end: no majority able");
    Ok(())
}

fn written_keys<P: SimulatedProtocol>(world: &World<P>) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> =
        world.clients.iter().flat_map(|client| client.tokens.values().map(|(key, _)| key.clone())).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Replicas that executed equally far must hold equal state.
fn compare_digests<P: SimulatedProtocol>(world: &mut World<P>) -> Result<(), Violation> {
    let mut digests: BTreeMap<Position, (Digest, ReplicaId)> = BTreeMap::new();
    for (replica, process) in &mut world.processes {
        let Some(running) = process.running.as_mut() else { continue };
        let mut outcome = Outcome::default();
        running
            .executor
            .apply(vec![ExecutorCommand::Digest], &mut outcome)
            .map_err(|error| Violation::new("executor", format!("replica {replica}: {error}")))?;
        let Some(digest) = outcome.digest else { continue };
        if let Some((other, at)) = digests.insert(outcome.executed, (digest, *replica)) {
            world.coverage.count("end: digests compared");
            if other != digest {
                let what = format!("replicas {at} and {replica} both executed up to {} and differ", outcome.executed);
                return Err(Violation::new("state-machine safety", what));
            }
        }
    }
    Ok(())
}
