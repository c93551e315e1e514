//! The start of a replica from its data directory, and the making of a new one.

use crate::error::{RecoveryError, StorageError};
use crate::identity::{BootId, Identity};
use crate::log::Log;
use crate::metadata::{METADATA_FILE, METADATA_TEMPORARY, Metadata};
use crate::metadata_file;
use crate::pump::Pump;
use crate::read::{Directory, first_segment, read_directory};
use crate::report::RecoveryReport;
use crate::scan::FoundLog;
use crate::segment_files::{Owner, erase, open, remove, retire};
use crate::settings::{WalSettings, WalSync};
use crate::spares::{Spare, Spares};
use quorate_framework::vfs::Vfs;
use quorate_framework::{Incarnation, RandomSource, RecoverySpec};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Recovery of a replica whose protocol has the records `S`. What the protocols share is here; what differs is in `S`.
#[derive(Debug)]
pub struct RecoveryBase<S>(PhantomData<S>);

/// How a replica is started.
pub struct StartOptions {
    /// Who starts.
    pub identity: Identity,
    /// The boot of the machine.
    pub boot: BootId,
    /// Settings of the log.
    pub settings: WalSettings,
    /// Salts and incarnations are drawn from it.
    pub random: Box<dyn RandomSource>,
}

/// A replica that was read back, ready to go on. All of it is durable.
pub struct Recovered<S: RecoverySpec> {
    /// What the protocol starts from.
    pub state: S::State,
    /// The log, ready for the first ticket. [`Pump::metadata`] tells incarnation, start counter, members, snapshot and store generation.
    pub pump: Pump<S>,
    /// What was found and done.
    pub report: RecoveryReport,
}

impl<S: RecoverySpec> RecoveryBase<S> {
    /// Makes the data of a new replica, with a random incarnation: metadata and nothing else. Blocks for two syncs.
    ///
    /// # Errors
    /// [`RecoveryError::NotEmpty`] if the directory holds metadata or a segment; what the operating system says.
    pub fn init(vfs: &dyn Vfs, identity: &Identity, random: &mut dyn RandomSource) -> Result<Metadata, RecoveryError> {
        match vfs.open(Path::new(METADATA_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StorageError::io("opening", Path::new(METADATA_FILE))(error).into()),
            Ok(_) => return Err(RecoveryError::NotEmpty(PathBuf::from(METADATA_FILE))),
        }
        if let Some(path) = first_segment(vfs)? {
            return Err(RecoveryError::NotEmpty(path));
        }
        remove_unfinished_metadata(vfs)?;
        let metadata = Metadata::new(identity, Incarnation(random.next_u64()));
        metadata_file::replace(vfs, &metadata)?;
        Ok(metadata)
    }

