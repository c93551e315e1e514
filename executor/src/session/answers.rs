//! The stored answers of one session: a ring with one slot for every sequence above the low mark, up to the highest one answered.
//!
//! ```text
//! low mark | low + 1 | low + 2 | ... | highest answered
//!            answer    (empty)         answer
//! ```
//! Finding, storing and dropping an answer cost O(1), in whatever order the sequences are applied. Empty slots take memory too and
//! are counted, so that a client cannot make a session large by leaving gaps.

use super::answer::StoredAnswer;
use std::collections::VecDeque;

/// Slots that a ring always has room for; from twice that on it gives memory back.
pub(super) const RING_SLOTS: usize = 4;
/// Sequences above the low mark that can have an answer, whatever the configured window.
pub(super) const SPAN: u64 = 1 << 16;
/// Memory of an empty slot, in bytes: a slot of 40 in a ring that is at least a quarter full.
pub(super) const EMPTY_SLOT_BYTES: u64 = 160;

/// The low mark of a session and the answers above it. Equal contents are equal values, whatever their history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    low: u64,
    /// The slot of `low + 1` first; the last slot, if any, is never empty.
    ring: VecDeque<Option<StoredAnswer>>,
    stored: usize,
    /// Of the answers, without the empty slots.
    bytes: u64,
}

impl Answers {
    /// None yet above this low mark.
    pub(super) fn above(low: u64) -> Answers {
        Answers { low, ..Answers::default() }
    }

    /// The low mark: up to there everything is acknowledged.
    pub(super) fn low(&self) -> u64 {
        self.low
    }

    /// Answers stored.
    pub(super) fn len(&self) -> usize {
        self.stored
    }

    /// Memory that this is counted with, in bytes; the same on every replica.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes + (self.ring.len() - self.stored) as u64 * EMPTY_SLOT_BYTES
    }

    /// By rising sequence.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &StoredAnswer)> {
        (self.low + 1..).zip(&self.ring).filter_map(|(sequence, slot)| Some((sequence, slot.as_ref()?)))
    }

    /// The first answer from a slot on: its slot, sequence and itself.
    pub(super) fn next_from(&self, slot: usize) -> Option<(usize, u64, &StoredAnswer)> {
        let slots = self.ring.range(slot.min(self.ring.len())..);
        let (passed, answer) = slots.enumerate().find_map(|(passed, answer)| Some((passed, answer.as_ref()?)))?;
        let found = slot + passed;
        Some((found, self.low + 1 + found as u64, answer))
    }

    /// The lowest sequence with an answer.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.iter().next().map(|(sequence, _)| sequence)
    }

    fn slot(&self, sequence: u64) -> Option<usize> {
        usize::try_from(sequence.checked_sub(self.low + 1)?).ok()
    }

    /// The answer of a sequence.
    pub(super) fn get(&self, sequence: u64) -> Option<&StoredAnswer> {
        self.ring.get(self.slot(sequence)?)?.as_ref()
    }

    /// Stores an answer of a sequence above the low mark that has none.
    pub(super) fn insert(&mut self, sequence: u64, answer: StoredAnswer) {
        let Some(slot) = self.slot(sequence) else { return };
        self.stored += 1;
        self.bytes += answer.memory_bytes();
        if slot < self.ring.len() {
            self.ring[slot] = Some(answer);
            return;
        }
        self.ring.resize(slot, None);
        self.ring.push_back(Some(answer));
    }

    /// Takes the answer of a sequence out.
    pub(super) fn remove(&mut self, sequence: u64) -> Option<StoredAnswer> {
        let slot = self.slot(sequence)?;
        let answer = self.ring.get_mut(slot)?.take()?;
        self.forget(&answer);
        while self.ring.back().is_some_and(Option::is_none) {
            self.ring.pop_back();
        }
        self.trim();
        Some(answer)
    }

    /// Raises the low mark and hands over the answers up to it.
    pub(super) fn raise_low(&mut self, to: u64, mut dropped: impl FnMut(u64, StoredAnswer)) {
        while self.low < to {
            match self.ring.pop_front() {
                Some(slot) => {
                    self.low += 1;
                    if let Some(answer) = slot {
                        self.forget(&answer);
                        dropped(self.low, answer);
                    }
                }
                None => self.low = to,
            }
        }
        self.trim();
    }

    /// Lowers the low mark again, as if it had never been raised, once the answers that were dropped are inserted again.
    pub(super) fn lower_low(&mut self, to: u64) {
        for _ in to..self.low {
            if self.ring.is_empty() {
                break;
            }
            self.ring.push_front(None);
        }
        self.low = self.low.min(to);
    }

    /// Slots there is room for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    fn forget(&mut self, answer: &StoredAnswer) {
        self.stored -= 1;
        self.bytes -= answer.memory_bytes();
    }

    /// Keeps the ring at least a quarter full.
    fn trim(&mut self) {
        let capacity = self.ring.capacity();
        if capacity > 2 * RING_SLOTS && self.ring.len() < capacity / 4 {
            self.ring.shrink_to((self.ring.len() * 2).max(RING_SLOTS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_framework::Status;

    fn answer(body: &[u8]) -> StoredAnswer {
        StoredAnswer::new(Status::Ok, body)
    }

    fn sequences(answers: &Answers) -> Vec<u64> {
        answers.iter().map(|(sequence, _)| sequence).collect()
    }

    #[test]
    fn answers_are_found_by_sequence_in_whatever_order_they_were_stored() {
        let mut answers = Answers::above(10);
        for sequence in [14, 11, 20, 12] {
            answers.insert(sequence, answer(&[sequence as u8]));
        }
        assert_eq!(sequences(&answers), [11, 12, 14, 20]);
        assert_eq!(answers.get(14), Some(&answer(&[14])));
        assert_eq!(
            (answers.get(13), answers.get(10), answers.get(21), answers.get(u64::MAX)),
            (None, None, None, None)
        );
        assert_eq!(answers.len(), 4);
    }

    #[test]
    fn an_empty_slot_is_counted_so_that_gaps_are_not_free() {
        let mut answers = Answers::above(0);
        answers.insert(1_024, answer(b""));
        assert_eq!(answers.memory_bytes(), answer(b"").memory_bytes() + 1_023 * EMPTY_SLOT_BYTES);
        answers.remove(1_024);
        assert_eq!((answers.memory_bytes(), answers), (0, Answers::above(0)));
    }

    #[test]
    fn raising_the_low_mark_hands_over_what_it_passes_and_lowering_it_undoes_that() {
        for to in [1, 3, 7, 8, 100] {
            let mut answers = Answers::above(0);
            for sequence in [2, 3, 7] {
                answers.insert(sequence, answer(&[sequence as u8]));
            }
            let before = answers.clone();
            let mut dropped = Vec::new();
            answers.raise_low(to, |sequence, answer| dropped.push((sequence, answer)));
            assert_eq!(answers.low(), to);
            assert_eq!(
                dropped.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>(),
                sequences(&before).into_iter().filter(|sequence| *sequence <= to).collect::<Vec<_>>()
            );
            answers.lower_low(0);
            for (sequence, answer) in dropped {
                answers.insert(sequence, answer);
            }
            assert_eq!(answers, before, "after {to}");
        }
    }

    #[test]
    fn a_ring_that_has_become_short_gives_its_memory_back() {
        let mut answers = Answers::above(0);
        for sequence in 1..=1_024 {
            answers.insert(sequence, answer(b""));
        }
        answers.raise_low(1_020, |_, _| ());
        assert!(answers.ring.capacity() <= 16, "{}", answers.ring.capacity());
    }
}
