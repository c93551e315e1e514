//! Goes through the trace of a replica and checks, at each moment, that what it says and removes is covered by what survives.

use super::contents::{Content, Group, contents, hard_state};
use super::disk::TracedDisk;
use super::frames::{Sent, promises};
use quorate_cluster_tests::strace::{Call, read_trace};
use quorate_framework::ReplicaId;
use quorate_raft::{AppendOutcome, HardState, RaftPromise, Term};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

/// What a trace had in it, so that a test sees that its subject came up at all.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Votes that were given to others: the term, and whom the metadata name.
    pub(crate) votes: Vec<(Term, ReplicaId)>,
    /// Candidacies: the terms.
    pub(crate) candidacies: Vec<Term>,
    /// First groups of the segments in which an entry lies that was acknowledged.
    pub(crate) acknowledged_segments: BTreeSet<u64>,
    /// Seals.
    pub(crate) seals: u64,
    /// Positions of the snapshots that metadata named.
    pub(crate) snapshots: BTreeSet<u64>,
    /// Segments that were freed or removed, and snapshots that were removed, after they had been in use.
    pub(crate) released_segments: u64,
    pub(crate) removed_snapshots: u64,
}

/// Something that happens in a trace.
enum Event<'a> {
    Began(&'a Call, Option<&'a Rc<Content>>),
    Ended(&'a Call, Option<&'a Rc<Content>>),
    Sent(&'a Sent),
}

