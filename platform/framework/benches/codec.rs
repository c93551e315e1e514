//! What the codec costs: building and reading back the group of a turn, and the headers of requests and answers. The time shown is
//! for the whole group; the throughput is per entry or header.
#![allow(missing_docs)]

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quorate_framework::entry::{EntryKind, GroupBuilder, decode_group, group_checksum, share_entries};
use quorate_framework::{ClientFrame, Position, ReplyHeader, ReplyKind, RequestHeader, Sequence, SessionId, Status};
use std::hint::black_box;

const SESSION: SessionId = SessionId { position: Position(1), offset: 0 };
/// A term and an index, as Raft's entries have them.
const HEAD: [u8; 16] = [7; 16];

/// Frames as they come from a client, each in memory of its own.
fn frames(count: usize, body_bytes: usize) -> Vec<Bytes> {
    let frame = |sequence| {
        let header = RequestHeader::in_session(SESSION, Sequence(sequence as u64 + 1));
        ClientFrame::new(&header, &vec![b'v'; body_bytes]).expect("a frame within limits").bytes
    };
    (0..count).map(frame).collect()
}

fn build(frames: &[Bytes]) -> Vec<quorate_framework::entry::Entry> {
    let bytes = frames.iter().map(|frame| frame.len() + 64).sum();
    let mut builder = GroupBuilder::with_capacity(bytes, frames.len());
    frames.iter().for_each(|frame| builder.push(EntryKind::Request, &HEAD, frame));
    builder.finish()
}

fn groups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("group");
    for (count, body_bytes) in [(1, 120), (64, 120), (64, 1_500), (16, 64 << 10)] {
        group.throughput(Throughput::Elements(count as u64));
        let frames = frames(count, body_bytes);
        let name = |what: &str| format!("{what} {count} entries of {body_bytes} bytes");
        group.bench_function(name("build"), |bencher| bencher.iter(|| build(black_box(&frames))));
        let entries = build(&frames);
        let mut encoded = Vec::new();
        share_entries(&entries, |chunk| encoded.extend_from_slice(&chunk));
        let encoded = Bytes::from(encoded);
        group.bench_function(name("read back"), |bencher| {
            bencher
                .iter(|| decode_group(black_box(encoded.clone()), count as u32).expect("what was built is understood"));
        });
        group.bench_function(name("checksum of"), |bencher| bencher.iter(|| group_checksum(black_box(&entries))));
    }
    group.finish();
}

fn headers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("header");
    group.throughput(Throughput::Elements(1));
    let frame = frames(1, 120).remove(0);
    let request = RequestHeader::in_session(SESSION, Sequence(7));
    let reply = ReplyHeader {
        status: Status::Ok,
        kind: ReplyKind::Committed,
        hint: None,
        session: SESSION,
        sequence: Sequence(7),
        position: Position(9),
    };
    let mut encoded = Vec::new();
    reply.encode(&mut encoded);
    let encoded = Bytes::from(encoded);
    let mut output = Vec::with_capacity(64);
    group.bench_function("encode a request's", |bencher| {
        bencher.iter(|| {
            output.clear();
            black_box(&request).encode(&mut output);
        });
    });
    group.bench_function("parse a request", |bencher| {
        bencher.iter(|| ClientFrame::parse(black_box(frame.clone())).expect("a sound frame"));
    });
    group.bench_function("encode an answer's", |bencher| {
        bencher.iter(|| {
            output.clear();
            black_box(&reply).encode(&mut output);
        });
    });
    group.bench_function("decode an answer's", |bencher| {
        bencher.iter(|| ReplyHeader::decode(black_box(encoded.clone())).expect("a sound header"));
    });
    group.finish();
}

criterion_group!(codec, groups, headers);
criterion_main!(codec);
