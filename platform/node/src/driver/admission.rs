//! Which requests may enter: a bound on what was let in and is not answered yet, in frames and in bytes.

use quorate_framework::Origin;
use std::collections::VecDeque;

/// An amount of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Client frames.
    pub frames: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Load {
    /// Counts one more frame.
    pub fn add(&mut self, bytes: u32) {
        self.frames += 1;
        self.bytes += bytes as usize;
    }

    /// Counts one frame less.
    pub fn remove(&mut self, bytes: u32) {
        self.frames -= 1;
        self.bytes -= bytes as usize;
    }
}

/// Counts the requests that were handed to the protocol and that it has neither accepted nor refused yet (it may keep them in a pool);
/// with the waiting ones they are what the bound is about.
#[derive(Debug)]
pub struct Admission {
    limit: Load,
    /// In the order in which they were handed over; decided in that order, as a rule.
    undecided: VecDeque<(Origin, u32)>,
    load: Load,
}

impl Admission {
    /// Nothing let in yet.
    #[must_use]
    pub fn new(limit: Load) -> Admission {
        Admission { limit, undecided: VecDeque::new(), load: Load::default() }
    }

    /// Lets a request in if, with those that wait already, the limit is kept; otherwise gives false. A request larger than the
    /// whole limit is let in alone, or it could never be.
    pub fn admit(&mut self, waiting: Load, origin: Origin, bytes: u32) -> bool {
        let frames = waiting.frames + self.load.frames;
        let bytes_before = waiting.bytes + self.load.bytes;
        if frames >= self.limit.frames.max(1) || (frames > 0 && bytes_before + bytes as usize > self.limit.bytes) {
            return false;
        }
        self.load.add(bytes);
        self.undecided.push_back((origin, bytes));
        true
    }

    /// The protocol has decided on a request: gives its bytes, or nothing if no such request is undecided.
    pub fn decided(&mut self, origin: &Origin) -> Option<u32> {
        let bytes = match self.undecided.front() {
            Some((first, bytes)) if first == origin => {
                let bytes = *bytes;
                self.undecided.pop_front();
                bytes
            }
            _ => {
                let place = self.undecided.iter().position(|(other, _)| other == origin)?;
                self.undecided.remove(place)?.1
            }
        };
        self.load.remove(bytes);
        Some(bytes)
    }

    /// What is undecided.
    #[must_use]
    pub fn undecided(&self) -> Load {
        self.load
    }

    /// Gives up on everything undecided, oldest first.
    pub fn abandon(&mut self, endings: &mut Vec<Origin>) {
        endings.extend(self.undecided.drain(..).map(|(origin, _)| origin));
        self.load = Load::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_framework::{ConnectionId, Sequence, SessionId};

    fn origin(number: u64) -> Origin {
        Origin { connection: ConnectionId(1), session: SessionId::NONE, sequence: Sequence(number) }
    }

    #[test]
    fn frames_and_bytes_are_both_bounded_and_what_waits_counts() {
        let mut admission = Admission::new(Load { frames: 3, bytes: 100 });
        let waiting = Load { frames: 1, bytes: 40 };
        assert!(admission.admit(waiting, origin(1), 60));
        assert!(!admission.admit(waiting, origin(2), 1), "101 bytes");
        assert!(admission.admit(waiting, origin(2), 0), "the third frame");
        assert!(!admission.admit(waiting, origin(3), 0), "the fourth frame");
        assert_eq!(admission.undecided(), Load { frames: 2, bytes: 60 });
    }

    #[test]
    fn a_request_larger_than_the_limit_enters_alone() {
        let mut admission = Admission::new(Load { frames: 3, bytes: 100 });
        assert!(!admission.admit(Load { frames: 1, bytes: 0 }, origin(1), 101));
        assert!(admission.admit(Load::default(), origin(1), 101));
    }

    #[test]
    fn a_decision_frees_its_place_in_whatever_order_it_comes() {
        let mut admission = Admission::new(Load { frames: 3, bytes: 100 });
        for number in 1..=3 {
            assert!(admission.admit(Load::default(), origin(number), 10 * number as u32));
        }
        assert_eq!(admission.decided(&origin(2)), Some(20));
        assert_eq!(admission.decided(&origin(2)), None);
        assert_eq!(admission.decided(&origin(1)), Some(10));
        assert_eq!(admission.undecided(), Load { frames: 1, bytes: 30 });
        let mut endings = Vec::new();
        admission.abandon(&mut endings);
        assert_eq!((endings, admission.undecided()), (vec![origin(3)], Load::default()));
    }
}