/// Checks the trace of a replica whose data are in `directory`.
pub(crate) fn check(trace: &Path, directory: &Path) -> Seen {
    let calls = read_trace(trace);
    let sent = promises(&calls);
    let contents = contents(&calls);
    let mut events: Vec<(usize, u8, Event<'_>)> = Vec::new();
    for (call, content) in calls.iter().zip(&contents).filter(|(call, _)| call.connection().is_none()) {
        events.push((call.begin, 0, Event::Began(call, content.as_ref())));
        events.push((call.end, 1, Event::Ended(call, content.as_ref())));
    }
    events.extend(sent.iter().map(|sent| (sent.line, 0, Event::Sent(sent))));
    events.sort_by_key(|(line, order, _)| (*line, *order));
    let mut replay = Replay { disk: TracedDisk::new(directory), seen: Seen::default() };
    for (line, _, event) in events {
        // Whoever reads a failure finds the place.
        let at = format!("line {} of the trace", line + 1);
        match event {
            Event::Began(call, content) => replay.began(call, content, &at),
            Event::Ended(call, content) => replay.disk.ended(call, content),
            Event::Sent(sent) => replay.sent(&sent.promise, &at),
        }
    }
    replay.seen
}

struct Replay {
    disk: TracedDisk,
    seen: Seen,
}

impl Replay {
    fn began(&mut self, call: &Call, content: Option<&Rc<Content>>, at: &str) {
        match call.name.as_str() {
            "rename" | "renameat" | "renameat2" => self.renames(call, at),
            "unlink" | "unlinkat" => self.removes(&call.named_paths()[0], at),
            _ => match (content.map(|content| &**content), call.path()) {
                (Some(Content::Group(group)), Some(path)) => self.appends(group, &path, at),
                (Some(Content::Free), Some(path)) => self.frees(&path, at),
                _ => {}
            },
        }
    }

    /// A file gets its final name only when all of it survives; metadata name only a snapshot that does.
    fn renames(&mut self, call: &Call, at: &str) {
        let [from, to] = &call.named_paths()[..] else { panic!("{call:?}") };
        assert!(self.disk.survives(from, false), "{at}: {} is renamed and not synced", from.display());
        if !to.ends_with("metadata.dat") {
            return;
        }
        let named = self.disk.metadata_in(from).snapshot.as_ref().map(|base| base.position.0);
        if let Some(position) = named.filter(|position| !self.seen.snapshots.contains(position)) {
            let snapshot = to.with_file_name(format!("snapshot-{position:016x}.dat"));
            let survives = self.disk.survives(&snapshot, true);
            assert!(survives, "{at}: metadata name the snapshot at {position}, which would not survive");
            self.seen.snapshots.insert(position);
        }
    }

    fn removes(&mut self, path: &Path, at: &str) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".wal") {
            self.frees(path, at);
        } else if let Some(digits) = name.strip_prefix("snapshot-").and_then(|rest| rest.strip_suffix(".dat")) {
            let position = u64::from_str_radix(digits, 16).unwrap();
            let named = self.disk.metadata.last().unwrap().snapshot.as_ref().map(|base| base.position.0);
            assert!(named > Some(position), "{at}: the snapshot at {position} is removed; that at {named:?} is named");
            self.seen.removed_snapshots += 1;
        }
    }

    /// A live segment is given up only when the surviving metadata begin the log after it.
    fn frees(&mut self, path: &Path, at: &str) {
        let Some((_, first)) = self.disk.segment(path) else { return };
        let log_begins = self.disk.metadata.last().unwrap().first_group;
        assert!(log_begins > first, "{at}: {} begins with group {first}, the log with {log_begins}", path.display());
        self.seen.released_segments += 1;
    }

    /// A seal names a segment that survives; the first group of a segment follows a seal that does.
    fn appends(&mut self, group: &Group, path: &Path, at: &str) {
        if let Some((salt, first_group)) = group.seal {
            let survives = self.disk.has_segment(salt, first_group);
            assert!(survives, "{at}: a seal names the segment of group {first_group}, which would not survive");
            self.seen.seals += 1;
        }
        let (salt, first_group) = self.disk.segment(path).unwrap();
        assert_eq!(salt, group.salt, "{at}: a group of another life");
        if group.sequence == first_group && first_group > 1 {
            let survives = self.disk.has_seal(salt, first_group);
            assert!(survives, "{at}: group {first_group} begins a segment whose seal would not survive");
        }
    }

    fn sent(&mut self, promise: &RaftPromise, at: &str) {
        let (term, acknowledged) = match promise {
            RaftPromise::RequestVote(request) => {
                self.vote(request.term, at);
                self.seen.candidacies.push(request.term);
                (request.term, 0)
            }
            RaftPromise::VoteReply(reply) => {
                if reply.granted {
                    let voted = self.vote(reply.requested, at);
                    self.seen.votes.extend(voted.map(|voted| (reply.requested, voted)));
                }
                (reply.term, 0)
            }
            RaftPromise::AppendReply(reply) => match reply.outcome {
                AppendOutcome::Matched(index) => (reply.term, index.0),
                _ => (reply.term, 0),
            },
            RaftPromise::HeartbeatReply(reply) => (reply.term, reply.matched.0),
            RaftPromise::InstallSnapshotReply(_) => panic!("{at}: nobody was offered a snapshot"),
        };
        let known = self.disk.metadata.last().map_or(Term(0), |metadata| hard_state(metadata).term);
        assert!(term <= known, "{at}: {promise:?} left while the surviving metadata know term {known}");
        if acknowledged > 0 {
            let (last, segment) = self.disk.last_index();
            assert!(acknowledged <= last, "{at}: {promise:?} left while the surviving log ends with {last}");
            self.seen.acknowledged_segments.insert(segment);
        }
    }

    /// For whom the surviving metadata vote, or have voted, in a term. None if they know a later term: then it and the vote became
    /// durable with one writing, and nobody else can have a vote in the earlier term any more.
    fn vote(&self, term: Term, at: &str) -> Option<ReplicaId> {
        let states: Vec<HardState> = self.disk.metadata.iter().map(hard_state).collect();
        let voted = states.iter().filter(|state| state.term == term).find_map(|state| state.voted_for);
        let is_over = states.last().is_some_and(|state| state.term > term);
        assert!(voted.is_some() || is_over, "{at}: a vote in term {term} left; the metadata that survived: {states:?}");
        voted
    }
}
