//! Recovery: the write-ahead log, the metadata file, and the start of a replica from them. The format, the commit point of each
//! operation and the recovery steps are in `docs/STORAGE-FORMAT.md`. Knows no protocol: `quorate-recovery-raft` and
//! `quorate-recovery-pbft` bring the records.
//!
//! # The order of calls
//!
//! A new replica, once: [`DirectoryVfs::open`], then [`RecoveryBase::init`]. A start:
//! ```text
//! let vfs = DirectoryVfs::open(path)?;                                  // locks the directory
//! let Recovered { state, pump, report } = RecoveryBase::<S>::open(Box::new(vfs), StartOptions { identity, boot: current_boot(), settings, random })?;
//! pump.metadata()                                                       // incarnation, start counter, members, snapshot, store generation
//! ```
//! **A node** gives the pump to a thread and hands over what a turn gathered, records and vectors together, in the order of their
//! tickets (they are one order, and a vector is a barrier in it):
//! ```text
//! let wal = WalWriterLoop::start(pump, FlushLinger::default(), |event| ...)?;   // told once per durable group; or wal.wait_for(ticket).await
//! wal.submit(&mut vec![Submission::record(ticket, record), Submission::metadata(ticket, MetadataChange::Members(vector))])?;
//! wal.pending_bytes()                                                   // for admission
//! wal.stop()?                                                           // clean; dropping it instead is a crash
//! ```
//! A checkpoint, or an installed snapshot, is a [`MetadataChange::Snapshot`] submitted with a driver's ticket after the snapshot is
//! durable; after an install the protocol's reset record follows with a higher ticket. Segments that are released go by themselves.
//!
//! **A simulator** keeps the pump and takes the steps itself; a crash may fall between any two (drop the pump, and open again):
//! ```text
//! pump.submit(Submission::record(ticket, record))?;
//! if let Some(group) = pump.take_group()? {       // none while a group is on its way
//!     let written = pump.write(group)?;           // bytes written, not durable
//!     let running = pump.sync_started(written);   // from here on time may pass
//!     let durable: Ticket = pump.sync(running)?;  // fsync, then the group's changes of metadata: Event::Persisted(durable)
//! }
//! pump.maintain()?                                // while pump.has_maintenance(): frees retired segments, prepares the next one
//! pump.stop()?                                    // clean
//! ```
//! [`Pump::run_group`] does all four at once. The first failure of any step is final: each later call gives it again.
//!
//! [`check`] and [`dump`] read a directory and change nothing.

mod base;
mod carry;
mod directory_vfs;
mod error;
mod format;
mod group;
mod identity;
mod inbox;
mod inspect;
mod inventory;
mod log;
mod metadata;
mod metadata_file;
mod progress;
#[cfg(test)]
mod progress_tests;
mod pump;
mod read;
mod replicated_settings;
mod report;
mod scan;
mod segment_files;
mod segment_header;
mod settings;
mod spares;
mod submission;
mod sync;
mod tail;
mod writer_loop;

pub use base::{Recovered, RecoveryBase, StartOptions};
pub use directory_vfs::{DirectoryVfs, current_boot};
pub use error::{RecoveryError, StorageError};
pub use group::RecordKind;
pub use identity::{BootId, Identity};
pub use inspect::{CheckReport, DumpedRecord, check, dump};
pub use log::LogCounters;
pub use metadata::{METADATA_FILE, Metadata, StoredRecord};
pub use metadata_file::load as read_metadata;
pub use progress::Persisted;
pub use pump::{Pump, RunningSync, TakenGroup, WrittenGroup};
pub use replicated_settings::{ReplicatedSettings, SettingDifference, describe_differences, setting_differences};
pub use report::RecoveryReport;
pub use settings::{
    FREE_SEGMENTS, GROUP_BYTES, GROUP_RECORDS, PENDING_BYTES, PENDING_SUBMISSIONS, RECORD_BYTES, SEGMENT_BYTES,
    WalSettings, WalSync,
};
pub use submission::{MetadataChange, Submission, WalItem};
pub use writer_loop::{FlushLinger, NoThread, SubmitError, WalEvent, WalFigures, WalWriterLoop};
