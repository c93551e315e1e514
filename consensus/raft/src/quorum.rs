//! Majorities.

use quorate_framework::{MemberVector, Position, ReplicaId};

/// Members that make a majority.
pub(crate) fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// The highest index that a majority holds.
pub(crate) fn committed_by_majority(members: &MemberVector, held: impl Fn(ReplicaId) -> Position) -> Position {
    let mut indexes: Vec<Position> = members.keys().map(|member| held(*member)).collect();
    indexes.sort_unstable_by(|left, right| right.cmp(left));
    indexes.get(majority(members.len()) - 1).copied().unwrap_or(Position::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_framework::Incarnation;

    #[test]
    fn the_committed_index_is_the_one_a_majority_holds() {
        for (held, expected) in
            [(&[5][..], 5), (&[5, 3], 3), (&[5, 3, 4], 4), (&[9, 1, 2, 8], 2), (&[9, 1, 2, 8, 7], 7)]
        {
            let members: MemberVector = (0..held.len() as u32).map(|id| (ReplicaId(id), Incarnation(1))).collect();
            let committed = committed_by_majority(&members, |member| Position(held[member.0 as usize]));
            assert_eq!(committed, Position(expected), "{held:?}");
        }
    }
}
