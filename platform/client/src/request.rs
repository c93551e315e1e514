//! Requests in flight, in a slab.

use crate::outcome::{NotDone, Outcome};
use bytes::Bytes;
use quorate_framework::{Sequence, SessionId, Status};
use std::time::Instant;

/// A connection, unique for the life of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LinkId(pub(crate) u64);

/// Names a request as long as it is in flight, and never another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The user's commands, under the user's number.
    Commands(u64),
    /// Opening a session.
    Open,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the queue of those to be sent.
    Ready,
    /// In a pause.
    Paused,
    /// On its way since `at`.
    Sent { link: LinkId, at: Instant },
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) purpose: Purpose,
    /// Which of the client's sessions it belongs to.
    pub(crate) session: usize,
    /// The cluster's name of that session and the request's number in it; no session for one that opens it.
    pub(crate) id: SessionId,
    pub(crate) sequence: Sequence,
    /// Commands in it.
    pub(crate) count: u32,
    /// The whole frame, the same bytes in every attempt.
    pub(crate) frame: Bytes,
    pub(crate) submitted: Instant,
    pub(crate) place: Place,
    /// Attempts sent.
    pub(crate) attempts: u32,
    /// Times its present attempt was given more time.
    pub(crate) extensions: u32,
    /// Pauses that it made because of `Busy`.
    pub(crate) busy: u32,
    /// An earlier attempt may have been proposed. Only an answer of the session takes this back.
    pub(crate) may_have_happened: bool,
    pub(crate) last_refusal: Option<Status>,
}

impl Request {
    /// What is known of a request that ends without an answer of its session.
    pub(crate) fn unsettled(&self, certain: NotDone) -> Outcome {
        if self.may_have_happened || matches!(self.place, Place::Sent { .. }) {
            Outcome::Unknown
        } else {
            Outcome::NotDone(certain)
        }
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    request: Option<Request>,
}

/// Requests by key.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Requests {
    pub(crate) fn insert(&mut self, request: Request) -> RequestKey {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.request = Some(request);
            return RequestKey { index, generation: slot.generation };
        }
        let index = self.slots.len() as u32;
        self.slots.push(Slot { generation: 0, request: Some(request) });
        RequestKey { index, generation: 0 }
    }

    pub(crate) fn get(&self, key: RequestKey) -> Option<&Request> {
        let slot = self.slots.get(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        slot.request.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: RequestKey) -> Option<&mut Request> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        slot.request.as_mut()
    }

    pub(crate) fn remove(&mut self, key: RequestKey) -> Option<Request> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        let request = slot.request.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(request)
    }

    /// The keys of all requests.
    pub(crate) fn keys(&self) -> Vec<RequestKey> {
        let key = |(index, slot): (usize, &Slot)| {
            slot.request.is_some().then_some(RequestKey { index: index as u32, generation: slot.generation })
        };
        self.slots.iter().enumerate().filter_map(key).collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            purpose: Purpose::Commands(1),
            session: 0,
            id: SessionId::NONE,
            sequence: Sequence(1),
            count: 1,
            frame: Bytes::new(),
            submitted: Instant::now(),
            place: Place::Ready,
            attempts: 0,
            extensions: 0,
            busy: 0,
            may_have_happened: false,
            last_refusal: None,
        }
    }

    #[test]
    fn a_key_never_names_the_request_that_took_the_slot_of_its_own() {
        let mut requests = Requests::default();
        let first = requests.insert(request());
        assert!(requests.remove(first).is_some());
        let second = requests.insert(request());
        assert_eq!(first.index, second.index);
        assert!(requests.get(first).is_none() && requests.remove(first).is_none() && requests.get(second).is_some());
        assert_eq!((requests.len(), requests.keys()), (1, vec![second]));
    }

    #[test]
    fn a_request_that_was_ever_out_without_a_refusal_ends_unknown() {
        let not_taken = NotDone::NotTaken { last_refusal: None };
        let mut request = request();
        assert_eq!(request.unsettled(not_taken.clone()), Outcome::NotDone(not_taken.clone()));
        request.place = Place::Sent { link: LinkId(1), at: Instant::now() };
        assert_eq!(request.unsettled(not_taken.clone()), Outcome::Unknown);
        (request.place, request.may_have_happened) = (Place::Ready, true);
        assert_eq!(request.unsettled(not_taken), Outcome::Unknown);
    }
}
