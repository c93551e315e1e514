//! Promises never before their tickets: what a replica says that peers may rely on after a crash must be on its disk already, by what
//! the disk reported.

use super::Violation;
use crate::event::Flight;
use crate::model::Contents;
use bytes::Bytes;
use quorate_framework::{Decoder, FrameClass, Position, Wire};
use quorate_raft::{AppendOutcome, InstallOutcome, RaftPromise, RaftRecord, RaftState, Term};

pub(super) fn check(durable: &Contents<RaftRecord>, flight: &Flight) -> Result<(), Violation> {
    if flight.class != FrameClass::Promise {
        return Ok(());
    }
    let body = Bytes::copy_from_slice(&flight.body);
    let promise = RaftPromise::decode(Decoder::new(&flight.head, body)).map_err(|error| {
        Violation::new("promises", format!("replica {} sends what cannot be read: {error}", flight.from))
    })?;
    let state = &durable.state;
    let holds = |term, index| state.hard_state.term > term || holds(durable, index);
    let kept = match &promise {
        RaftPromise::RequestVote(request) => voted(state, request.term, flight.from),
        RaftPromise::VoteReply(reply) if reply.granted => voted(state, reply.requested, flight.to),
        RaftPromise::VoteReply(reply) => state.hard_state.term >= reply.term,
        RaftPromise::AppendReply(reply) => {
            let held = match reply.outcome {
                AppendOutcome::Matched(index) => holds(reply.term, index),
                AppendOutcome::Conflict { .. } | AppendOutcome::StaleTerm => true,
            };
            held && state.hard_state.term >= reply.term
        }
        RaftPromise::InstallSnapshotReply(reply) => {
            let held = match reply.outcome {
                InstallOutcome::Matched(index) => holds(reply.term, index),
                InstallOutcome::Installing | InstallOutcome::Failed | InstallOutcome::StaleTerm => true,
            };
            held && state.hard_state.term >= reply.term
        }
        RaftPromise::HeartbeatReply(reply) => holds(reply.term, reply.matched) && state.hard_state.term >= reply.term,
    };
    if kept {
        return Ok(());
    }
    let what = format!(
        "replica {} says {promise:?} to {} while its disk holds {:?} and {} entries",
        flight.from,
        flight.to,
        state.hard_state,
        state.entries.len()
    );
    Err(Violation::new("promises", what))
}

/// The vote of a term is on disk, or the term is over there.
fn voted(state: &RaftState, term: Term, whom: quorate_framework::ReplicaId) -> bool {
    let durable = state.hard_state;
    durable.term > term || (durable.term == term && durable.voted_for == Some(whom))
}

/// The entries up to an index are on disk, or the snapshot that holds what is missing is named there.
fn holds(durable: &Contents<RaftRecord>, index: Position) -> bool {
    let state = &durable.state;
    state.base.0 <= durable.snapshot_position() && state.base.0.0 + state.entries.len() as u64 >= index.0
}
