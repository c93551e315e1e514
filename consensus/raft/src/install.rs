//! The offer of a snapshot and its answer (Raft §7). The snapshot itself travels on its own connection, pulled by the receiver.

use crate::term::Term;
use quorate_framework::{Decoder, MemberVector, Position, ServedSnapshot, WireError, control, limits};
use serde::{Deserialize, Serialize};

/// A leader has a snapshot ready for a follower that is below its log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InstallSnapshot {
    /// The leader's term.
    pub term: Term,
    /// The snapshot; its position is the index of the last entry it covers, which is committed.
    pub snapshot: ServedSnapshot,
    /// The term of that entry.
    pub last_term: Term,
    /// The member list as of that entry.
    pub members: MemberVector,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InstallSnapshotReply {
    /// The answerer's term.
    pub term: Term,
    /// The snapshot answered for.
    pub snapshot: quorate_framework::SnapshotId,
    /// What became of it.
    pub outcome: InstallOutcome,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InstallOutcome {
    /// The follower's log equals the leader's up to here, durably: the snapshot's position, or its own commit index if that is not
    /// below; then nothing was installed.
    Matched(Position),
    /// All of it is there, and it is being installed: it need not be pulled any further, nor given up.
    Installing,
    /// The snapshot could not be had.
    Failed,
    /// The sender's term is over.
    StaleTerm,
}

impl InstallSnapshot {
    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<InstallSnapshot, WireError> {
        let offer: InstallSnapshot = control::decode("snapshot offer", decoder.rest_of_head())?;
        if offer.members.is_empty() || offer.members.len() > limits::REPLICAS {
            return Err(WireError::Meaningless { what: "members of a snapshot", value: offer.members.len() as u64 });
        }
        if offer.snapshot.length_bytes > limits::SNAPSHOT_BYTES {
            let value = offer.snapshot.length_bytes;
            return Err(WireError::TooLarge { what: "length of a snapshot", value, limit: limits::SNAPSHOT_BYTES });
        }
        if offer.snapshot.position == Position::ZERO {
            return Err(WireError::Meaningless { what: "position of a snapshot", value: 0 });
        }
        if offer.last_term > offer.term || offer.last_term == Term::ZERO {
            return Err(WireError::Meaningless { what: "term of a snapshot", value: offer.last_term.0 });
        }
        Ok(offer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::through_the_wire;
    use crate::message::{RaftMessage, RaftPromise};
    use quorate_framework::{Incarnation, Lane, ReplicaId, SnapshotId, Wire};

    fn offer() -> InstallSnapshot {
        InstallSnapshot {
            term: Term(3),
            snapshot: ServedSnapshot { id: SnapshotId(77), position: Position(9), length_bytes: 1 << 30 },
            last_term: Term(2),
            members: (1..=3).map(|id| (ReplicaId(id), Incarnation(u64::from(id)))).collect(),
        }
    }

    #[test]
    fn an_offer_and_each_answer_read_back() {
        let message = RaftMessage::InstallSnapshot(offer());
        assert_eq!((through_the_wire(&message), message.lane()), (Ok(message.clone()), Lane::Control));
        let unmatched = [InstallOutcome::Installing, InstallOutcome::Failed, InstallOutcome::StaleTerm];
        for outcome in unmatched.into_iter().chain([InstallOutcome::Matched(Position(9))]) {
            let reply = InstallSnapshotReply { term: Term(3), snapshot: SnapshotId(77), outcome };
            let promise = RaftPromise::InstallSnapshotReply(reply);
            assert_eq!(through_the_wire(&promise), Ok(promise));
        }
    }

    #[test]
    fn an_offer_that_no_leader_makes_is_refused() {
        let change: [fn(&mut InstallSnapshot); 6] = [
            |offer| offer.members.clear(),
            |offer| offer.members.extend((4..=100).map(|id| (ReplicaId(id), Incarnation(1)))),
            |offer| offer.snapshot.length_bytes = limits::SNAPSHOT_BYTES + 1,
            |offer| offer.snapshot.position = Position::ZERO,
            |offer| offer.last_term = Term(4),
            |offer| offer.last_term = Term::ZERO,
        ];
        for (number, change) in change.into_iter().enumerate() {
            let mut wrong = offer();
            change(&mut wrong);
            let result = through_the_wire(&RaftMessage::InstallSnapshot(wrong));
            assert!(
                matches!(result, Err(WireError::Meaningless { .. } | WireError::TooLarge { .. })),
                "{number}: {result:?}"
            );
        }
    }
}
