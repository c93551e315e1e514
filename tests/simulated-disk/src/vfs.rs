//! What a process does with the disk.

use crate::directory::{FileId, NameOperation};
use crate::disk::SimulatedDisk;
use crate::fault::{Fault, input_output_error, no_space_left};
use crate::file::AfterFailedSync;
use crate::medium::Effect;
use crate::operation::Operation;
use crate::state::{DiskState, Shared};
use parking_lot::MutexGuard;
use quorate_framework::vfs::{Vfs, VfsFile};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Offsets and lengths that real file systems take.
const FILE_LENGTH_MAX: u64 = i64::MAX as u64;

/// An operation under way.
struct Begun<'a> {
    state: MutexGuard<'a, DiskState>,
    operation: Operation,
    fault: Option<Fault>,
    /// What was there when it began: a sync covers no more.
    up_to: u64,
}

impl<'a> Begun<'a> {
    /// Counts the operation, lets it hang if it must, and finds the fault that strikes it.
    fn new(shared: &'a Shared, life: Option<u64>, operation: Operation) -> io::Result<Begun<'a>> {
        let mut state = shared.state.lock();
        let life = life.unwrap_or(state.life);
        state.check_life(life)?;
        let up_to = state.medium.sequence;
        state.operations += 1;
        let mut fault = state.faults.strike(&operation);
        match fault {
            Some(Fault::PowerCut(policy)) => {
                state.crash(policy);
                shared.changed.notify_all();
            }
            Some(Fault::Stall) => {
                state.stalled.extend(operation.kind());
                fault = None;
            }
            _ => {}
        }
        state.check_life(life)?;
        while operation.kind().is_some_and(|kind| state.stalled.contains(&kind)) {
            state.hanging += 1;
            shared.changed.notify_all();
            shared.changed.wait(&mut state);
            state.hanging -= 1;
            state.check_life(life)?;
        }
        Ok(Begun { state, operation, fault, up_to })
    }

    /// The error of a fault that leaves everything as it was.
    fn plain_fault(&self) -> Option<io::Error> {
        match self.fault? {
            Fault::Full => Some(no_space_left()),
            Fault::Error | Fault::PartialWrite { .. } | Fault::FailedSync(_) | Fault::Stall | Fault::PowerCut(_) => {
                Some(input_output_error())
            }
        }
    }

    fn succeed(mut self, effect: Option<Effect>) {
        self.state.complete(self.operation, effect, None);
    }

    fn fail<T>(mut self, error: io::Error, effect: Option<Effect>) -> io::Result<T> {
        self.state.complete(self.operation, effect, Some(&error));
        Err(error)
    }

    /// What becomes of the dirty pages or names of a sync that fails; none if it succeeds.
    fn failed_sync(&self) -> Option<AfterFailedSync> {
        match self.fault? {
            Fault::FailedSync(after) => Some(after),
            _ => Some(AfterFailedSync::StillDirty),
        }
    }
}

/// Names lie directly in the directory.
fn check_name(path: &Path) -> io::Result<PathBuf> {
    let mut components = path.components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(name)), None) => Ok(PathBuf::from(name)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not a plain name", path.display()))),
    }
}

impl SimulatedDisk {
    fn begin(&self, operation: Operation) -> io::Result<Begun<'_>> {
        Begun::new(&self.shared, self.life, operation)
    }

    fn handle(&self, state: &mut DiskState, file: FileId, name: PathBuf) -> Box<dyn VfsFile> {
        *state.open_files.entry(file).or_default() += 1;
        Box::new(SimulatedFile { shared: Arc::clone(&self.shared), life: state.life, file, name })
    }
}

impl Vfs for SimulatedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        let name = check_name(path)?;
        let mut begun = self.begin(Operation::Create(name.clone()))?;
        if let Some(error) = begun.plain_fault() {
            return begun.fail(error, None);
        }
        if begun.state.medium.directory.cached().contains_key(&name) {
            return begun.fail(io::ErrorKind::AlreadyExists.into(), None);
        }
        let file = begun.state.medium.next_file;
        let handle = self.handle(&mut begun.state, file, name.clone());
        begun.succeed(Some(Effect::Name(NameOperation::Create { name, file })));
        Ok(handle)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        let name = check_name(path)?;
        let mut begun = self.begin(Operation::Open(name.clone()))?;
        if let Some(error) = begun.plain_fault() {
            return begun.fail(error, None);
        }
        let Some(file) = begun.state.medium.directory.cached().get(&name).copied() else {
            return begun.fail(io::ErrorKind::NotFound.into(), None);
        };
        let handle = self.handle(&mut begun.state, file, name);
        begun.succeed(None);
        Ok(handle)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (check_name(from)?, check_name(to)?);
        let begun = self.begin(Operation::Rename { from: from.clone(), to: to.clone() })?;
        if let Some(error) = begun.plain_fault() {
            return begun.fail(error, None);
        }
        if !begun.state.medium.directory.cached().contains_key(&from) {
            return begun.fail(io::ErrorKind::NotFound.into(), None);
        }
        let effect = (from != to).then_some(Effect::Name(NameOperation::Rename { from, to }));
        begun.succeed(effect);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let name = check_name(path)?;
        let begun = self.begin(Operation::Remove(name.clone()))?;
        if let Some(error) = begun.plain_fault() {
            return begun.fail(error, None);
        }
        if !begun.state.medium.directory.cached().contains_key(&name) {
            return begun.fail(io::ErrorKind::NotFound.into(), None);
        }
        begun.succeed(Some(Effect::Name(NameOperation::Remove { name })));
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let begun = self.begin(Operation::SyncDirectory)?;
        let up_to = begun.up_to;
        if let (Some(after), Some(error)) = (begun.failed_sync(), begun.plain_fault()) {
            return begun.fail(error, Some(Effect::FailedSyncDirectory { up_to, after }));
        }
        let effect = (!begun.state.ignore_sync_directory).then_some(Effect::SyncDirectory { up_to });
        begun.succeed(effect);
        let mut state = self.shared.state.lock();
        let state = &mut *state;
        state.medium.collect(&state.open_files);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<PathBuf>> {
        let begun = self.begin(Operation::List)?;
        if let Some(error) = begun.plain_fault() {
            return begun.fail(error, None);
        }
        let names = begun.state.medium.directory.cached().keys().cloned().collect();
        begun.succeed(None);
        Ok(names)
    }
}

