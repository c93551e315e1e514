//! What Raft replicas say to one another.
//!
//! A message promises nothing and leaves at once. A promise is relied on after a crash, so it leaves only once the records it depends
//! on are durable. A leader's term is durable since its candidacy, so what a leader says is a message.

use crate::install::{InstallSnapshot, InstallSnapshotReply};
use crate::term::{Term, read_entry_head};
use quorate_framework::entry::{SharedEntries, decode_group, share_entries};
use quorate_framework::{Decoder, Encoder, Lane, Position, Wire, WireError, control};
use serde::{Deserialize, Serialize};

/// A message: sent freely.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RaftMessage {
    /// Entries to be appended after a known one (Raft §5.3).
    Append(Append),
    /// A sign of life; appends nothing and is never refused for a gap.
    Heartbeat(Heartbeat),
    /// Would you vote for me in this term? (Ongaro's thesis §9.6)
    PreVote(VoteRequest),
    /// The answer; binds nobody.
    PreVoteReply(VoteReply),
    /// A snapshot is ready to be pulled (Raft §7).
    InstallSnapshot(InstallSnapshot),
}

/// A promise: sent once what it depends on is durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RaftPromise {
    /// A candidate's request; promises that it voted for itself.
    RequestVote(VoteRequest),
    /// A vote, or its refusal.
    VoteReply(VoteReply),
    /// What became of an append.
    AppendReply(AppendReply),
    /// The answer to a heartbeat.
    HeartbeatReply(HeartbeatReply),
    /// What became of an offered snapshot.
    InstallSnapshotReply(InstallSnapshotReply),
}

/// Entries to be appended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Append {
    /// The leader's term.
    pub term: Term,
    /// Number of this request among those to this follower; echoed by the reply.
    pub request: u64,
    /// Index of the entry before the first.
    pub previous_index: Position,
    /// Its term.
    pub previous_term: Term,
    /// The leader's commit index.
    pub commit: Position,
    /// The entries: consecutive from `previous_index` + 1.
    pub entries: SharedEntries,
}

/// A sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The leader's term.
    pub term: Term,
    /// Number of the round; echoed by the reply.
    pub round: u64,
    /// The smaller of the leader's commit index and what this follower is known to hold.
    pub commit: Position,
}

/// A request for a vote or a pre-vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VoteRequest {
    /// The term asked for; with a pre-vote, the one after the asker's.
    pub term: Term,
    /// Index of the asker's last entry.
    pub last_index: Position,
    /// Its term.
    pub last_term: Term,
}

