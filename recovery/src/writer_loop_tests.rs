//! A writer that gets no thread, which only the crate itself can bring about.

use super::*;
use crate::{BootId, DirectoryVfs, Identity, RecoveryBase, StartOptions, WalSettings};
use quorate_framework::{ClusterId, Decoder, Encoder, Position, RecordPlace, ReplayError, ReplicaId, WireError};

/// A record of nothing.
#[derive(Debug)]
struct Empty;

impl RecoverySpec for Empty {
    type State = ();

    fn place(&self) -> RecordPlace {
        RecordPlace::Log
    }

    fn position(&self) -> Option<Position> {
        None
    }

    fn weight(&self) -> usize {
        0
    }

    fn encode(self, _encoder: &mut Encoder) {}

    fn decode(decoder: Decoder<'_>) -> Result<Empty, WireError> {
        decoder.finish("empty record").map(|()| Empty)
    }

    fn replay(self, _state: &mut ()) -> Result<(), ReplayError> {
        Ok(())
    }
}

#[test]
fn a_writer_that_gets_no_thread_gives_its_log_back_which_can_be_stopped_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity {
        cluster: ClusterId([1; 16]),
        replica: ReplicaId(1),
        protocol: "empty".to_owned(),
        replicated_settings: crate::ReplicatedSettings::new(),
    };
    RecoveryBase::<Empty>::init(&DirectoryVfs::open(folder.path()).unwrap(), &identity, &mut || 7).unwrap();
    let options = StartOptions {
        identity,
        boot: BootId([1; 16]),
        settings: WalSettings { segment_bytes: 64 << 10, ..WalSettings::default() },
        random: Box::new(|| 8),
    };
    let vfs = Box::new(DirectoryVfs::open(folder.path()).unwrap());
    let pump = RecoveryBase::<Empty>::open(vfs, options).unwrap().pump;
    // No machine has room for such a stack.
    let thread = thread::Builder::new().stack_size(1 << 60);
    let refused = WalWriterLoop::start_on(thread, pump, FlushLinger::default(), |_| {}).map(|_| ()).unwrap_err();
    assert!(refused.to_string().starts_with("no thread for the write-ahead log: "), "{refused}");
    let metadata = refused.pump.stop().unwrap();
    assert_eq!((metadata.stopped_cleanly, metadata.start_counter), (true, 1));
}
