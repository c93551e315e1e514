//! What goes wrong: the kinds of faults, and how one is drawn.

use crate::random::SimulatedRandom;
use quorate_framework::ReplicaId;
use quorate_simulated_disk::{AfterFailedSync, CrashPolicy, Torn};
use std::time::Duration;

/// How a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process alone: what it has written can be read, and is as little durable as before.
    Kill,
    /// The machine loses power, and its disk keeps what was synced and of the rest this.
    PowerCut(Survivors),
}

/// What of the unsynced survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// Nothing.
    Nothing,
    /// Everything.
    Everything,
    /// Any pages, in any order.
    Pages,
    /// Any sectors, in any order.
    Sectors,
}

impl Survivors {
    /// The disk's name for it.
    #[must_use]
    pub fn policy(self) -> CrashPolicy {
        match self {
            Survivors::Nothing => CrashPolicy::SyncedOnly,
            Survivors::Everything => CrashPolicy::Everything,
            Survivors::Pages => CrashPolicy::Random(Torn::Pages),
            Survivors::Sectors => CrashPolicy::Random(Torn::Sectors),
        }
    }
}

/// What a replica must be about to do for a power cut to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Anything at all.
    Anything,
    /// To sync a group of the log.
    Sync,
    /// To make a snapshot durable that it took.
    Checkpoint,
    /// To check and load a snapshot that it fetched.
    Load,
    /// To name in the metadata a snapshot that it installs.
    Install,
    /// To reset its log, after the metadata name a snapshot that it installed.
    Reset,
    /// To start from its disk.
    Start,
}

/// A power cut before one of the next operations of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutSoon {
    /// From when on operations count.
    pub about: About,
    /// Before which of them; 1 is the first.
    pub operation: u64,
    /// What survives.
    pub survivors: Survivors,
}

/// An operation of a disk that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFailure {
    /// A write, with nothing or so many bytes of it done.
    Write(usize),
    /// A sync of a file, and what becomes of its pages.
    Sync(AfterFailedSync),
    /// A sync of the directory.
    SyncDirectory,
    /// A new file.
    Create,
    /// A new name.
    Rename,
}

/// Something that goes wrong, or right again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process dies. A dead one may lose power all the same.
    Crash(ReplicaId, Death),
    /// All processes lose power at once.
    CrashAll(Survivors),
    /// The process is stopped cleanly.
    Stop(ReplicaId),
    /// A dead process is started again.
    Restart(ReplicaId),
    /// The process dies and its data with it: what comes back is another incarnation.
    Wipe(ReplicaId),
    /// The process stands still, as by SIGSTOP.
    Pause(ReplicaId, Duration),
    /// What the first says to the second vanishes.
    CutOneWay(ReplicaId, ReplicaId),
    /// What the two say to each other vanishes.
    CutPair(ReplicaId, ReplicaId),
    /// The replicas fall into these and the others, and nothing passes between them.
    Split(Vec<ReplicaId>),
    /// Everything passes again.
    Heal,
    /// Whoever leads at that moment crashes.
    CrashLeader(Death),
    /// Whoever leads at that moment stands still.
    PauseLeader(Duration),
    /// Nothing passes to or from whoever leads at that moment, but for so many followers.
    IsolateLeader(u32),
    /// Both sides lose the connection.
    LoseConnection(ReplicaId, ReplicaId),
    /// Only the first side notices the loss; the other goes on speaking into the void.
    LoseConnectionOneSided(ReplicaId, ReplicaId),
    /// What the first says to the second takes this long, for a while.
    SlowLink(ReplicaId, ReplicaId, Duration),
    /// The replica's clock jumps ahead.
    ClockJump(ReplicaId, Duration),
    /// The replica's disk takes this long for each sync, for a while.
    SlowDisk(ReplicaId, Duration),
    /// Power is lost inside something that the replica does.
    CutSoon(ReplicaId, CutSoon),
    /// The n-th operation of this kind fails on the replica's disk.
    DiskFails(ReplicaId, DiskFailure, u64),
    /// The replica's disk has room for so many bytes more, until all faults end or it is restarted.
    DiskFull(ReplicaId, u64),
    /// Every operation of the replica's disk hangs.
    DiskHangs(ReplicaId, Duration),
    /// Every operation of the disk of whoever leads at that moment hangs.
    LeaderDiskHangs(Duration),
    /// The replica dies, and a synced bit of its disk flips.
    Rot(ReplicaId),
    /// Whoever fetches a snapshot dies, after so many more chunks were moved.
    CrashFetcher(Death, u32),
    /// Whoever serves a snapshot dies, after so many more chunks were moved.
    CrashServer(Death, u32),
}

