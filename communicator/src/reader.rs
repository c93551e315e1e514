//! Reads a connection: bytes in, whole messages out.
//!
//! One task owns a reader. [`FrameReader::fill`] makes one read; [`FrameReader::next_message`] then gives every message that is
//! complete. All state lies in the reader, so a frame is never half consumed, whatever becomes of a read.
//!
//! Memory: a body between replicas lies in an allocation of exactly its own length, so that what a log keeps of it pins nothing else.
//! Heads, and the payloads of client frames below [`limits::SHARED_PAYLOAD_BYTES`], are slices of the read buffer: to be decoded or
//! copied soon, not to be kept.

use crate::bounds::DIRECT_READ_BYTES;
use crate::budget::{Budget, Permit};
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, verify};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_framework::{Lane, WireError, limits};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What a connection may carry towards its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Handshake frames.
    Handshake,
    /// Frames between replicas.
    Peer,
    /// Clients' requests.
    Requests,
    /// Answers to clients.
    Replies,
    /// What a peer that pulls a snapshot says.
    Fetches,
    /// The parts of a snapshot.
    Chunks,
}

impl Expected {
    fn check(self, kind: FrameKind) -> Result<(), WireError> {
        let right = match self {
            Expected::Handshake => kind.is_handshake(),
            Expected::Peer => kind.peer_class().is_some(),
            Expected::Requests => kind == FrameKind::Request,
            Expected::Replies => kind == FrameKind::Reply,
            Expected::Fetches => kind == FrameKind::Fetch,
            Expected::Chunks => kind == FrameKind::Chunk,
        };
        if right {
            Ok(())
        } else {
            Err(WireError::Meaningless { what: "frame class on this connection", value: kind as u64 })
        }
    }
}

/// A whole message, put together from its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The lane it came in.
    pub lane: Lane,
    /// What it is.
    pub kind: FrameKind,
    /// Its head; a slice of the read buffer.
    pub head: Bytes,
    /// Its body.
    pub body: Bytes,
}

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// The sender has closed.
    Closed,
    /// Bytes.
    Read {
        /// How many.
        bytes: usize,
        /// Whether they filled the room there was: more is probably waiting.
        filled: bool,
    },
}

/// A message whose body is being gathered in memory of its own.
#[derive(Debug)]
struct Assembly {
    lane: Lane,
    kind: FrameKind,
    head: Bytes,
    body: BytesMut,
    total_length: usize,
    _permit: Option<Permit>,
}

/// A frame whose body is being read straight into its message.
#[derive(Debug)]
struct Direct {
    header: FrameHeader,
    header_bytes: [u8; FRAME_HEADER_BYTES],
    assembly: Assembly,
    start: usize,
    end: usize,
}

/// The read calls that brought nothing. A runtime does not say whether a read that has to wait has asked the kernel before; it asks
/// exactly if the read before it filled its room, since it cannot know then that nothing is left.
#[derive(Debug, Default)]
struct EmptyReads {
    asks_first: bool,
    count: u64,
}

impl EmptyReads {
    /// Makes one read into `room` bytes.
    async fn watch(&mut self, room: usize, read: impl Future<Output = io::Result<usize>>) -> io::Result<usize> {
        let mut read = pin!(read);
        let asks_first = &mut self.asks_first;
        let count = &mut self.count;
        let bytes = poll_fn(|context| {
            let polled = read.as_mut().poll(context);
            *count += u64::from(polled.is_pending() && std::mem::take(asks_first));
            polled
        })
        .await?;
        self.asks_first = bytes == room;
        self.count += u64::from(bytes == 0);
        Ok(bytes)
    }
}

/// Reads one connection.
#[derive(Debug)]
pub struct FrameReader {
    expected: Expected,
    buffer: BytesMut,
    assemblies: [Option<Assembly>; 5],
    direct: Option<Direct>,
    budget: Option<Arc<Budget>>,
    empty_reads: EmptyReads,
}

impl FrameReader {
    /// A reader for a new connection. Allocates nothing before the first read.
    #[must_use]
    pub fn new(expected: Expected) -> FrameReader {
        FrameReader {
            expected,
            buffer: BytesMut::new(),
            assemblies: Default::default(),
            direct: None,
            budget: None,
            empty_reads: EmptyReads::default(),
        }
    }

