//! What waits to be written on one connection: lanes in order of priority, written by vectored writes. Pure: the write is a closure.
//!
//! Frames start only at frame boundaries; a message longer than a frame is cut into parts only when their turn comes, so that frames
//! of lanes before it pass in between. Bodies are shared chunks, never copied; small frames are copied into blocks, many to a write.

use crate::bounds::LaneBounds;
use crate::frame::{FRAME_CONTENT_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind, MESSAGE_HEAD_BYTES};
use bytes::{Bytes, BytesMut};
use quorate_framework::wire::check_limit;
use quorate_framework::{Encoded, Lane, WireError};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

/// Slices of one vectored write at most.
const SLICES: usize = 128;
/// Bytes of a block of small frames at most; lanes before it wait for one block at most.
const BLOCK_BYTES: usize = 64 << 10;

/// A message on its way out: encoded and checksummed once, shared by all who get it.
#[derive(Clone, Debug)]
pub struct Message {
    lane: Lane,
    kind: FrameKind,
    head: Bytes,
    body: Arc<Vec<Bytes>>,
    body_length: usize,
    /// The header of its first or only frame.
    header: [u8; FRAME_HEADER_BYTES],
}

impl Message {
    /// Prepares a message; no payload is copied.
    ///
    /// # Errors
    /// [`WireError`] if the head or the body is longer than a receiver accepts, or both are empty.
    pub fn new(lane: Lane, kind: FrameKind, encoded: Encoded) -> Result<Message, WireError> {
        let Encoded { head, body } = encoded;
        let body_length = body.iter().map(Bytes::len).sum::<usize>();
        let head_limit = if kind.covers_body() { 0 } else { MESSAGE_HEAD_BYTES };
        check_limit("head length", head.len() as u64, head_limit)?;
        check_limit("message length", body_length as u64, kind.body_limit())?;
        if head.is_empty() && body_length == 0 {
            return Err(WireError::Short { what: "message", needed: 1, present: 0 });
        }
        let mut message = Message { lane, kind, head, body: Arc::new(body), body_length, header: Default::default() };
        message.header = message.header_of(0, message.part_end(0));
        Ok(message)
    }

    /// Bytes of head and body.
    #[must_use]
    pub fn length(&self) -> usize {
        self.head.len() + self.body_length
    }

    fn is_one_frame(&self) -> bool {
        self.length() <= FRAME_CONTENT_BYTES
    }

    /// Where the part that starts at `start` of the body ends.
    fn part_end(&self, start: usize) -> usize {
        let head = if start == 0 { self.head.len() } else { 0 };
        self.body_length.min(start + FRAME_CONTENT_BYTES - head)
    }

    fn header_of(&self, start: usize, end: usize) -> [u8; FRAME_HEADER_BYTES] {
        let header = FrameHeader {
            lane: self.lane,
            kind: self.kind,
            more: end < self.body_length,
            continued: start > 0,
            head_length: if start == 0 { self.head.len() } else { 0 },
            body_length: end - start,
            total_length: self.body_length,
        };
        if self.kind.covers_body() {
            header.encode(self.body_range(start, end))
        } else {
            header.encode((start == 0).then_some(&self.head[..]))
        }
    }

    /// The chunks of a range of the body.
    fn body_range(&self, start: usize, end: usize) -> impl Iterator<Item = &[u8]> {
        let mut offset = 0;
        self.body.iter().filter_map(move |chunk| {
            let (from, to) = (start.max(offset), end.min(offset + chunk.len()));
            let piece = (from < to).then(|| &chunk[from - offset..to - offset]);
            offset += chunk.len();
            piece
        })
    }
}

/// Something in a lane.
#[derive(Debug)]
enum Item {
    /// Whole small frames, copied together.
    Block { bytes: BytesMut, frames: usize },
    /// A message, whose body was sent up to `sent`.
    Message { message: Message, sent: usize },
}

#[derive(Debug, Default)]
struct LaneQueue {
    items: VecDeque<Item>,
    messages: usize,
    bytes: usize,
}

/// The frame or block that is being written; it ends before another starts.
#[derive(Debug)]
struct Current {
    lane: usize,
    item: Item,
    header: [u8; FRAME_HEADER_BYTES],
    /// End of the frame's range of the body.
    body_end: usize,
    length: usize,
    written: usize,
}

