//! What all clients' connections of this process have counted together. A load client asks for its own part of the system calls as
//! it asks for its processor time: of the whole process, whoever holds the connections, those that are gone included.

use crate::traffic::{TrafficCounters, TrafficFigures};
use parking_lot::Mutex;
use std::sync::Arc;

struct Connections {
    open: Vec<Arc<TrafficCounters>>,
    /// None until the first has ended.
    ended: Option<TrafficFigures>,
}

static CONNECTIONS: Mutex<Connections> = Mutex::new(Connections { open: Vec::new(), ended: None });

/// A connection exists from now on.
pub(crate) fn began(counters: &Arc<TrafficCounters>) {
    CONNECTIONS.lock().open.push(Arc::clone(counters));
}

/// A connection is gone; what it has counted stays.
pub(crate) fn ended(counters: &Arc<TrafficCounters>) {
    let mut connections = CONNECTIONS.lock();
    if let Some(place) = connections.open.iter().position(|open| Arc::ptr_eq(open, counters)) {
        let figures = connections.open.swap_remove(place).figures();
        *connections.ended.get_or_insert_default() += figures;
    }
}

/// What all connections made by [`crate::connect_client`] in this process have counted since it began.
#[must_use]
pub fn client_traffic() -> TrafficFigures {
    let connections = CONNECTIONS.lock();
    let mut sum = connections.ended.unwrap_or_default();
    connections.open.iter().for_each(|open| sum += open.figures());
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_ended_connection_has_counted_is_kept_and_counted_once() {
        // Connections of clients, which other tests of this process have, count no dials.
        let before = client_traffic().dials;
        let dials = || client_traffic().dials - before;
        let (one, other) = (Arc::<TrafficCounters>::default(), Arc::<TrafficCounters>::default());
        began(&one);
        began(&other);
        one.dialled();
        other.dialled();
        assert_eq!(dials(), 2);
        ended(&one);
        ended(&one);
        assert_eq!(dials(), 2);
        other.dialled();
        ended(&other);
        assert_eq!(dials(), 3);
        let open = &CONNECTIONS.lock().open;
        assert!(!open.iter().any(|open| Arc::ptr_eq(open, &one) || Arc::ptr_eq(open, &other)));
    }
}
