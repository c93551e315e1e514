//! What a traced process said to its peers.

use bytes::Bytes;
use quorate_cluster_tests::strace::Call;
use quorate_communicator::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use quorate_framework::{Decoder, Wire};
use quorate_raft::RaftPromise;
use std::collections::BTreeMap;

/// A promise that left.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Line of the trace at which the call began that took its first byte away.
    pub(crate) line: usize,
    pub(crate) promise: RaftPromise,
}

/// What went out on one connection.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    /// Where the bytes of each call begin, and at which line it began.
    calls: Vec<(usize, usize)>,
}

impl Stream {
    /// The line at which the byte at an offset left.
    fn line_of(&self, offset: usize) -> usize {
        let place = self.calls.partition_point(|(begin, _)| *begin <= offset);
        self.calls[place - 1].1
    }

    fn promises(&self, list: &mut Vec<Sent>) {
        let mut offset = 0;
        // The last frame may be cut off by the end of the process.
        while let Some(header) = self.bytes[offset..].first_chunk::<FRAME_HEADER_BYTES>() {
            let header = FrameHeader::decode(header).unwrap();
            let head = offset + FRAME_HEADER_BYTES;
            let body = head + header.head_length;
            let end = body + header.body_length;
            if end > self.bytes.len() {
                return;
            }
            if header.kind == FrameKind::Promise {
                let decoder = Decoder::new(&self.bytes[head..body], Bytes::copy_from_slice(&self.bytes[body..end]));
                list.push(Sent { line: self.line_of(offset), promise: RaftPromise::decode(decoder).unwrap() });
            }
            offset = end;
        }
    }
}

/// All promises that left, in the order in which they did.
pub(crate) fn promises(calls: &[Call]) -> Vec<Sent> {
    let mut streams: BTreeMap<&str, Stream> = BTreeMap::new();
    for call in calls {
        if let Some(connection) = call.connection()
            && call.result > 0
        {
            let stream = streams.entry(connection).or_default();
            stream.calls.push((stream.bytes.len(), call.begin));
            stream.bytes.extend(call.written());
            assert_eq!(stream.bytes.len() - stream.calls.last().unwrap().0, call.result as usize, "all of it is kept");
        }
    }
    let mut list = Vec::new();
    // The others are answers to `/status`.
    for stream in streams.values().filter(|stream| !stream.bytes.starts_with(b"HTTP/")) {
        stream.promises(&mut list);
    }
    list.sort_by_key(|sent| sent.line);
    list
}