    /// Reads a replica back: recovery steps 2 to 11 of docs/STORAGE-FORMAT.md. (Step 1, the lock, is [`crate::DirectoryVfs::open`].)
    /// Blocks for as long as reading the log takes. Any number of starts that are cut off anywhere lead to the same state.
    ///
    /// # Errors
    /// [`RecoveryError`]; nothing was changed, unless a write failed.
    pub fn open(vfs: Box<dyn Vfs>, options: StartOptions) -> Result<Recovered<S>, RecoveryError> {
        let started = Instant::now();
        let StartOptions { identity, boot, settings, mut random } = options;
        settings.check()?;
        let Directory { mut metadata, inventory, log, state, completion, carry, last_position } =
            read_directory::<S>(&*vfs, Some(&identity), &mut |_, _, _| {})?;
        let mut report = RecoveryReport {
            last_position,
            snapshot: metadata.snapshot.as_ref().map(|base| base.position),
            stopped_cleanly: metadata.stopped_cleanly,
            anomalies: completion.anomalies,
            ..RecoveryReport::default()
        };
        let owner = Owner::from(&identity);
        remove_unfinished_metadata(&*vfs)?;
        for path in &inventory.blank {
            remove(&*vfs, path)?;
        }
        let mut free: Vec<Spare> = Vec::new();
        for file in &inventory.free {
            let is_useful = file.length >= file.header.capacity
                && file.header.capacity == settings.segment_bytes
                && free.len() < settings.free_segments;
            if is_useful {
                free.push(Spare { path: file.path.clone(), capacity: file.header.capacity });
            } else {
                remove(&*vfs, &file.path)?;
            }
        }
        let spares =
            |free| Spares::new(owner, settings.segment_bytes, settings.free_segments, free, inventory.next_number);
        let log = match log {
            Some(found) => {
                let synced = cut(&*vfs, owner, &found).and_then(|freed| make_durable(&*vfs, &found).map(|()| freed));
                if synced.is_err() && !metadata.log_is_synced && !metadata.stopped_cleanly {
                    metadata_file::give_incarnation_up(&*vfs, &metadata);
                }
                free.extend(synced?.into_iter().filter(|spare| spare.capacity == settings.segment_bytes));
                count(&mut report, &found);
                Log::resume(&*vfs, owner, &settings, &found, carry, spares(free))?
            }
            None => {
                for file in &inventory.live {
                    remove(&*vfs, &file.path)?;
                }
                Log::create(&*vfs, owner, &settings, spares(free), &mut *random)?
            }
        };
        if must_change_incarnation(&metadata, boot) {
            report.incarnation_given_up = Some(metadata.incarnation);
            metadata.incarnation = Incarnation(random.next_u64());
            metadata.start_counter = 0;
            metadata.members = None;
        }
        let log_is_synced = settings.sync == WalSync::Always;
        let mut pump = Pump::new(vfs, random, settings, metadata, log);
        let present = pump.metadata().clone();
        // Before the log has groups, so that it is never found beside metadata that knows of no log.
        pump.begin(Metadata {
            start_counter: present.start_counter + 1,
            log_exists: true,
            boot,
            log_is_synced,
            stopped_cleanly: false,
            ..present
        })?;
        pump.complete(completion.records)?;
        report.duration = started.elapsed();
        Ok(Recovered { state, pump, report })
    }
}

/// Whether what was acknowledged may be gone: the log was not synced while it ran, and the machine was booted since.
fn must_change_incarnation(metadata: &Metadata, boot: BootId) -> bool {
    let same_boot = metadata.boot == boot && boot != BootId::default();
    !metadata.log_is_synced && !metadata.stopped_cleanly && !same_boot
}

fn remove_unfinished_metadata(vfs: &dyn Vfs) -> Result<(), RecoveryError> {
    let path = Path::new(METADATA_TEMPORARY);
    match vfs.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StorageError::io("removing", path)(error).into()),
        _ => Ok(()),
    }
}

/// Cuts the torn tail and frees what is no longer, or not yet, part of the log. Gives the segments that are free now.
fn cut(vfs: &dyn Vfs, owner: Owner, found: &FoundLog) -> Result<Vec<Spare>, StorageError> {
    let mut freed = Vec::new();
    for file in found.tail.later.iter().chain(&found.stale) {
        let capacity = file.header.capacity;
        if retire(vfs, owner, &file.path, capacity)? {
            freed.push(Spare { path: file.path.clone(), capacity });
        }
    }
    if let Some(last) = found.chain.last() {
        erase(vfs, &last.file.path, &found.tail.offsets)?;
    }
    Ok(freed)
}

/// After the death of the process, what was read may lie in the page cache only. Worse, after a failed sync the page cache may count
/// as clean what the disk never got, and a sync would not write it: so what no later group vouches for is written again first.
fn make_durable(vfs: &dyn Vfs, found: &FoundLog) -> Result<(), StorageError> {
    for (number, segment) in found.chain.iter().enumerate() {
        let path = &segment.file.path;
        let mut file = open(vfs, path)?;
        let mut bytes = Vec::new();
        for place in found.unvouched.iter().filter(|place| place.segment == number) {
            // The length was read, and fits the segment.
            bytes.resize(place.length as usize, 0);
            file.read_exact_at(&mut bytes, place.offset).map_err(StorageError::io("reading", path))?;
            file.write_all_at(&bytes, place.offset).map_err(StorageError::io("writing again", path))?;
        }
        file.sync_data().map_err(StorageError::io("syncing", path))?;
    }
    Ok(())
}

fn count(report: &mut RecoveryReport, found: &FoundLog) {
    report.records = found.records;
    report.groups = found.groups;
    report.segments = found.chain.len() as u64;
    report.bytes = found.bytes;
    report.torn_bytes_cut = found.tail.bytes;
}