    /// Says what may come from now on.
    pub fn expect(&mut self, expected: Expected) {
        self.expected = expected;
    }

    /// Takes the memory of unfinished messages from `budget`.
    pub fn limit_by(&mut self, budget: Arc<Budget>) {
        self.budget = Some(budget);
    }

    /// The lane of a large message that has begun and is not complete.
    #[must_use]
    pub fn unfinished(&self) -> Option<Lane> {
        let direct = self.direct.as_ref().map(|direct| direct.assembly.lane);
        direct.or_else(|| self.assemblies.iter().flatten().map(|assembly| assembly.lane).next())
    }

    /// Whether the last message ended where the bytes end.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.buffer.is_empty() && self.unfinished().is_none()
    }

    /// Makes one read. Waits until there is something to read. Cancelling it loses nothing.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn fill<R: AsyncRead + Unpin>(&mut self, source: &mut R) -> io::Result<Fill> {
        let (room, bytes) = if let Some(direct) = &mut self.direct {
            let room = direct.end - direct.assembly.body.len();
            let mut rest = (&mut direct.assembly.body).limit(room);
            (room, self.empty_reads.watch(room, source.read_buf(&mut rest)).await?)
        } else {
            self.make_room();
            let room = self.buffer.capacity() - self.buffer.len();
            (room, self.empty_reads.watch(room, source.read_buf(&mut self.buffer)).await?)
        };
        Ok(if bytes == 0 { Fill::Closed } else { Fill::Read { bytes, filled: bytes == room } })
    }

    /// Read calls that brought nothing (nothing was there, or the end), since this was last asked.
    pub fn take_empty_reads(&mut self) -> u64 {
        std::mem::take(&mut self.empty_reads.count)
    }

    /// The next complete message of what was read.
    ///
    /// # Errors
    /// [`WireError`] on anything that a peer within its limits would not have sent; the connection is then of no further use.
    pub fn next_message(&mut self) -> Result<Option<Received>, WireError> {
        loop {
            if self.direct.is_some() {
                match self.finish_direct()? {
                    Some(Some(message)) => return Ok(Some(message)),
                    Some(None) => continue,
                    None => return Ok(None),
                }
            }
            let Some(header_bytes) = self.buffer.first_chunk::<FRAME_HEADER_BYTES>().copied() else { return Ok(None) };
            let header = FrameHeader::decode(&header_bytes)?;
            self.expected.check(header.kind)?;
            let body_start = FRAME_HEADER_BYTES + header.head_length;
            let Some(available) = self.buffer.len().checked_sub(body_start) else { return Ok(None) };
            if available < header.body_length {
                let missing = header.body_length - available;
                if header.is_part() || missing >= DIRECT_READ_BYTES {
                    verify_front(&header, &header_bytes, &self.buffer)?;
                    self.begin_direct(header, header_bytes)?;
                }
                return Ok(None);
            }
            let covered_end = body_start + if header.kind.covers_body() { header.body_length } else { 0 };
            verify(&header_bytes, [&self.buffer[FRAME_HEADER_BYTES..covered_end]])?;
            if !header.is_part() {
                return self.take_whole(&header).map(Some);
            }
            let mut assembly = self.assembly_for(&header)?;
            self.buffer.advance(body_start);
            assembly.body.extend_from_slice(&self.buffer[..header.body_length]);
            self.buffer.advance(header.body_length);
            if let Some(message) = self.settle(assembly, header.more) {
                return Ok(Some(message));
            }
        }
    }

    /// Takes a message that lies in the buffer as one frame.
    fn take_whole(&mut self, header: &FrameHeader) -> Result<Received, WireError> {
        if self.assemblies[header.lane as usize].is_some() {
            return Err(interleaved(header));
        }
        self.buffer.advance(FRAME_HEADER_BYTES);
        let head = match header.head_length {
            0 => Bytes::new(),
            length => self.buffer.split_to(length).freeze(),
        };
        let may_share = matches!(header.kind, FrameKind::Request | FrameKind::Reply);
        let body = if header.body_length == 0 {
            Bytes::new()
        } else if may_share && header.body_length < limits::SHARED_PAYLOAD_BYTES {
            self.buffer.split_to(header.body_length).freeze()
        } else {
            let body = Bytes::copy_from_slice(&self.buffer[..header.body_length]);
            self.buffer.advance(header.body_length);
            body
        };
        Ok(Received { lane: header.lane, kind: header.kind, head, body })
    }

    /// Moves the front of a frame out of the buffer; the rest of its body is read straight to its place.
    fn begin_direct(&mut self, header: FrameHeader, header_bytes: [u8; FRAME_HEADER_BYTES]) -> Result<(), WireError> {
        let mut assembly = self.assembly_for(&header)?;
        let start = assembly.body.len();
        assembly.body.extend_from_slice(&self.buffer[FRAME_HEADER_BYTES + header.head_length..]);
        self.buffer.clear();
        let end = start + header.body_length;
        self.direct = Some(Direct { header, header_bytes, assembly, start, end });
        Ok(())
    }

    /// None: the frame is not complete. Otherwise the message, if the frame was its last part.
    fn finish_direct(&mut self) -> Result<Option<Option<Received>>, WireError> {
        let Some(direct) = self.direct.take_if(|direct| direct.assembly.body.len() == direct.end) else {
            return Ok(None);
        };
        if direct.header.kind.covers_body() {
            verify(&direct.header_bytes, [&direct.assembly.body[direct.start..]])?;
        }
        Ok(Some(self.settle(direct.assembly, direct.header.more)))
    }

    /// The message that a part or a large frame belongs to. Its memory is taken here, after every length was checked.
    fn assembly_for(&mut self, header: &FrameHeader) -> Result<Assembly, WireError> {
        let begun = self.assemblies[header.lane as usize].take();
        match (header.continued, begun) {
            (true, Some(assembly)) => {
                let sum = assembly.body.len() + header.body_length;
                let right = assembly.kind == header.kind
                    && assembly.total_length == header.total_length
                    && if header.more { sum < assembly.total_length } else { sum == assembly.total_length };
                if right { Ok(assembly) } else { Err(interleaved(header)) }
            }
            (false, None) => {
                let permit = self.budget.as_ref().map(|budget| budget.take(header.total_length)).transpose()?;
                let head = &self.buffer[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + header.head_length];
                Ok(Assembly {
                    lane: header.lane,
                    kind: header.kind,
                    head: Bytes::copy_from_slice(head),
                    body: BytesMut::with_capacity(header.total_length),
                    total_length: header.total_length,
                    _permit: permit,
                })
            }
            _ => Err(interleaved(header)),
        }
    }

    fn settle(&mut self, assembly: Assembly, more: bool) -> Option<Received> {
        if more {
            let lane = assembly.lane as usize;
            self.assemblies[lane] = Some(assembly);
            return None;
        }
        let Assembly { lane, kind, head, body, .. } = assembly;
        Some(Received { lane, kind, head, body: body.freeze() })
    }

    /// Makes room for a good read: the buffer's own memory again if nobody holds a slice of it, otherwise the rest of it while it is
    /// large enough, otherwise a new buffer.
    fn make_room(&mut self) {
        if self.buffer.is_empty() && self.buffer.try_reclaim(limits::READ_BUFFER_BYTES) {
            return;
        }
        if self.buffer.capacity() - self.buffer.len() >= limits::READ_BUFFER_BYTES / 4 {
            return;
        }
        let mut fresh = BytesMut::with_capacity(limits::READ_BUFFER_BYTES);
        fresh.extend_from_slice(&self.buffer);
        self.buffer = fresh;
    }
}

/// Checks the CRC of a frame between replicas as soon as its head is there.
fn verify_front(header: &FrameHeader, header_bytes: &[u8; FRAME_HEADER_BYTES], buffer: &[u8]) -> Result<(), WireError> {
    if header.kind.covers_body() {
        return Ok(());
    }
    verify(header_bytes, [&buffer[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + header.head_length]])
}

fn interleaved(header: &FrameHeader) -> WireError {
    WireError::Meaningless { what: "frame between the parts of its lane", value: header.lane as u64 }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
