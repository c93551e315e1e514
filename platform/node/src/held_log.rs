//! The log of a replica that was read back and does not run yet.

use quorate_framework::RecoverySpec;
use quorate_recovery::{FlushLinger, NoThread, Pump};
use std::fmt;
use std::io;

/// The log between the end of its recovery and the thread that writes it.
///
/// If it is dropped before a thread has taken it, since something else refuses the start, it is stopped cleanly. That is true: recovery
/// made durable all that it read, and nothing was submitted since. Without the mark of a clean stop a replica with `wal_sync: never`
/// would have to give its incarnation up at the next boot of the machine, although it lost nothing.
pub struct HeldLog<R: RecoverySpec> {
    /// None once it was handed over.
    pump: Option<Pump<R>>,
    linger: FlushLinger,
}

impl<R: RecoverySpec> fmt::Debug for HeldLog<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HeldLog").field("pump", &self.pump).finish_non_exhaustive()
    }
}

impl<R: RecoverySpec> HeldLog<R> {
    /// Holds a log that recovery has just opened.
    #[must_use]
    pub fn new(pump: Pump<R>, linger: FlushLinger) -> HeldLog<R> {
        HeldLog { pump: Some(pump), linger }
    }

    /// Hands it over to what writes it.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread; the log is then stopped cleanly.
    pub fn hand_over<T>(mut self, start: impl FnOnce(Pump<R>, FlushLinger) -> Result<T, NoThread<R>>) -> io::Result<T> {
        let pump = self.pump.take().expect("it is handed over once, by value");
        start(pump, self.linger).map_err(|NoThread { pump, source }| {
            self.pump = Some(*pump);
            source
        })
    }
}

impl<R: RecoverySpec> Drop for HeldLog<R> {
    fn drop(&mut self) {
        // Why the start is refused is what its caller says; this only makes things worse than they could be.
        if let Some(Err(error)) = self.pump.take().map(Pump::stop) {
            tracing::error!("the log of this start could not be stopped cleanly: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::scripted::ScriptedRecord;
    use quorate_framework::{ClusterId, ReplicaId};
    use quorate_recovery::{
        BootId, DirectoryVfs, Identity, METADATA_FILE, Metadata, RecoveryBase, ReplicatedSettings, StartOptions,
        WalSettings, WalSync,
    };
    use std::fs;
    use std::path::Path;

    type Base = RecoveryBase<ScriptedRecord>;

    fn identity() -> Identity {
        Identity {
            cluster: ClusterId([1; 16]),
            replica: ReplicaId(1),
            protocol: "scripted".to_owned(),
            replicated_settings: ReplicatedSettings::new(),
        }
    }

    /// Starts a replica whose log is not synced, in the boot of this number; gives whether it had to become another.
    fn start(directory: &Path, boot: u8) -> (HeldLog<ScriptedRecord>, bool) {
        let settings = WalSettings { segment_bytes: 1 << 20, sync: WalSync::Never, ..WalSettings::default() };
        let random = Box::new(rand::random::<u64>);
        let options = StartOptions { identity: identity(), boot: BootId([boot; 16]), settings, random };
        let recovered = Base::open(Box::new(DirectoryVfs::open(directory).unwrap()), options).unwrap();
        let gave_up = recovered.report.incarnation_given_up.is_some();
        (HeldLog::new(recovered.pump, FlushLinger::default()), gave_up)
    }

    fn metadata(directory: &Path) -> Metadata {
        Metadata::decode(&fs::read(directory.join(METADATA_FILE)).unwrap()).unwrap()
    }

    fn made() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        Base::init(&DirectoryVfs::open(folder.path()).unwrap(), &identity(), &mut rand::random::<u64>).unwrap();
        folder
    }

    #[test]
    fn a_log_that_nobody_takes_is_stopped_cleanly_and_a_boot_later_the_incarnation_is_the_same() {
        let folder = made();
        let incarnation = metadata(folder.path()).incarnation;
        for boot in 1..4 {
            let (log, gave_up) = start(folder.path(), boot);
            assert!(!gave_up, "boot {boot}");
            assert!(!metadata(folder.path()).stopped_cleanly, "it may run");
            drop(log);
            let after = metadata(folder.path());
            assert_eq!((after.stopped_cleanly, after.start_counter), (true, u64::from(boot)));
            assert_eq!(after.incarnation, incarnation);
        }
    }

    #[test]
    fn a_log_for_which_there_is_no_thread_is_stopped_cleanly_and_one_that_was_taken_is_its_takers() {
        let folder = made();
        let refused = start(folder.path(), 1).0.hand_over(|pump, _| {
            Err::<(), _>(NoThread { pump: Box::new(pump), source: io::ErrorKind::WouldBlock.into() })
        });
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(metadata(folder.path()).stopped_cleanly);
        let taken = start(folder.path(), 1).0.hand_over(|pump, _| Ok(pump)).unwrap();
        assert!(!metadata(folder.path()).stopped_cleanly);
        taken.stop().unwrap();
        assert!(metadata(folder.path()).stopped_cleanly);
    }
}