/// A lane's bound is reached: nothing was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{messages} messages of {bytes} bytes wait in the lane {lane:?}")]
pub struct OutgoingFull {
    /// The lane.
    pub lane: Lane,
    /// Messages waiting in it.
    pub messages: usize,
    /// Bytes waiting in it.
    pub bytes: usize,
}

/// What a flush wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Whether it ended because the connection takes no more at present.
    pub blocked: bool,
    /// Writes made.
    pub writes: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Frames completed, by lane (a block counts all its frames).
    pub frames: [u64; 5],
}

/// The outgoing lanes of one connection.
#[derive(Debug)]
pub struct OutgoingLanes {
    lanes: [LaneQueue; 5],
    bounds: LaneBounds,
    current: Option<Current>,
    /// Memory of a written block, to be used again.
    spare: Option<BytesMut>,
}

impl OutgoingLanes {
    /// Empty lanes.
    #[must_use]
    pub fn new(bounds: LaneBounds) -> OutgoingLanes {
        OutgoingLanes { lanes: Default::default(), bounds, current: None, spare: None }
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.current.is_none() && self.lanes.iter().all(|lane| lane.items.is_empty())
    }

    /// Messages and bytes that wait, over all lanes.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.lanes.iter().fold((0, 0), |sum, lane| (sum.0 + lane.messages, sum.1 + lane.bytes))
    }

    /// Drops everything that waits.
    pub fn clear(&mut self) {
        *self = OutgoingLanes::new(self.bounds);
    }

    /// Queues a message.
    ///
    /// # Errors
    /// [`OutgoingFull`].
    pub fn push(&mut self, message: Message) -> Result<(), OutgoingFull> {
        let lane = self.admit(message.lane, FRAME_HEADER_BYTES + message.length())?;
        lane.items.push_back(Item::Message { message, sent: 0 });
        Ok(())
    }

    /// Queues a small frame of a kind without a head by copying it; together the pieces fit a frame.
    ///
    /// # Errors
    /// [`OutgoingFull`].
    pub fn push_small(&mut self, lane: Lane, kind: FrameKind, pieces: &[&[u8]]) -> Result<(), OutgoingFull> {
        let body_length = pieces.iter().map(|piece| piece.len()).sum();
        debug_assert!(kind.covers_body() && (1..=FRAME_CONTENT_BYTES).contains(&body_length), "a small frame");
        let header = FrameHeader {
            lane,
            kind,
            more: false,
            continued: false,
            head_length: 0,
            body_length,
            total_length: body_length,
        };
        let length = FRAME_HEADER_BYTES + body_length;
        let spare = &mut self.spare.take();
        let queue = self.admit(lane, length)?;
        if !matches!(queue.items.back(), Some(Item::Block { bytes, .. }) if bytes.len() + length <= BLOCK_BYTES) {
            queue.items.push_back(Item::Block { bytes: spare.take().unwrap_or_default(), frames: 0 });
        }
        if let Some(Item::Block { bytes, frames }) = queue.items.back_mut() {
            bytes.extend_from_slice(&header.encode(pieces.iter().copied()));
            pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
            *frames += 1;
        }
        self.spare = spare.take();
        Ok(())
    }

    fn admit(&mut self, lane: Lane, length: usize) -> Result<&mut LaneQueue, OutgoingFull> {
        let bound = self.bounds[lane as usize];
        let queue = &mut self.lanes[lane as usize];
        let full = queue.messages >= bound.messages || queue.bytes + length > bound.bytes;
        if full && queue.messages > 0 {
            return Err(OutgoingFull { lane, messages: queue.messages, bytes: queue.bytes });
        }
        queue.messages += 1;
        queue.bytes += length;
        Ok(queue)
    }

    /// Writes until nothing waits or `write` would block.
    ///
    /// # Errors
    /// Those of `write`, other than would-block and interruption.
    pub fn flush(&mut self, mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<Flushed> {
        let mut flushed = Flushed::default();
        while self.start_next() {
            let mut gather = Gather { slices: [IoSlice::new(&[]); SLICES], count: 0 };
            self.gather(&mut gather);
            flushed.writes += 1;
            match write(&gather.slices[..gather.count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    flushed.bytes += count as u64;
                    self.consume(count, &mut flushed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    flushed.blocked = true;
                    return Ok(flushed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(flushed)
    }

    /// Makes sure that a frame is current; false if nothing waits.
    fn start_next(&mut self) -> bool {
        if self.current.is_some() {
            return true;
        }
        let Some(lane) = self.lanes.iter().position(|lane| !lane.items.is_empty()) else { return false };
        let Some(item) = self.lanes[lane].items.pop_front() else { return false };
        let (header, body_end, length) = match &item {
            Item::Block { bytes, .. } => (Default::default(), 0, bytes.len()),
            Item::Message { message, sent } => {
                let end = message.part_end(*sent);
                let header = if *sent == 0 { message.header } else { message.header_of(*sent, end) };
                let head = if *sent == 0 { message.head.len() } else { 0 };
                (header, end, FRAME_HEADER_BYTES + head + end - sent)
            }
        };
        self.current = Some(Current { lane, item, header, body_end, length, written: 0 });
        true
    }

    /// Gathers what is to be written next, in the very order in which [`OutgoingLanes::consume`] starts frames: the current frame,
    /// then the lanes, up to the first message that travels in parts.
    fn gather<'a>(&'a self, gather: &mut Gather<'a>) {
        let Some(current) = &self.current else { return };
        let mut skip = current.written;
        match &current.item {
            Item::Block { bytes, .. } => gather.push(bytes, &mut skip),
            Item::Message { message, sent } => {
                gather.message(message, &current.header, *sent, current.body_end, &mut skip);
            }
        }
        let parts_follow = current.parts_follow();
        for (lane, queue) in self.lanes.iter().enumerate() {
            if parts_follow && lane == current.lane {
                return;
            }
            for item in &queue.items {
                match item {
                    _ if gather.count == SLICES => return,
                    Item::Block { bytes, .. } => gather.push(bytes, &mut 0),
                    Item::Message { message, sent: 0 } if message.is_one_frame() => {
                        gather.message(message, &message.header, 0, message.body_length, &mut 0);
                    }
                    Item::Message { .. } => return,
                }
            }
        }
    }

    fn consume(&mut self, mut count: usize, flushed: &mut Flushed) {
        while count > 0 && self.start_next() {
            let Some(current) = &mut self.current else { return };
            let step = count.min(current.length - current.written);
            current.written += step;
            count -= step;
            if current.written == current.length
                && let Some(complete) = self.current.take()
            {
                self.complete(complete, flushed);
            }
        }
        debug_assert_eq!(count, 0, "no more is written than was gathered");
    }

    fn complete(&mut self, current: Current, flushed: &mut Flushed) {
        let parts_follow = current.parts_follow();
        let queue = &mut self.lanes[current.lane];
        match current.item {
            Item::Block { mut bytes, frames } => {
                flushed.frames[current.lane] += frames as u64;
                queue.messages -= frames;
                queue.bytes -= bytes.len();
                bytes.clear();
                self.spare = Some(bytes);
            }
            Item::Message { message, .. } => {
                flushed.frames[current.lane] += 1;
                if parts_follow {
                    queue.items.push_front(Item::Message { message, sent: current.body_end });
                } else {
                    queue.messages -= 1;
                    queue.bytes -= FRAME_HEADER_BYTES + message.length();
                }
            }
        }
    }
}

impl Current {
    fn parts_follow(&self) -> bool {
        matches!(&self.item, Item::Message { message, .. } if self.body_end < message.body_length)
    }
}

struct Gather<'a> {
    slices: [IoSlice<'a>; SLICES],
    count: usize,
}

impl<'a> Gather<'a> {
    fn push(&mut self, piece: &'a [u8], skip: &mut usize) {
        if *skip >= piece.len() {
            *skip -= piece.len();
        } else if let Some(slice) = self.slices.get_mut(self.count) {
            *slice = IoSlice::new(&piece[*skip..]);
            self.count += 1;
            *skip = 0;
        }
    }

    fn message(&mut self, message: &'a Message, header: &'a [u8], start: usize, end: usize, skip: &mut usize) {
        self.push(header, skip);
        if start == 0 {
            self.push(&message.head, skip);
        }
        for chunk in message.body_range(start, end) {
            if self.count == SLICES {
                return;
            }
            self.push(chunk, skip);
        }
    }
}

#[cfg(test)]
#[path = "outgoing_tests.rs"]
mod tests;
