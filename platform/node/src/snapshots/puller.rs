//! What moves snapshots between replicas, and the file that it fills.

use super::parts::OpenDirectory;
use quorate_communicator::transfer::{PullEnd, PullOrder, SnapshotSink};
use quorate_executor::snapshot::{SnapshotFile, SnapshotName};
use std::any::Any;
use std::io;

/// Moves snapshots between replicas.
pub trait Puller: Send {
    /// Pulls a snapshot as [`quorate_communicator::CommunicatorHandle::pull_snapshot`] does. Dropping what is given cancels it.
    fn pull(
        &self,
        order: PullOrder,
        sink: Box<dyn SnapshotSink>,
        on_end: Box<dyn FnOnce(PullEnd) + Send>,
    ) -> Box<dyn Any + Send>;
}

impl Puller for quorate_communicator::CommunicatorHandle {
    fn pull(
        &self,
        order: PullOrder,
        sink: Box<dyn SnapshotSink>,
        on_end: Box<dyn FnOnce(PullEnd) + Send>,
    ) -> Box<dyn Any + Send> {
        Box::new(self.pull_snapshot(order, sink, on_end))
    }
}

/// The file being filled, which is opened at its first use, on the thread that uses it.
pub(super) struct LateSink {
    open: OpenDirectory,
    name: SnapshotName,
    file: Option<SnapshotFile>,
}

impl LateSink {
    pub(super) fn new(open: OpenDirectory, name: SnapshotName) -> LateSink {
        LateSink { open, name, file: None }
    }
}

impl SnapshotSink for LateSink {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let LateSink { open, name, file } = self;
        let file = match file {
            Some(file) => file,
            none => none.insert(SnapshotFile::create(&*open()?, *name).map_err(io::Error::other)?),
        };
        if offset != file.length() {
            return Err(io::Error::other(format!(
                "a part at {offset} does not follow the {} bytes before",
                file.length()
            )));
        }
        file.append(bytes).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshots::Scratch;
    use quorate_framework::SnapshotId;
    use quorate_framework::vfs::Vfs;
    use std::sync::Arc;

    #[test]
    fn a_part_that_does_not_follow_the_one_before_is_refused_and_what_an_earlier_pull_left_is_no_part_of_the_file() {
        let scratch = Scratch::default();
        let name = SnapshotName::Fetched(SnapshotId(7));
        scratch.create(&name.path()).unwrap().write_all_at(b"an earlier pull", 0).unwrap();
        let opened = scratch.clone();
        let mut sink = LateSink::new(Arc::new(move || Ok(Box::new(opened.clone()) as Box<dyn Vfs>)), name);
        assert_eq!(scratch.open(&name.path()).unwrap().length().unwrap(), 15, "opened at its first use");
        sink.write(0, b"abc").unwrap();
        sink.write(3, b"def").unwrap();
        let refused = sink.write(9, b"xyz").unwrap_err().to_string();
        assert_eq!(refused, "a part at 9 does not follow the 6 bytes before");
        assert!(sink.write(3, b"xyz").is_err());
        let file = scratch.open(&name.path()).unwrap();
        let mut bytes = [0; 6];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!((&bytes, file.length().unwrap()), (b"abcdef", 6));
    }
}