impl Fault {
    /// The name under which it is counted.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Crash(_, Death::Kill) => "fault: kill",
            Fault::Crash(_, Death::PowerCut(Survivors::Nothing)) => "fault: power cut, synced only",
            Fault::Crash(_, Death::PowerCut(Survivors::Everything)) => "fault: power cut, everything",
            Fault::Crash(_, Death::PowerCut(Survivors::Pages)) => "fault: power cut, any pages",
            Fault::Crash(_, Death::PowerCut(Survivors::Sectors)) => "fault: power cut, any sectors",
            Fault::CrashAll(_) => "fault: power cut of all",
            Fault::Stop(_) => "fault: clean stop",
            Fault::Restart(_) => "fault: restart",
            Fault::Wipe(_) => "fault: wipe",
            Fault::Pause(..) => "fault: pause",
            Fault::CutOneWay(..) => "fault: cut one way",
            Fault::CutPair(..) => "fault: cut pair",
            Fault::Split(_) => "fault: split",
            Fault::Heal => "fault: heal",
            Fault::CrashLeader(_) => "fault: leader crashed",
            Fault::PauseLeader(_) => "fault: leader paused",
            Fault::IsolateLeader(_) => "fault: leader isolated",
            Fault::LoseConnection(..) => "fault: connection lost",
            Fault::LoseConnectionOneSided(..) => "fault: connection lost, one side",
            Fault::SlowLink(..) => "fault: slow link",
            Fault::ClockJump(..) => "fault: clock jump",
            Fault::SlowDisk(..) => "fault: slow disk",
            Fault::CutSoon(..) => "fault: power cut armed",
            Fault::DiskFails(..) => "fault: disk failure armed",
            Fault::DiskFull(..) => "fault: disk full",
            Fault::DiskHangs(..) => "fault: disk hangs",
            Fault::LeaderDiskHangs(_) => "fault: leader's disk hangs",
            Fault::Rot(_) => "fault: rot",
            Fault::CrashFetcher(..) => "fault: crash of a fetcher armed",
            Fault::CrashServer(..) => "fault: crash of a server armed",
        }
    }

    /// Whether it concerns a disk that keeps data: nothing happens with recovery off.
    #[must_use]
    pub fn needs_recovery(&self) -> bool {
        matches!(
            self,
            Fault::CrashAll(_)
                | Fault::CutSoon(..)
                | Fault::DiskFails(..)
                | Fault::DiskFull(..)
                | Fault::DiskHangs(..)
                | Fault::LeaderDiskHangs(_)
                | Fault::Rot(_)
                | Fault::SlowDisk(..)
                | Fault::Wipe(_)
        )
    }
}

impl Fault {
    /// Draws one for a cluster of so many replicas.
    #[must_use]
    pub fn draw(replicas: u32, random: &mut SimulatedRandom) -> Fault {
        let everyone: Vec<ReplicaId> = (1..=replicas).map(ReplicaId).collect();
        let one = random.choose(&everyone).unwrap_or_default();
        let others: Vec<ReplicaId> = everyone.iter().copied().filter(|other| *other != one).collect();
        let other = random.choose(&others).unwrap_or(one);
        let short = random.duration_between(Duration::from_millis(1), Duration::from_millis(3_000));
        match random.below(48) {
            0..=2 => Fault::Crash(one, draw_death(random)),
            3..=6 => Fault::Restart(one),
            7 if random.chance(300) => Fault::Wipe(one),
            7 | 8 => Fault::Pause(one, short),
            9 => Fault::CutOneWay(one, other),
            10 => Fault::CutPair(one, other),
            11 => {
                let side = everyone.iter().copied().filter(|_| random.chance(500)).collect();
                Fault::Split(side)
            }
            12..=14 => Fault::Heal,
            15 => Fault::LoseConnection(one, other),
            16 => Fault::LoseConnectionOneSided(one, other),
            17 => Fault::SlowLink(one, other, short / 4),
            18 => Fault::ClockJump(one, short),
            19 | 20 => Fault::CrashLeader(draw_death(random)),
            21 => Fault::PauseLeader(short),
            22..=24 => Fault::IsolateLeader(random.below(2) as u32),
            25 => Fault::SlowDisk(one, short / 4),
            26 if random.chance(500) => Fault::CrashAll(draw_survivors(random)),
            26 | 27 => Fault::Restart(one),
            28 => Fault::Stop(one),
            29..=31 => Fault::CutSoon(one, draw_cut(random)),
            32 | 33 => Fault::DiskFails(one, draw_failure(random), random.between(1, 12)),
            34 => Fault::DiskFull(one, random.below(100_000)),
            35 => Fault::DiskHangs(one, short * 2),
            36 => Fault::LeaderDiskHangs(short * 2),
            37 if random.chance(300) => Fault::Rot(one),
            37 | 38 => Fault::CrashFetcher(draw_death(random), random.between(1, 12) as u32),
            39 => Fault::CrashServer(draw_death(random), random.between(1, 12) as u32),
            40..=44 => Fault::CutSoon(one, draw_cut(random)),
            _ => Fault::Restart(one),
        }
    }
}

fn draw_survivors(random: &mut SimulatedRandom) -> Survivors {
    let all = [Survivors::Nothing, Survivors::Everything, Survivors::Pages, Survivors::Sectors];
    random.choose(&all).unwrap_or(Survivors::Nothing)
}

fn draw_death(random: &mut SimulatedRandom) -> Death {
    if random.chance(350) { Death::Kill } else { Death::PowerCut(draw_survivors(random)) }
}

fn draw_cut(random: &mut SimulatedRandom) -> CutSoon {
    let all = [
        About::Anything,
        About::Sync,
        About::Sync,
        About::Checkpoint,
        About::Load,
        About::Install,
        About::Install,
        About::Reset,
        About::Reset,
        About::Start,
    ];
    let about = random.choose(&all).unwrap_or(About::Anything);
    let most = match about {
        About::Sync | About::Install => 9,
        About::Reset => 3,
        _ => 24,
    };
    CutSoon { about, operation: random.between(1, most), survivors: draw_survivors(random) }
}

fn draw_failure(random: &mut SimulatedRandom) -> DiskFailure {
    let after = [AfterFailedSync::StillDirty, AfterFailedSync::MarkedClean, AfterFailedSync::Dropped];
    match random.below(7) {
        0 => DiskFailure::Write(0),
        1 => DiskFailure::Write(random.below(5_000) as usize),
        2..=3 => DiskFailure::Sync(random.choose(&after).unwrap_or(AfterFailedSync::StillDirty)),
        4 => DiskFailure::SyncDirectory,
        5 => DiskFailure::Create,
        _ => DiskFailure::Rename,
    }
}