/// The answer to a request for a vote or a pre-vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VoteReply {
    /// The answerer's term.
    pub term: Term,
    /// The term that was asked for.
    pub requested: Term,
    /// Whether the vote is given.
    pub granted: bool,
}

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AppendReply {
    /// The answerer's term.
    pub term: Term,
    /// The request answered.
    pub request: u64,
    /// What became of it.
    pub outcome: AppendOutcome,
}

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AppendOutcome {
    /// The log equals the leader's up to here: the last entry of *that* request, never the follower's own last.
    Matched(Position),
    /// The previous entry is not there.
    Conflict {
        /// The term of the entry that is there instead; none if the log is too short.
        term: Option<Term>,
        /// The first index of that term; if the log is too short, the index after its last.
        index: Position,
    },
    /// The sender's term is over.
    StaleTerm,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeartbeatReply {
    /// The answerer's term.
    pub term: Term,
    /// The round answered.
    pub round: u64,
    /// The largest index that was verified against this leader's log and is durable.
    pub matched: Position,
}

const APPEND: u8 = 1;
const HEARTBEAT: u8 = 2;
const PRE_VOTE: u8 = 3;
const PRE_VOTE_REPLY: u8 = 4;
const REQUEST_VOTE: u8 = 5;
const VOTE_REPLY: u8 = 6;
const APPEND_REPLY: u8 = 7;
const HEARTBEAT_REPLY: u8 = 8;
const INSTALL_SNAPSHOT: u8 = 9;
const INSTALL_SNAPSHOT_REPLY: u8 = 10;

fn put<T: Serialize>(encoder: &mut Encoder, tag: u8, value: &T) {
    encoder.put_u8(tag);
    control::encode(value, encoder.head_mut());
}

fn get<T: serde::de::DeserializeOwned>(decoder: &mut Decoder<'_>, what: &'static str) -> Result<T, WireError> {
    control::decode(what, decoder.rest_of_head())
}

impl Wire for RaftMessage {
    fn lane(&self) -> Lane {
        match self {
            RaftMessage::Append(_) => Lane::Replication,
            // Only the offer; the snapshot has its own connection.
            RaftMessage::Heartbeat(_)
            | RaftMessage::PreVote(_)
            | RaftMessage::PreVoteReply(_)
            | RaftMessage::InstallSnapshot(_) => Lane::Control,
        }
    }

    fn encode(&self, encoder: &mut Encoder) {
        match self {
            RaftMessage::Append(append) => append.encode(encoder),
            RaftMessage::Heartbeat(heartbeat) => put(encoder, HEARTBEAT, heartbeat),
            RaftMessage::PreVote(request) => put(encoder, PRE_VOTE, request),
            RaftMessage::PreVoteReply(reply) => put(encoder, PRE_VOTE_REPLY, reply),
            RaftMessage::InstallSnapshot(offer) => put(encoder, INSTALL_SNAPSHOT, offer),
        }
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<RaftMessage, WireError> {
        let message = match decoder.u8("message tag")? {
            APPEND => RaftMessage::Append(Append::decode(&mut decoder)?),
            HEARTBEAT => RaftMessage::Heartbeat(get(&mut decoder, "heartbeat")?),
            PRE_VOTE => RaftMessage::PreVote(get(&mut decoder, "pre-vote")?),
            PRE_VOTE_REPLY => RaftMessage::PreVoteReply(get(&mut decoder, "pre-vote reply")?),
            INSTALL_SNAPSHOT => RaftMessage::InstallSnapshot(InstallSnapshot::decode(&mut decoder)?),
            other => return Err(WireError::Meaningless { what: "message tag", value: u64::from(other) }),
        };
        decoder.finish("message")?;
        Ok(message)
    }
}

impl Wire for RaftPromise {
    fn lane(&self) -> Lane {
        match self {
            RaftPromise::AppendReply(_) | RaftPromise::InstallSnapshotReply(_) => Lane::Acknowledgement,
            RaftPromise::RequestVote(_) | RaftPromise::VoteReply(_) | RaftPromise::HeartbeatReply(_) => Lane::Control,
        }
    }

    fn encode(&self, encoder: &mut Encoder) {
        match self {
            RaftPromise::RequestVote(request) => put(encoder, REQUEST_VOTE, request),
            RaftPromise::VoteReply(reply) => put(encoder, VOTE_REPLY, reply),
            RaftPromise::AppendReply(reply) => put(encoder, APPEND_REPLY, reply),
            RaftPromise::HeartbeatReply(reply) => put(encoder, HEARTBEAT_REPLY, reply),
            RaftPromise::InstallSnapshotReply(reply) => put(encoder, INSTALL_SNAPSHOT_REPLY, reply),
        }
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<RaftPromise, WireError> {
        let promise = match decoder.u8("promise tag")? {
            REQUEST_VOTE => RaftPromise::RequestVote(get(&mut decoder, "vote request")?),
            VOTE_REPLY => RaftPromise::VoteReply(get(&mut decoder, "vote reply")?),
            APPEND_REPLY => RaftPromise::AppendReply(get(&mut decoder, "append reply")?),
            HEARTBEAT_REPLY => RaftPromise::HeartbeatReply(get(&mut decoder, "heartbeat reply")?),
            INSTALL_SNAPSHOT_REPLY => {
                RaftPromise::InstallSnapshotReply(get(&mut decoder, "reply to a snapshot offer")?)
            }
            other => return Err(WireError::Meaningless { what: "promise tag", value: u64::from(other) }),
        };
        decoder.finish("promise")?;
        Ok(promise)
    }
}

impl Append {
    /// Index of the last entry, or of the previous one if there is none.
    #[must_use]
    pub fn last_index(&self) -> Position {
        Position(self.previous_index.0 + self.entries.len() as u64)
    }

    /// The entry path: a fixed layout, and the entries as shared chunks.
    fn encode(&self, encoder: &mut Encoder) {
        encoder.put_u8(APPEND);
        encoder.put_u64(self.term.0);
        encoder.put_u64(self.request);
        encoder.put_u64(self.previous_index.0);
        encoder.put_u64(self.previous_term.0);
        encoder.put_u64(self.commit.0);
        encoder.put_u32(self.entries.len() as u32);
        encoder.put_u32(self.entries.checksum());
        share_entries(&*self.entries, |chunk| encoder.put_shared(chunk));
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Append, WireError> {
        let mut append = Append {
            term: Term(decoder.u64("term")?),
            request: decoder.u64("request")?,
            previous_index: Position(decoder.u64("previous index")?),
            previous_term: Term(decoder.u64("previous term")?),
            commit: Position(decoder.u64("commit index")?),
            entries: SharedEntries::default(),
        };
        let count = decoder.u32("entry count")?;
        let checksum = decoder.u32("group checksum")?;
        append.entries = decode_group(decoder.take_body(), count)?.into();
        if append.entries.checksum() != checksum {
            return Err(WireError::Checksum { what: "group" });
        }
        append.check_heads()?;
        Ok(append)
    }

    /// Consecutive indexes, and terms that never fall and never pass the leader's.
    fn check_heads(&self) -> Result<(), WireError> {
        let mut previous = (self.previous_term, self.previous_index);
        for entry in &*self.entries {
            let (term, index) = read_entry_head(entry.head())?;
            if Some(index.0) != previous.1.0.checked_add(1) {
                return Err(WireError::Meaningless { what: "index of an entry", value: index.0 });
            }
            if term < previous.0 || term > self.term {
                return Err(WireError::Meaningless { what: "term of an entry", value: term.0 });
            }
            previous = (term, index);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::term::entry_head;
    use bytes::Bytes;
    use proptest::prelude::*;
    use quorate_framework::entry::{Entry, EntryKind, GroupBuilder};

    fn entries(terms_and_indexes: &[(u64, u64)]) -> Vec<Entry> {
        let mut builder = GroupBuilder::new();
        for (term, index) in terms_and_indexes {
            let payload = Bytes::from(format!("payload {index}"));
            builder.push(EntryKind::Request, &entry_head(Term(*term), Position(*index)), &payload);
        }
        builder.finish()
    }

    fn append(entries: Vec<Entry>) -> Append {
        Append {
            term: Term(3),
            request: 9,
            previous_index: Position(4),
            previous_term: Term(2),
            commit: Position(4),
            entries: entries.into(),
        }
    }

    /// What a receiver makes of a message or a promise.
    pub(crate) fn through_the_wire<W: Wire>(message: &W) -> Result<W, WireError> {
        let mut encoder = Encoder::new();
        message.encode(&mut encoder);
        let encoded = encoder.finish();
        W::decode(Decoder::new(&encoded.head, Bytes::from(encoded.body.concat())))
    }

    #[test]
    fn every_message_and_promise_reads_back() {
        let request = VoteRequest { term: Term(2), last_index: Position(8), last_term: Term(1) };
        let reply = VoteReply { term: Term(2), requested: Term(3), granted: true };
        for message in [
            RaftMessage::Append(append(entries(&[(2, 5), (3, 6)]))),
            RaftMessage::Append(append(Vec::new())),
            RaftMessage::Heartbeat(Heartbeat { term: Term(1), round: 2, commit: Position(3) }),
            RaftMessage::PreVote(request),
            RaftMessage::PreVoteReply(reply),
        ] {
            assert_eq!(through_the_wire(&message), Ok(message));
        }
        let conflict = AppendOutcome::Conflict { term: Some(Term(1)), index: Position(5) };
        for promise in [
            RaftPromise::RequestVote(request),
            RaftPromise::VoteReply(reply),
            RaftPromise::AppendReply(AppendReply { term: Term(4), request: 7, outcome: conflict }),
            RaftPromise::HeartbeatReply(HeartbeatReply { term: Term(4), round: 7, matched: Position(1) }),
        ] {
            assert_eq!(through_the_wire(&promise), Ok(promise));
        }
    }

    #[test]
    fn an_append_with_a_gap_a_falling_term_or_a_term_above_the_leaders_is_refused() {
        for wrong in [[(3, 5), (3, 7)], [(3, 5), (2, 6)], [(3, 5), (4, 6)], [(1, 5), (3, 6)]] {
            let result = through_the_wire(&RaftMessage::Append(append(entries(&wrong))));
            assert!(matches!(result, Err(WireError::Meaningless { .. })), "{wrong:?}: {result:?}");
        }
    }

    #[test]
    fn an_exchanged_entry_is_noticed_though_its_own_checksum_is_right() {
        let mut encoder = Encoder::new();
        RaftMessage::Append(append(entries(&[(2, 5)]))).encode(&mut encoder);
        let encoded = encoder.finish();
        let mut other = Vec::new();
        share_entries(&entries(&[(3, 5)]), |chunk| other.push(chunk));
        let result = RaftMessage::decode(Decoder::new(&encoded.head, Bytes::from(other.concat())));
        assert_eq!(result, Err(WireError::Checksum { what: "group" }));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_a_decoder(head: Vec<u8>, body: Vec<u8>) {
            let body = Bytes::from(body);
            let _ = RaftMessage::decode(Decoder::new(&head, body.clone()));
            let _ = RaftPromise::decode(Decoder::new(&head, body));
        }

        #[test]
        fn an_append_with_arbitrary_entry_bytes_never_panics(body: Vec<u8>, count in 0u32..4) {
            let mut head = vec![APPEND];
            for number in [3u64, 9, 4, 2, 4] {
                head.extend_from_slice(&number.to_le_bytes());
            }
            head.extend_from_slice(&count.to_le_bytes());
            head.extend_from_slice(&0u32.to_le_bytes());
            let _ = RaftMessage::decode(Decoder::new(&head, Bytes::from(body)));
        }
    }
}
