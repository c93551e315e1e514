//! The device without a log: a prewritten file, groups of operations written and synced.

use super::figures::{Group, Measured};
use super::{Failed, WalError};
use bytes::Bytes;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const BLOCK_BYTES: usize = 4_096;
/// Bytes of a group beside its records, as in the log.
const GROUP_HEADER_BYTES: usize = 64;
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// A file whose blocks were written before. Removed when dropped.
#[derive(Debug)]
pub(super) struct PrewrittenFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl PrewrittenFile {
    /// Makes it with room for `operations` in groups of `batch`. Blocks until its blocks are on the device.
    pub(super) fn new(folder: &Path, operations: u64, layout: Layout) -> Result<PrewrittenFile, WalError> {
        let groups = operations.div_ceil(layout.batch as u64);
        let length = groups * layout.group_bytes(layout.batch) as u64;
        let path = folder.join("device.dat");
        let file = OpenOptions::new().write(true).create_new(true).open(&path).failed("making a file")?;
        let prewritten = PrewrittenFile { path, file, length };
        let mut end = 0;
        while end < length {
            let piece = ZEROS.len().min((length - end) as usize);
            prewritten.file.write_all_at(&ZEROS[..piece], end).failed("writing a file")?;
            end += piece as u64;
        }
        prewritten.file.sync_all().failed("syncing a file")?;
        Ok(prewritten)
    }
}

impl Drop for PrewrittenFile {
    fn drop(&mut self) {
        // The folder goes anyway.
        let _ = fs::remove_file(&self.path);
    }
}

/// How operations lie in the file: as many bytes as the log takes for the same ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Operations in a group at most.
    pub(super) batch: usize,
    /// Bytes of an operation.
    pub(super) record_bytes: usize,
}

impl Layout {
    fn group_bytes(self, operations: usize) -> usize {
        (GROUP_HEADER_BYTES + operations * self.record_bytes).next_multiple_of(BLOCK_BYTES)
    }
}

/// Builds groups and writes them one after the other.
struct GroupWriter<'a> {
    file: &'a PrewrittenFile,
    layout: Layout,
    buffer: Vec<u8>,
    operations: u64,
    offset: u64,
    gathered_from: Instant,
    groups: Vec<Group>,
}

