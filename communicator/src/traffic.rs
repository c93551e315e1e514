//! Cheap counters over all connections of a communicator.

use crate::outgoing::Flushed;
use quorate_framework::Lane;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters; read with [`TrafficCounters::figures`].
#[derive(Debug, Default)]
pub struct TrafficCounters {
    writes: AtomicU64,
    blocked_writes: AtomicU64,
    written_bytes: AtomicU64,
    written_frames: [AtomicU64; 5],
    reads: AtomicU64,
    empty_reads: AtomicU64,
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
    /// Read calls that brought nothing: nothing was there, or the connection was at its end.
    pub empty_reads: u64,
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

    /// Counts a read, and the read calls before it that brought nothing.
    pub(crate) fn read(&self, bytes: usize, empty_reads: u64) {
        if bytes > 0 {
            add(&self.reads, 1);
            add(&self.read_bytes, bytes as u64);
        }
        if empty_reads > 0 {
            add(&self.empty_reads, empty_reads);
        }
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
            empty_reads: get(&self.empty_reads),
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

impl TrafficFigures {
    /// System calls on connections: writes, blocked ones included, and reads, empty ones included. Accepting, dialling and closing
    /// are no traffic.
    #[must_use]
    pub fn socket_calls(&self) -> u64 {
        self.writes + self.reads + self.empty_reads
    }

    /// Frames written to other replicas. A message beyond the size of a frame counts each of its parts.
    #[must_use]
    pub fn peer_frames_written(&self) -> u64 {
        of_peers(&self.written_frames)
    }

    /// Messages received from other replicas.
    #[must_use]
    pub fn peer_messages_received(&self) -> u64 {
        of_peers(&self.received_messages)
    }
}

/// All lanes but that of clients.
fn of_peers(lanes: &[u64; 5]) -> u64 {
    lanes.iter().sum::<u64>() - lanes[Lane::Client as usize]
}

impl AddAssign for TrafficFigures {
    fn add_assign(&mut self, other: TrafficFigures) {
        let TrafficFigures {
            writes,
            blocked_writes,
            written_bytes,
            written_frames,
            reads,
            empty_reads,
            read_bytes,
            received_messages,
            dials,
            accepted,
            refused,
            busy_answers,
            dropped_frames,
        } = other;
        self.writes += writes;
        self.blocked_writes += blocked_writes;
        self.written_bytes += written_bytes;
        self.reads += reads;
        self.empty_reads += empty_reads;
        self.read_bytes += read_bytes;
        self.dials += dials;
        self.accepted += accepted;
        self.refused += refused;
        self.busy_answers += busy_answers;
        self.dropped_frames += dropped_frames;
        for lane in 0..5 {
            self.written_frames[lane] += written_frames[lane];
            self.received_messages[lane] += received_messages[lane];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_call_is_every_write_and_every_read_whether_or_not_it_moved_something() {
        let counters = TrafficCounters::default();
        counters.read(100, 0);
        counters.read(50, 2);
        counters.read(0, 1);
        counters.flushed(&Flushed { blocked: true, writes: 3, bytes: 70, frames: [1, 2, 3, 4, 5] });
        let figures = counters.figures();
        assert_eq!((figures.reads, figures.empty_reads, figures.read_bytes), (2, 3, 150));
        assert_eq!(figures.socket_calls(), 8);
        assert_eq!(figures.peer_frames_written(), 11, "the fourth lane is that of clients");
        let mut sum = figures;
        sum += figures;
        assert_eq!((sum.socket_calls(), sum.written_frames, sum.read_bytes), (16, [2, 4, 6, 8, 10], 300));
    }
}
