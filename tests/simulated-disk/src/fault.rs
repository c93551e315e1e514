//! Faults: what fails, and when.

use crate::file::{AfterFailedSync, Torn};
use crate::operation::{Operation, OperationKind};
use std::io;
use std::path::{Path, PathBuf};

/// "Input/output error", as the operating system numbers it.
const INPUT_OUTPUT_ERROR: i32 = 5;

/// "No space left on device", as the operating system numbers it.
const NO_SPACE_LEFT: i32 = 28;

pub(crate) fn input_output_error() -> io::Error {
    io::Error::from_raw_os_error(INPUT_OUTPUT_ERROR)
}

pub(crate) fn no_space_left() -> io::Error {
    io::Error::from_raw_os_error(NO_SPACE_LEFT)
}

/// What survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPolicy {
    /// Exactly what was synced.
    SyncedOnly,
    /// Everything: the page cache had just been written back.
    Everything,
    /// What was synced, and by the disk's seed any legal part of the rest.
    Random(Torn),
}

/// What happens to the operation that a trigger picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An input/output error; nothing is done. Pages and names stay dirty.
    Error,
    /// The disk is full; nothing is done.
    Full,
    /// This many bytes of a write arrive, then an input/output error. As [`Fault::Error`] for other operations.
    PartialWrite {
        /// How many bytes arrive.
        bytes: usize,
    },
    /// An input/output error of a sync, with what becomes of the pages or names. As [`Fault::Error`] for other operations.
    FailedSync(AfterFailedSync),
    /// The operation, and all later ones of its kind, hang until `resume`. It blocks the calling thread.
    Stall,
    /// The power is cut before the operation; it and everything else of this life of the disk fails from now on.
    PowerCut(CrashPolicy),
}

/// Which operation a fault strikes.
#[derive(Clone, Debug)]
pub struct Trigger {
    kind: Option<OperationKind>,
    path: Option<PathBuf>,
    remaining: u64,
    repeats: bool,
}

impl Trigger {
    /// The `count`-th operation of a kind from now on; 1 is the next.
    #[must_use]
    pub fn nth(kind: OperationKind, count: u64) -> Trigger {
        Trigger { kind: Some(kind), path: None, remaining: count.max(1), repeats: false }
    }

    /// The next operation of a kind.
    #[must_use]
    pub fn next(kind: OperationKind) -> Trigger {
        Trigger::nth(kind, 1)
    }

    /// The `count`-th operation of any kind from now on.
    #[must_use]
    pub fn nth_of_all(count: u64) -> Trigger {
        Trigger { kind: None, path: None, remaining: count.max(1), repeats: false }
    }

    /// Counts only operations that concern this name.
    #[must_use]
    pub fn on(mut self, path: impl AsRef<Path>) -> Trigger {
        self.path = Some(path.as_ref().to_owned());
        self
    }

    /// Strikes all later ones too.
    #[must_use]
    pub fn and_all_later(mut self) -> Trigger {
        self.repeats = true;
        self
    }

    fn counts(&self, operation: &Operation) -> bool {
        self.kind.is_none_or(|kind| operation.kind() == Some(kind))
            && self.path.as_ref().is_none_or(|path| operation.concerns(path))
    }
}

/// The faults that wait for their operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    armed: Vec<(Trigger, Fault)>,
}

impl Faults {
    pub(crate) fn arm(&mut self, trigger: Trigger, fault: Fault) {
        self.armed.push((trigger, fault));
    }

    pub(crate) fn disarm(&mut self) {
        self.armed.clear();
    }

    /// Counts an operation; the fault that strikes it, the one armed first if there are several.
    pub(crate) fn strike(&mut self, operation: &Operation) -> Option<Fault> {
        let mut struck = None;
        self.armed.retain_mut(|(trigger, fault)| {
            if !trigger.counts(operation) {
                return true;
            }
            trigger.remaining = trigger.remaining.saturating_sub(1);
            if trigger.remaining > 0 {
                return true;
            }
            struck = struck.or(Some(*fault));
            trigger.repeats
        });
        struck
    }
}
