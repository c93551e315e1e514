//! What a disk must hold at any moment: copies of it lose power in every legal way, and a start of each is judged.

use super::World;
use crate::model::{Contents, Model};
use crate::oracle::Violation;
use crate::plan::{CrashMode, Plan};
use crate::process::{Process, executor_of, is_alive, wal_settings};
use crate::protocol::{RecordOf, SimulatedProtocol};
use quorate_framework::ReplicaId;
use quorate_recovery::{BootId, RecoveryBase, StartOptions};
use quorate_simulated_disk::{CrashPolicy, Fault, ImageLimits, SimulatedDisk, Torn, Trigger};

/// Of so many syncs one is checked against the worst power cut.
pub(super) const CHECKED_SYNCS: u64 = 40;
/// Of so many syncs one is looked into, operation by operation.
pub(super) const SYNCS_LOOKED_INTO: u64 = 150;
/// A disk up to this size is looked at as often as any other.
const FREELY_LOOKED_AT_BYTES: u64 = 512 << 10;
/// Disks that a power cut at one moment of such a sync may leave, of which each is started.
const IMAGES: usize = 6;

impl<P: SimulatedProtocol> World<P> {
    /// Between a write and its sync anything may survive, and a start must bear all of it.
    pub(super) fn check_torn(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        if !self.plan.log_is_synced || !is_looked_at(process, CHECKED_SYNCS) {
            return Ok(());
        }
        self.coverage.count("disk: checked against a torn write");
        let torn = if process.random.chance(500) { Torn::Pages } else { Torn::Sectors };
        let model = process.model.clone();
        check_cut(process, &model, &self.plan, CrashPolicy::Random(torn))
    }

    /// Between any two operations of a sync, changes of the metadata included, the power may be cut.
    pub(super) fn check_inside(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        let Some(recording) = process.disk.stop_recording() else { return Ok(()) };
        self.coverage.count("disk: checked inside a sync");
        let limits = ImageLimits { images_per_moment: IMAGES, torn: Torn::Pages, seed: process.random.draw() };
        let model = process.model.clone();
        for image in recording.crash_images(limits) {
            check_disk(process, &model, &self.plan, &image.disk, &image.describe())?;
        }
        Ok(())
    }

    /// What a start has found must be durable before anything is said.
    pub(super) fn check_started(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        if self.plan.crash_mode == CrashMode::InMemory || !self.plan.log_is_synced || !is_looked_at(process, 1) {
            return Ok(());
        }
        let model = process.model.clone();
        check_cut(process, &model, &self.plan, CrashPolicy::SyncedOnly)
    }
}

/// Whether this one of so many is looked at; of a large disk fewer, since each look costs as much as there is on it.
pub(super) fn is_looked_at<P: SimulatedProtocol>(process: &mut Process<P>, of: u64) -> bool {
    process.random.below(of) == 0 && process.random.below(1 + process.disk.used_bytes() / FREELY_LOOKED_AT_BYTES) == 0
}

/// What was reported must be there after a power cut, whatever that takes of the rest: a copy of the disk loses power.
pub(super) fn check_cut<P: SimulatedProtocol>(
    process: &mut Process<P>,
    model: &Model<RecordOf<P>>,
    plan: &Plan,
    policy: CrashPolicy,
) -> Result<(), Violation> {
    let copy = process.disk.copy(process.random.draw());
    copy.crash(policy);
    check_disk(process, model, plan, &copy, &format!("a power cut that kept {policy:?}"))
}

/// A start of a disk is judged, now and then after one that was cut off.
fn check_disk<P: SimulatedProtocol>(
    process: &mut Process<P>,
    model: &Model<RecordOf<P>>,
    plan: &Plan,
    copy: &SimulatedDisk,
    after: &str,
) -> Result<(), Violation> {
    if process.random.chance(500) {
        let operation = process.random.between(1, 40);
        copy.inject(Trigger::nth_of_all(operation), Fault::PowerCut(CrashPolicy::Random(Torn::Sectors)));
    }
    let failed = |what: String| Violation::new("worst cut", format!("replica {}: {what}", process.replica));
    let identity = process.identity();
    let mut open = || {
        let mut random = process.random.fork();
        let random = Box::new(move || random.draw());
        let options =
            StartOptions { identity: identity.clone(), boot: BootId::default(), settings: wal_settings(plan), random };
        let vfs = copy.mount();
        RecoveryBase::<RecordOf<P>>::open(Box::new(vfs.clone()), options).map(|recovered| (recovered, vfs))
    };
    let first = open().ok().filter(|(_, vfs)| is_alive(vfs));
    copy.disarm();
    let (recovered, vfs) = match first {
        Some(opened) => opened,
        None => open().map_err(|error| failed(error.to_string()))?,
    };
    let metadata = recovered.pump.metadata();
    executor_of(&vfs, metadata.snapshot.as_ref()).map_err(failed)?;
    let found = Contents {
        state: recovered.state.clone(),
        members: metadata.members.clone(),
        snapshot: metadata.snapshot.clone(),
    };
    match model.explain(&found, P::is_same) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(failed(format!(
            "a start after {after} finds {}, and {} is durable",
            P::describe(&found),
            P::describe(&model.durable)
        ))),
        Err(error) => Err(failed(error.to_string())),
    }
}