impl<'a> GroupWriter<'a> {
    fn new(file: &'a PrewrittenFile, layout: Layout, began: Instant) -> GroupWriter<'a> {
        let mut buffer = Vec::with_capacity(layout.group_bytes(layout.batch));
        buffer.resize(GROUP_HEADER_BYTES, 0);
        GroupWriter { file, layout, buffer, operations: 0, offset: 0, gathered_from: began, groups: Vec::new() }
    }

    fn push(&mut self, payload: &[u8]) {
        let end = self.buffer.len() + self.layout.record_bytes;
        self.buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
        self.buffer.extend_from_slice(payload);
        self.buffer.resize(end, 0);
        self.operations += 1;
    }

    /// Writes and syncs the group.
    fn flush(&mut self) -> Result<(), WalError> {
        self.buffer.resize(self.layout.group_bytes(self.operations as usize), 0);
        if self.offset + self.buffer.len() as u64 > self.file.length {
            // Smaller groups than foreseen have filled the file: its blocks are written again.
            self.offset = 0;
        }
        let write_began = Instant::now();
        self.file.file.write_all_at(&self.buffer, self.offset).failed("writing a file")?;
        let written = Instant::now();
        self.file.file.sync_data().failed("syncing a file")?;
        let ended = Instant::now();
        self.groups.push(Group {
            operations: self.operations,
            gathered_from: self.gathered_from,
            write_began,
            write: written - write_began,
            bytes: self.buffer.len() as u64,
            sync: Some(ended - written),
            ended,
        });
        self.offset += self.buffer.len() as u64;
        self.buffer.truncate(GROUP_HEADER_BYTES);
        self.operations = 0;
        self.gathered_from = Instant::now();
        Ok(())
    }
}

/// One thread builds, writes and syncs; latencies as if all operations had been submitted at the start.
pub(super) fn raw(
    file: &PrewrittenFile,
    layout: Layout,
    operations: u64,
    payload: &Bytes,
) -> Result<Measured, WalError> {
    let began = Instant::now();
    let mut writer = GroupWriter::new(file, layout, began);
    let mut ways = Vec::with_capacity(operations as usize);
    let mut left = operations;
    while left > 0 {
        let count = left.min(layout.batch as u64);
        (0..count).for_each(|_| writer.push(payload));
        writer.flush()?;
        let told = Instant::now();
        ways.extend((0..count).map(|_| (began, told)));
        left -= count;
    }
    Ok(Measured { elapsed: began.elapsed(), ways, groups: writer.groups })
}

type Append = (Bytes, oneshot::Sender<Instant>);

/// One channel and one future an operation: what any log with a queue must do, and nothing else.
pub(super) fn fair_raw(
    file: &PrewrittenFile,
    layout: Layout,
    operations: u64,
    payload: &Bytes,
) -> Result<Measured, WalError> {
    let (sender, receiver) = sync_channel(operations as usize);
    thread::scope(|scope| {
        let began = Instant::now();
        let writing = thread::Builder::new()
            .name("fair-raw".to_owned())
            .spawn_scoped(scope, move || write_appends(file, layout, began, &receiver))
            .failed("starting a thread")?;
        let mut submitted = Vec::with_capacity(operations as usize);
        let mut awaited = Vec::with_capacity(operations as usize);
        let ended = || WalError::Failed { doing: "writing a file", reason: "the writing thread has ended".to_owned() };
        let mut is_open = true;
        for _ in 0..operations {
            let (told, is_told) = oneshot::channel();
            submitted.push(Instant::now());
            is_open &= sender.send((payload.clone(), told)).is_ok();
            awaited.push(is_told);
        }
        drop(sender);
        let told: Vec<Option<Instant>> = awaited.into_iter().map(|told| told.blocking_recv().ok()).collect();
        let elapsed = began.elapsed();
        // Its own error says more than that it has ended.
        let groups = writing.join().map_err(|_| ended())??;
        let ways: Option<Vec<_>> = submitted.into_iter().zip(told).map(|(from, to)| Some((from, to?))).collect();
        let ways = ways.filter(|_| is_open).ok_or_else(ended)?;
        Ok(Measured { elapsed, ways, groups })
    })
}

fn write_appends(
    file: &PrewrittenFile,
    layout: Layout,
    began: Instant,
    appends: &Receiver<Append>,
) -> Result<Vec<Group>, WalError> {
    let mut writer = GroupWriter::new(file, layout, began);
    let mut waiting = Vec::with_capacity(layout.batch);
    while let Ok((payload, told)) = appends.recv() {
        writer.push(&payload);
        waiting.push(told);
        while waiting.len() < layout.batch
            && let Ok((payload, told)) = appends.try_recv()
        {
            writer.push(&payload);
            waiting.push(told);
        }
        writer.flush()?;
        for told in waiting.drain(..) {
            // Nobody waits any more if the case has failed.
            let _ = told.send(Instant::now());
        }
        writer.gathered_from = Instant::now();
    }
    Ok(writer.groups)
}

/// One operation written and synced after the other, by one thread. Gives each one's time.
pub(super) fn one_at_a_time(
    file: &PrewrittenFile,
    layout: Layout,
    operations: u64,
    payload: &Bytes,
) -> Result<Vec<Duration>, WalError> {
    let mut writer = GroupWriter::new(file, layout, Instant::now());
    let mut times = Vec::with_capacity(operations as usize);
    for _ in 0..operations {
        let began = Instant::now();
        writer.push(payload);
        writer.flush()?;
        times.push(began.elapsed());
    }
    Ok(times)
}
