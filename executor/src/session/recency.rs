//! Sessions in the order in which they were last applied: a list threaded through a slab, every operation O(1).

use super::Session;

/// Where a session is in the slab; good until that session is removed.
pub(super) type Slot = u32;

/// No slot.
const NONE: Slot = Slot::MAX;

#[derive(Clone, Debug)]
struct Node {
    session: Option<Session>,
    previous: Slot,
    next: Slot,
}

/// The sessions, least recently applied first.
#[derive(Clone, Debug)]
pub(super) struct Recency {
    nodes: Vec<Node>,
    free: Vec<Slot>,
    front: Slot,
    back: Slot,
}

impl Default for Recency {
    fn default() -> Recency {
        Recency { nodes: Vec::new(), free: Vec::new(), front: NONE, back: NONE }
    }
}

impl Recency {
    /// The least recently applied session.
    pub(super) fn front(&self) -> Option<Slot> {
        Some(self.front).filter(|slot| *slot != NONE)
    }

    /// The session applied next after that in `slot`.
    pub(super) fn next(&self, slot: Slot) -> Option<Slot> {
        Some(self.nodes[slot as usize].next).filter(|slot| *slot != NONE)
    }

    pub(super) fn get(&self, slot: Slot) -> &Session {
        self.nodes[slot as usize].session.as_ref().expect("a slot is forgotten when its session is removed")
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Session {
        self.nodes[slot as usize].session.as_mut().expect("a slot is forgotten when its session is removed")
    }

    /// All sessions, least recently applied first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        std::iter::successors(self.front(), |slot| self.next(*slot)).map(|slot| self.get(slot))
    }

    /// Adds a session before that in `next`, or as the most recently applied.
    pub(super) fn insert(&mut self, session: Session, next: Option<Slot>) -> Slot {
        let node = Node { session: Some(session), previous: NONE, next: NONE };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = node;
                slot
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as Slot
            }
        };
        self.link(slot, next.unwrap_or(NONE));
        slot
    }

    /// Takes a session out.
    pub(super) fn remove(&mut self, slot: Slot) -> Session {
        self.unlink(slot);
        self.free.push(slot);
        self.nodes[slot as usize].session.take().expect("a slot is forgotten when its session is removed")
    }

    /// Moves a session before that in `next`, or makes it the most recently applied.
    pub(super) fn move_before(&mut self, slot: Slot, next: Option<Slot>) {
        self.unlink(slot);
        self.link(slot, next.unwrap_or(NONE));
    }

    fn link(&mut self, slot: Slot, next: Slot) {
        let previous = if next == NONE { self.back } else { self.nodes[next as usize].previous };
        self.nodes[slot as usize].previous = previous;
        self.nodes[slot as usize].next = next;
        self.set_next(previous, slot);
        self.set_previous(next, slot);
    }

    fn unlink(&mut self, slot: Slot) {
        let Node { previous, next, .. } = self.nodes[slot as usize];
        self.set_next(previous, next);
        self.set_previous(next, previous);
    }

    fn set_next(&mut self, slot: Slot, next: Slot) {
        if slot == NONE {
            self.front = next;
        } else {
            self.nodes[slot as usize].next = next;
        }
    }

    fn set_previous(&mut self, slot: Slot, previous: Slot) {
        if slot == NONE {
            self.back = previous;
        } else {
            self.nodes[slot as usize].previous = previous;
        }
    }
}