/// An open file of a [`SimulatedDisk`].
#[derive(Debug)]
struct SimulatedFile {
    shared: Arc<Shared>,
    life: u64,
    file: FileId,
    name: PathBuf,
}

impl SimulatedFile {
    fn begin(&self, operation: Operation) -> io::Result<Begun<'_>> {
        Begun::new(&self.shared, Some(self.life), operation)
    }

    /// Why a write arrives only in part, and how many bytes do.
    fn cut_short(&self, begun: &Begun<'_>, offset: u64, length: usize) -> Option<(usize, io::Error)> {
        let room = begun.state.length_limit(self.file);
        let fitting = room.saturating_sub(offset).min(length as u64) as usize;
        match begun.fault {
            Some(Fault::PartialWrite { bytes }) => Some((bytes.min(length), input_output_error())),
            Some(_) => Some((0, begun.plain_fault()?)),
            None if fitting < length => Some((fitting, no_space_left())),
            None => None,
        }
    }
}

impl VfsFile for SimulatedFile {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let length = bytes.len() as u64;
        let begun = self.begin(Operation::Read { path: self.name.clone(), offset, length })?;
        if let Some(error) = begun.plain_fault() {
            return begun.fail(error, None);
        }
        let contents = &begun.state.medium.files[&self.file];
        if offset.checked_add(length).is_none_or(|end| end > contents.length()) {
            return begun.fail(io::ErrorKind::UnexpectedEof.into(), None);
        }
        if contents.is_unreadable(offset, bytes.len()) {
            return begun.fail(input_output_error(), None);
        }
        contents.read(bytes, offset);
        begun.succeed(None);
        Ok(())
    }

    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let length = bytes.len() as u64;
        let begun = self.begin(Operation::Write { path: self.name.clone(), offset, length })?;
        if offset.checked_add(length).is_none_or(|end| end > FILE_LENGTH_MAX) {
            return begun.fail(io::ErrorKind::FileTooLarge.into(), None);
        }
        let file = self.file;
        if let Some((arrived, error)) = self.cut_short(&begun, offset, bytes.len()) {
            let effect = Effect::Write { file, offset, bytes: Arc::from(&bytes[..arrived]) };
            return begun.fail(error, (arrived > 0).then_some(effect));
        }
        begun.succeed(Some(Effect::Write { file, offset, bytes: Arc::from(bytes) }));
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let begun = self.begin(Operation::SyncData(self.name.clone()))?;
        let (file, up_to) = (self.file, begun.up_to);
        if let (Some(after), Some(error)) = (begun.failed_sync(), begun.plain_fault()) {
            return begun.fail(error, Some(Effect::FailedSyncFile { file, up_to, after }));
        }
        let effect = (!begun.state.ignore_sync_data).then_some(Effect::SyncFile { file, up_to });
        begun.succeed(effect);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        let state = self.shared.state.lock();
        state.check_life(self.life)?;
        Ok(state.medium.files[&self.file].length())
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        let begun = self.begin(Operation::Allocate { path: self.name.clone(), length })?;
        if let Some(error) = begun.plain_fault() {
            return begun.fail(error, None);
        }
        if length > FILE_LENGTH_MAX {
            return begun.fail(io::ErrorKind::FileTooLarge.into(), None);
        }
        let file = self.file;
        let room = begun.state.length_limit(file);
        if length > room {
            // Zeros are written as far as there is room.
            let growth = room > begun.state.medium.files[&file].length();
            return begun.fail(no_space_left(), growth.then_some(Effect::SetLength { file, length: room }));
        }
        begun.succeed(Some(Effect::SetLength { file, length }));
        Ok(())
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if state.life != self.life {
            return;
        }
        let state = &mut *state;
        if let Some(handles) = state.open_files.get_mut(&self.file) {
            *handles -= 1;
            if *handles == 0 {
                state.open_files.remove(&self.file);
                state.medium.collect(&state.open_files);
            }
        }
    }
}
