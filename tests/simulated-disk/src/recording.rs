//! A recording: every operation in order, with what it did, so that every moment of it can be returned to.

use crate::disk::SimulatedDisk;
use crate::images::{CrashImages, ImageLimits};
use crate::medium::{Effect, Medium};
use crate::operation::Operation;

/// Operations a recording holds at most.
pub const RECORDED_OPERATIONS_MAX: usize = 1 << 20;

/// Written bytes a recording holds at most.
pub const RECORDED_BYTES_MAX: usize = 1 << 30;

/// One operation of a recording.
#[derive(Clone, Debug)]
pub struct RecordedOperation {
    /// What was asked.
    pub operation: Operation,
    /// Why it failed, if it did.
    pub error: Option<String>,
    pub(crate) effect: Option<Effect>,
}

impl RecordedOperation {
    /// One line: `write log 4096+512`, `sync directory`, the text of a mark; ` failed: …` behind it if it did.
    #[must_use]
    pub fn line(&self) -> String {
        match &self.error {
            Some(error) => format!("{} failed: {error}", self.operation),
            None => self.operation.to_string(),
        }
    }
}

/// Everything that happened between `start_recording` and now. Operations are in the order in which they took effect.
#[derive(Clone, Debug)]
pub struct Recording {
    pub(crate) base: Medium,
    pub(crate) operations: Vec<RecordedOperation>,
    bytes: usize,
    complete: bool,
}

impl Recording {
    pub(crate) fn new(base: Medium) -> Recording {
        Recording { base, operations: Vec::new(), bytes: 0, complete: true }
    }

    pub(crate) fn push(&mut self, recorded: RecordedOperation) {
        if let Some(Effect::Write { bytes, .. }) = &recorded.effect {
            self.bytes = self.bytes.saturating_add(bytes.len());
        }
        if self.operations.len() == RECORDED_OPERATIONS_MAX || self.bytes > RECORDED_BYTES_MAX {
            self.complete = false;
        }
        if self.complete {
            self.operations.push(recorded);
        }
    }

    /// The operations.
    #[must_use]
    pub fn operations(&self) -> &[RecordedOperation] {
        &self.operations
    }

    /// The operations as lines, without reads, opens and lists: what a test of an order compares.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let changes = self.operations.iter().filter(|recorded| {
            !matches!(recorded.operation, Operation::Read { .. } | Operation::Open(_) | Operation::List)
        });
        changes.map(RecordedOperation::line).collect()
    }

    /// Whether nothing was left out for want of room ([`RECORDED_OPERATIONS_MAX`], [`RECORDED_BYTES_MAX`]).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The disk as it was after the first `operations`, with its page cache: what a process finds after a kill at that moment.
    #[must_use]
    pub fn disk_after(&self, operations: usize) -> SimulatedDisk {
        let mut medium = self.base.clone();
        for recorded in self.operations.iter().take(operations) {
            if let Some(effect) = &recorded.effect {
                medium.apply(effect);
            }
        }
        SimulatedDisk::with_medium(medium, 0)
    }

    /// Every disk that a power cut at any moment of the recording may leave, within the limits.
    ///
    /// # Panics
    /// If the recording is not complete: images of a part prove nothing of the whole.
    #[must_use]
    pub fn crash_images(&self, limits: ImageLimits) -> CrashImages<'_> {
        assert!(self.complete, "the recording left operations out: record a shorter run");
        CrashImages::new(self, limits)
    }
}
