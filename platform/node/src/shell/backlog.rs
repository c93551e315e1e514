//! Orders to the executor that wait for their turn.
//!
//! A commit may set thousands of batches free at once. Carried out in one go they would keep the core from its heartbeats and the
//! clients from their answers, so a turn takes a bounded group of them and the rest waits, in order. What waits is bounded by the
//! log: nothing unexecuted leaves it.
//!
//! Orders about snapshots keep their place: nothing that comes after one is carried out before it was taken from here.

use crate::driver::{PlacedOrder, SnapshotOrder};
use quorate_framework::{ExecuteRange, ExecutorCommand};
use std::collections::VecDeque;

/// Batches in one group at most.
pub(super) const GROUP_BATCHES: usize = 256;
/// Bytes of payloads in one group at most; a single larger batch still passes, alone.
const GROUP_BYTES: usize = 256 << 10;

/// One that waits.
#[derive(Debug)]
enum Waiting {
    Command(ExecutorCommand),
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

    fn next_command(&mut self) -> Option<ExecutorCommand> {
        match self.waiting.pop_front()? {
            Waiting::Command(command) => Some(command),
            order => {
                self.waiting.push_front(order);
                None
            }
        }
    }

    /// Appends the next group to the empty `group`; nothing if nothing waits, or an order about a snapshot is next.
    pub(super) fn take_group(&mut self, group: &mut Vec<ExecutorCommand>) {
        let (mut batches, mut bytes) = (0, 0);
        while let Some(command) = self.next_command() {
            let range = match &command {
                ExecutorCommand::Execute { range, .. } | ExecutorCommand::Speculate { range, .. } => range,
                _ => {
                    group.push(command);
                    continue;
                }
            };
            let is_whole = matches!(command, ExecutorCommand::Speculate { .. }) && group.is_empty();
            let fitting = fitting(range, &mut batches, &mut bytes);
            if is_whole || fitting == range.batches.len() {
                group.push(command);
                continue;
            }
            let (now, later) = split(command, fitting);
            self.waiting.push_front(Waiting::Command(later));
            group.extend(now);
            break;
        }
    }
}

/// How many batches of a range still fit into a group that holds `batches` and `bytes`; counts them in.
fn fitting(range: &ExecuteRange, batches: &mut usize, bytes: &mut usize) -> usize {
    let mut count = 0;
    for batch in &range.batches {
        let length = batch.payload.len();
        if *batches > 0 && (*batches >= GROUP_BATCHES || *bytes + length > GROUP_BYTES) {
            break;
        }
        *batches += 1;
        *bytes += length;
        count += 1;
    }
    count
}

/// Cuts a command after `count` of its batches: what is carried out now, if anything, and what waits. A speculation is one state over
/// one base and waits whole.
fn split(command: ExecutorCommand, count: usize) -> (Option<ExecutorCommand>, ExecutorCommand) {
    match command {
        ExecutorCommand::Execute { mut range, answers } if count > 0 => {
            let batches = range.batches.split_off(count);
            let first = range.last().next();
            let later = ExecutorCommand::Execute { range: ExecuteRange { first, batches }, answers };
            (Some(ExecutorCommand::Execute { range, answers }), later)
        }
        command => (None, command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_framework::entry::EntryKind;
    use quorate_framework::{Batch, BlockId, Position, SnapshotBase};

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
