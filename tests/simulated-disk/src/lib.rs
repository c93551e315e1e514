//! A disk in memory that loses, tears and refuses what real ones do, deterministic by seed.
//!
//! [`SimulatedDisk`] implements [`quorate_framework::vfs::Vfs`], so the shipped log and recovery run on it unchanged. It keeps apart what
//! a process reads (the page cache) from what is on the medium, and everything in between; [`SimulatedDisk::crash`] picks what survives.
//! [`Recording::crash_images`] does not pick: it makes every disk that a power cut at any moment of a recorded run may leave.
//!
//! # Modelled
//!
//! - **Writes** are in the page cache until a later `sync_data` of the file. Without one, a power cut leaves each page of 4 KiB, on its
//!   own and in no order, as it was after any of the writes since the last sync, or before all of them; with [`Torn::Sectors`] the same
//!   for each sector of 512 bytes.
//! - **Lengths** (growth by writing, `allocate`, truncation) are durable with `sync_data`; without, any length since the last sync may be
//!   found (of one growth over several pages the old, a middle and the new one), and where a file grew without its data, zeros. A
//!   truncation and the disappearance of what lay beyond are one.
//! - **Names**: a create, rename or removal is durable after a later `sync_directory`, and without it may be lost or kept by itself; only
//!   operations that share a name keep their order. So a synced file may vanish with its name, a rename may be found without the data
//!   of the file, and of two files created one after the other only the second. A rename is atomic.
//! - **A sync covers what was written when it was called**; what is written while it hangs is covered by the next one.
//! - **A kill** ([`SimulatedDisk::kill`]) loses nothing and makes nothing durable. Handles end with their process.
//! - **A failed sync** leaves pages dirty, or clean though never written, or thrown away ([`AfterFailedSync`]); names likewise.
//! - **Errors** of the n-th operation of a kind, of all kinds, on a name ([`Trigger`], [`Fault`]); writes that arrive in part; a disk that
//!   is full, where a write or an allocation arrives as far as there is room; unreadable sectors; flipped bits; operations that hang.
//! - **A lying disk**: syncs of files or of the directory that do nothing. A test of durability must fail on it.
//!
//! # Not modelled
//!
//! - Directories inside the directory, links, permissions, times, locks between processes.
//! - A rename that is not atomic, sectors torn inside, misdirected writes, stale data of other files in a file that grew, bytes beyond the
//!   end that come to light later.
//! - What one file system promises beyond the above: that a new file's sync makes its name durable, that a rename over a file writes
//!   the data first, that the journal keeps all metadata in order. Who relies on that fails here.
//! - A failed sync that wrote some pages before it failed: with `StillDirty` a power cut may keep any of them, with the others it keeps none.
//! - Sparse files: capacity counts a file's length in whole pages. Names and metadata take no room.
//! - Time: operations are instant or hang. A page with more than 64 unsynced versions forgets some of the middle ones.
//!
//! # Use
//!
//! ```
//! use quorate_framework::vfs::Vfs;
//! use quorate_simulated_disk::{ImageLimits, SimulatedDisk};
//! use std::path::Path;
//!
//! let disk = SimulatedDisk::new(7);
//! disk.start_recording();
//! let process = disk.mount();
//! let mut file = process.create(Path::new("vote"))?;
//! file.write_all_at(b"term 3", 0)?;
//! file.sync_data()?;
//! process.sync_directory()?;
//! disk.mark("answer");
//!
//! let recording = disk.stop_recording().expect("one was started");
//! assert_eq!(recording.lines(), ["create vote", "write vote 0+6", "sync vote", "sync directory", "answer"]);
//! for image in recording.crash_images(ImageLimits::default()) {
//!     let answered = image.operations_done == recording.operations().len();
//!     let found = image.disk.contents("vote");
//!     assert!(!answered || found.as_deref() == Some(b"term 3"), "{}", image.describe());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod choice;
mod directory;
mod disk;
mod fault;
mod file;
mod images;
mod medium;
mod operation;
mod page;
mod recording;
mod state;
mod vfs;

pub use disk::SimulatedDisk;
pub use fault::{CrashPolicy, Fault, Trigger};
pub use file::{AfterFailedSync, Torn};
pub use images::{CrashImage, CrashImages, ImageLimits};
pub use operation::{Operation, OperationKind};
pub use page::{PAGE_BYTES, SECTOR_BYTES};
pub use recording::{RECORDED_BYTES_MAX, RECORDED_OPERATIONS_MAX, RecordedOperation, Recording};
