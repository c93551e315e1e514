//! Rot: a synced bit that is not what was written any more.

use crate::random::SimulatedRandom;
use quorate_framework::RecoverySpec;
use quorate_framework::vfs::Vfs;
use quorate_recovery::dump;
use quorate_simulated_disk::SimulatedDisk;
use std::path::PathBuf;

/// Bytes of a segment before its first group.
const SEGMENT_HEADER_BYTES: u64 = 4_096;

/// What has rotted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rot {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// It hit what no later group vouches for, so that a start may take it for a torn tail.
    pub may_look_torn: bool,
}

/// Flips a bit somewhere on a disk that is at rest: its process is dead, and all of it is durable. None if nothing is there.
pub fn strike<R: RecoverySpec>(disk: &SimulatedDisk, random: &mut SimulatedRandom) -> Option<Rot> {
    let files = disk.list().ok()?;
    let files: Vec<&PathBuf> =
        files.iter().filter(|file| disk.contents(file).is_some_and(|bytes| !bytes.is_empty())).collect();
    let file = (*files.get(random.below(files.len() as u64) as usize)?).clone();
    let mut groups: Vec<(u64, u64)> = Vec::new();
    let copy = disk.copy(random.draw());
    let report = dump::<R>(&copy, None, &mut |record| {
        if record.file == file && groups.last().is_none_or(|(offset, _)| *offset != record.offset) {
            groups.push((record.offset, record.group));
        }
    });
    let vouched = report.map_or(0, |report| report.vouched_group);
    let length = disk.contents(&file)?.len() as u64;
    // A blow into the unused part of a segment says nothing; most are aimed at what is in use.
    let used = groups.last().map_or(length, |(offset, _)| (offset + 512).min(length));
    let reach = if random.chance(900) { used } else { length };
    let offset = random.below(reach);
    let hit = groups.iter().rev().find(|(begin, _)| *begin <= offset);
    let may_look_torn = offset >= SEGMENT_HEADER_BYTES && hit.is_some_and(|(_, group)| *group > vouched);
    disk.flip_bit(&file, offset, random.below(8) as u8);
    Some(Rot { file, offset, may_look_torn })
}
