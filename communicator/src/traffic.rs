//! Cheap counters over all connections of a communicator.

use crate::outgoing::Flushed;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters; read with [`TrafficCounters::figures`].
#[derive(Debug, Default)]
pub struct TrafficCounters {
    writes: AtomicU64,
    blocked_writes: AtomicU64,
    written_bytes: AtomicU64,
    written_frames: [AtomicU64; 5],
    reads: AtomicU64,
    read_bytes: AtomicU64,
    received_messages: [AtomicU64; 5],
    dials: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    busy_answers: AtomicU64,
    dropped_frames: AtomicU64,
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficFigures {
    /// Write calls.
    pub writes: u64,
    /// Write calls that found the connection full.
    pub blocked_writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Frames written, by lane.
    pub written_frames: [u64; 5],
    /// Read calls that brought something.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Whole messages received, by lane.
    pub received_messages: [u64; 5],
    /// Attempts to connect to a peer.
    pub dials: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused or closed in their handshake.
    pub refused: u64,
    /// Requests answered `Busy` because the client lane was full.
    pub busy_answers: u64,
    /// Frames dropped because there was no connection.
    pub dropped_frames: u64,
}

fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

impl TrafficCounters {
    pub(crate) fn flushed(&self, flushed: &Flushed) {
        add(&self.writes, flushed.writes);
        add(&self.blocked_writes, u64::from(flushed.blocked));
        add(&self.written_bytes, flushed.bytes);
        for (counter, frames) in self.written_frames.iter().zip(flushed.frames) {
            if frames > 0 {
                add(counter, frames);
            }
        }
    }

    pub(crate) fn read(&self, bytes: usize) {
        add(&self.reads, 1);
        add(&self.read_bytes, bytes as u64);
    }

    pub(crate) fn received(&self, lane: usize, messages: usize) {
        add(&self.received_messages[lane], messages as u64);
    }

    pub(crate) fn dialled(&self) {
        add(&self.dials, 1);
    }

    pub(crate) fn accepted(&self) {
        add(&self.accepted, 1);
    }

    pub(crate) fn refused(&self) {
        add(&self.refused, 1);
    }

    pub(crate) fn busy(&self, answers: usize) {
        add(&self.busy_answers, answers as u64);
    }

    pub(crate) fn dropped(&self) {
        add(&self.dropped_frames, 1);
    }

    /// What was counted so far.
    #[must_use]
    pub fn figures(&self) -> TrafficFigures {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TrafficFigures {
            writes: get(&self.writes),
            blocked_writes: get(&self.blocked_writes),
            written_bytes: get(&self.written_bytes),
            written_frames: self.written_frames.each_ref().map(get),
            reads: get(&self.reads),
            read_bytes: get(&self.read_bytes),
            received_messages: self.received_messages.each_ref().map(get),
            dials: get(&self.dials),
            accepted: get(&self.accepted),
            refused: get(&self.refused),
            busy_answers: get(&self.busy_answers),
            dropped_frames: get(&self.dropped_frames),
        }
    }
}
