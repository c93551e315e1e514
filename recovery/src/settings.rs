//! Settings of the write-ahead log, with their defaults.

use crate::error::RecoveryError;
use crate::format::BLOCK;

/// Bytes of a segment, unless a group needs a larger one.
pub const SEGMENT_BYTES: u64 = 16 << 20;
/// Bytes of records in one group at most; a single larger record is a group of its own.
pub const GROUP_BYTES: usize = 4 << 20;
/// Records in one group at most.
pub const GROUP_RECORDS: usize = 4_096;
/// Free segments kept for later use at most: those that the log between two checkpoints fills by default (256 MiB), so that a busy
/// log writes its segments over and does not prepare new ones, which would write everything twice.
pub const FREE_SEGMENTS: usize = 16;
/// Bytes of one record at most.
pub const RECORD_BYTES: u64 = 256 << 20;
/// Bytes submitted and not yet durable at most, beyond which submitting fails; admission must stop long before.
pub const PENDING_BYTES: u64 = 1 << 30;
/// Submissions not yet taken by the writer at most, beyond which submitting fails.
pub const PENDING_SUBMISSIONS: usize = 1 << 20;

/// When the log is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WalSync {
    /// Before a ticket counts as durable.
    Always,
    /// Never while running: what is acknowledged survives the death of the process, not of the machine. Metadata is synced all the
    /// same, and so is everything at a clean stop.
    Never,
}

/// Settings of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalSettings {
    /// When it is synced.
    pub sync: WalSync,
    /// Bytes of a segment; a multiple of 4,096 and at least four times that.
    pub segment_bytes: u64,
    /// Bytes of records in one group at most.
    pub group_bytes: usize,
    /// Records in one group at most.
    pub group_records: usize,
    /// Free segments kept for later use at most.
    pub free_segments: usize,
}

impl Default for WalSettings {
    fn default() -> WalSettings {
        WalSettings {
            sync: WalSync::Always,
            segment_bytes: SEGMENT_BYTES,
            group_bytes: GROUP_BYTES,
            group_records: GROUP_RECORDS,
            free_segments: FREE_SEGMENTS,
        }
    }
}

impl WalSettings {
    /// Checks what the format cannot hold.
    ///
    /// # Errors
    /// [`RecoveryError::Settings`].
    pub fn check(&self) -> Result<(), RecoveryError> {
        let wrong = |text: String| Err(RecoveryError::Settings(text));
        if !self.segment_bytes.is_multiple_of(BLOCK) || self.segment_bytes < 4 * BLOCK {
            return wrong(format!(
                "a segment of {} bytes; it must be a multiple of {BLOCK} and at least {}",
                self.segment_bytes,
                4 * BLOCK
            ));
        }
        if self.group_bytes == 0 || self.group_records == 0 {
            return wrong("a group must be able to hold a record".to_owned());
        }
        Ok(())
    }
}

// A group with its padding and header must be countable in the 32 bits of a record's length.
const _: () = assert!(RECORD_BYTES + (GROUP_BYTES as u64) < u32::MAX as u64);
// A record must fit below the bound on what is pending, or it could never be submitted.
const _: () = assert!(RECORD_BYTES <= PENDING_BYTES);
