//! Orders to the executor that wait for their turn.
//!
//! A commit may set thousands of batches free at once. Carried out in one go they would keep the core from its heartbeats and the
//! clients from their answers, so a turn takes a bounded group of them and the rest waits, in order. What waits is bounded by the
//! log: nothing unexecuted leaves it.
//!
//! Orders about snapshots keep their place: nothing that comes after one is carried out before it was taken from here.

use crate::driver::{PlacedOrder, SnapshotOrder};
use quorate_framework::{Batch, ExecuteRange, ExecutorCommand, Position};
use std::collections::VecDeque;
use std::vec;

/// Batches in one group at most.
pub(super) const GROUP_BATCHES: usize = 256;
/// Bytes of payloads in one group at most; a single larger batch still passes, alone.
const GROUP_BYTES: usize = 256 << 10;

/// One that waits.
#[derive(Debug)]
enum Waiting {
    Command(ExecutorCommand),
    /// What is left of an execution. A start finds all of its log committed at once, millions of batches: what was taken from them must
    /// not make the rest move.
    Rest {
        first: Position,
        batches: vec::IntoIter<Batch>,
        answers: bool,
    },
    Snapshot(SnapshotOrder),
}

/// The orders that wait.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: VecDeque<Waiting>,
}

impl Backlog {
    /// Adds orders behind those that wait, each of `orders` in its place among the commands.
    pub(super) fn append(&mut self, commands: &mut Vec<ExecutorCommand>, orders: &mut Vec<PlacedOrder>) {
        let mut orders = orders.drain(..).peekable();
        for (place, command) in commands.drain(..).enumerate() {
            while let Some(placed) = orders.next_if(|placed| placed.after <= place) {
                self.waiting.push_back(Waiting::Snapshot(placed.order));
            }
            self.waiting.push_back(Waiting::Command(command));
        }
        self.waiting.extend(orders.map(|placed| Waiting::Snapshot(placed.order)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Forgets everything: nothing is executed any more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// The order about a snapshot whose turn it is, if it is one's.
    pub(super) fn take_order(&mut self) -> Option<SnapshotOrder> {
        match self.waiting.pop_front()? {
            Waiting::Snapshot(order) => Some(order),
            command => {
                self.waiting.push_front(command);
                None
            }
        }
    }

    /// Appends the next group to the empty `group`; nothing if nothing waits, or an order about a snapshot is next.
    pub(super) fn take_group(&mut self, group: &mut Vec<ExecutorCommand>) {
        let mut room = Room::default();
        while let Some(next) = self.waiting.pop_front() {
            let left = match next {
                Waiting::Snapshot(order) => Some(Waiting::Snapshot(order)),
                Waiting::Command(ExecutorCommand::Execute { range, answers }) => {
                    take_batches(range.first, range.batches.into_iter(), answers, &mut room, group)
                }
                Waiting::Rest { first, batches, answers } => take_batches(first, batches, answers, &mut room, group),
                Waiting::Command(command) => take_whole(command, &mut room, group),
            };
            if let Some(left) = left {
                self.waiting.push_front(left);
                break;
            }
        }
    }
}

/// What a group holds so far.
#[derive(Default)]
struct Room {
    batches: usize,
    bytes: usize,
}

impl Room {
    /// How many of the next batches still fit; counts them in. The first of a group always does.
    fn take(&mut self, batches: &[Batch]) -> usize {
        let mut count = 0;
        for batch in batches {
            let length = batch.payload.len();
            if self.batches > 0 && (self.batches >= GROUP_BATCHES || self.bytes + length > GROUP_BYTES) {
                break;
            }
            self.batches += 1;
            self.bytes += length;
            count += 1;
        }
        count
    }
}

/// Takes as much of an execution as fits into the group; gives what is left.
fn take_batches(
    first: Position,
    mut batches: vec::IntoIter<Batch>,
    answers: bool,
    room: &mut Room,
    group: &mut Vec<ExecutorCommand>,
) -> Option<Waiting> {
    let fitting = room.take(batches.as_slice());
    if fitting == batches.len() {
        let range = ExecuteRange { first, batches: batches.collect() };
        group.push(ExecutorCommand::Execute { range, answers });
        return None;
    }
    if fitting == 0 {
        return Some(Waiting::Rest { first, batches, answers });
    }
    let range = ExecuteRange { first, batches: batches.by_ref().take(fitting).collect() };
    let first = range.last().next();
    group.push(ExecutorCommand::Execute { range, answers });
    Some(Waiting::Rest { first, batches, answers })
}

/// Takes a command that is not cut, if it fits; gives it back if not. A speculation is one state over one base: it fits into an empty
/// group, however large it is.
fn take_whole(command: ExecutorCommand, room: &mut Room, group: &mut Vec<ExecutorCommand>) -> Option<Waiting> {
    if let ExecutorCommand::Speculate { range, .. } = &command {
        let is_alone = group.is_empty();
        if room.take(&range.batches) < range.batches.len() && !is_alone {
            return Some(Waiting::Command(command));
        }
    }
    group.push(command);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_framework::entry::EntryKind;
    use quorate_framework::{BlockId, SnapshotBase};

    fn execute(first: u64, count: usize, bytes: usize) -> ExecutorCommand {
        let payload = Bytes::from(vec![0; bytes]);
        let batch = Batch { block: BlockId::default(), kind: EntryKind::Request, payload };
        ExecutorCommand::Execute {
            range: ExecuteRange { first: Position(first), batches: vec![batch; count] },
            answers: true,
        }
    }

    fn group_of(backlog: &mut Backlog) -> Vec<ExecutorCommand> {
        let mut group = Vec::new();
        backlog.take_group(&mut group);
        group
    }

    fn append(backlog: &mut Backlog, commands: Vec<ExecutorCommand>) {
        let mut commands = commands;
        backlog.append(&mut commands, &mut Vec::new());
    }

    /// First position and number of batches of each command of each group.
    fn groups(commands: Vec<ExecutorCommand>) -> Vec<Vec<(u64, usize)>> {
        let mut backlog = Backlog::default();
        append(&mut backlog, commands);
        let mut groups = Vec::new();
        while !backlog.is_empty() {
            let shown = |command: ExecutorCommand| match command {
                ExecutorCommand::Execute { range, .. } => (range.first.0, range.batches.len()),
                _ => (0, 0),
            };
            groups.push(group_of(&mut backlog).into_iter().map(shown).collect());
        }
        groups
    }

    #[test]
    fn a_long_range_is_carried_out_in_consecutive_pieces() {
        assert_eq!(groups(vec![execute(1, 600, 8)]), [[(1, 256)], [(257, 256)], [(513, 88)]]);
    }

    #[test]
    fn what_is_left_of_a_range_stays_where_it_is_and_is_not_copied_with_each_group() {
        let mut backlog = Backlog::default();
        append(&mut backlog, vec![execute(1, 10_000, 8)]);
        let place = |backlog: &Backlog| match backlog.waiting.front() {
            Some(Waiting::Rest { batches, .. }) => batches.as_slice().as_ptr_range().end,
            other => panic!("{other:?}"),
        };
        assert_eq!(group_of(&mut backlog).len(), 1);
        let end = place(&backlog);
        for _ in 0..30 {
            assert_eq!(group_of(&mut backlog).len(), 1);
            assert_eq!(place(&backlog), end);
        }
    }

    #[test]
    fn bytes_bound_a_group_and_a_larger_batch_passes_alone() {
        assert_eq!(groups(vec![execute(1, 3, 200 << 10)]), [[(1, 1)], [(2, 1)], [(3, 1)]]);
        assert_eq!(groups(vec![execute(1, 2, 900 << 10)]), [[(1, 1)], [(2, 1)]]);
    }

    #[test]
    fn order_is_kept_and_what_has_no_batches_is_never_left_behind() {
        let digest = || ExecutorCommand::Digest;
        let taken = groups(vec![digest(), execute(1, 200, 8), digest(), execute(201, 100, 8), digest()]);
        assert_eq!(taken, [vec![(0, 0), (1, 200), (0, 0), (201, 56)], vec![(257, 44), (0, 0)]]);
    }

    #[test]
    fn a_speculation_is_not_cut() {
        let ExecutorCommand::Execute { range, .. } = execute(201, 100, 8) else { return };
        let mut backlog = Backlog::default();
        let ahead = ExecutorCommand::Speculate { base: BlockId::default(), range };
        append(&mut backlog, vec![execute(1, 200, 8), ahead]);
        assert_eq!(group_of(&mut backlog).len(), 1);
        let group = group_of(&mut backlog);
        assert!(matches!(&group[..], [ExecutorCommand::Speculate { range, .. }] if range.batches.len() == 100));
        let ExecutorCommand::Execute { range, .. } = execute(301, 1_000, 8) else { return };
        append(&mut backlog, vec![ExecutorCommand::Speculate { base: BlockId::default(), range }]);
        assert_eq!(group_of(&mut backlog).len(), 1, "larger than a group, and whole all the same");
        assert!(backlog.is_empty());
    }

    #[test]
    fn an_order_about_a_snapshot_keeps_its_place() {
        let take = |position| {
            let base = SnapshotBase { position: Position(position), ..SnapshotBase::default() };
            SnapshotOrder::Take(base)
        };
        let placed = |after, position| PlacedOrder { after, order: take(position) };
        let mut backlog = Backlog::default();
        let mut orders = vec![placed(0, 0), placed(1, 10), placed(2, 20)];
        backlog.append(&mut vec![execute(1, 10, 8), execute(11, 10, 8)], &mut orders);
        let mut seen = Vec::new();
        while !backlog.is_empty() {
            match backlog.take_order() {
                Some(order) => seen.push(order),
                None => assert_eq!(group_of(&mut backlog).len(), 1, "the command before the next order, and no more"),
            }
        }
        assert_eq!(seen, [take(0), take(10), take(20)]);
    }
}
