//! The simulated network: connections between pairs of replicas, each side of which may or may not know that it is gone; lanes that
//! keep their order and pass one another; cuts, delays, losses and repeats.

use crate::random::SimulatedRandom;
use quorate_framework::LinkId;
use quorate_framework::{Lane, ReplicaId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The network.
#[derive(Debug)]
pub struct Network {
    random: SimulatedRandom,
    latency: (Duration, Duration),
    loss: u64,
    duplication: u64,
    /// The connection each side believes in: (own, other) to its number.
    sides: BTreeMap<(ReplicaId, ReplicaId), LinkId>,
    /// What cannot pass: (from, to).
    cuts: BTreeSet<(ReplicaId, ReplicaId)>,
    /// Extra delay: (from, to), until when.
    slow: BTreeMap<(ReplicaId, ReplicaId), (Duration, Time)>,
    /// When the last frame of a connection's direction and lane arrives: order is kept within it.
    last_arrival: BTreeMap<(LinkId, ReplicaId, Lane), Time>,
    next_link: u64,
}

impl Network {
    /// A network without connections.
    #[must_use]
    pub fn new(random: SimulatedRandom, latency: (Duration, Duration), loss: u64, duplication: u64) -> Network {
        Network {
            random,
            latency,
            loss,
            duplication,
            sides: BTreeMap::new(),
            cuts: BTreeSet::new(),
            slow: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            next_link: 0,
        }
    }

    /// The connection `own` believes to have to `other`.
    #[must_use]
    pub fn side(&self, own: ReplicaId, other: ReplicaId) -> Option<LinkId> {
        self.sides.get(&(own, other)).copied()
    }

    /// Whether the two have one and the same connection.
    #[must_use]
    pub fn is_whole(&self, one: ReplicaId, other: ReplicaId) -> bool {
        self.side(one, other).is_some() && self.side(one, other) == self.side(other, one)
    }

    /// Makes a connection, if both ways are open.
    pub fn connect(&mut self, one: ReplicaId, other: ReplicaId) -> Option<LinkId> {
        if self.is_cut(one, other) || self.is_cut(other, one) {
            return None;
        }
        self.next_link += 1;
        let link = LinkId(self.next_link);
        self.sides.insert((one, other), link);
        self.sides.insert((other, one), link);
        Some(link)
    }

    /// One side gives its connection up.
    pub fn close_side(&mut self, own: ReplicaId, other: ReplicaId) -> Option<LinkId> {
        self.sides.remove(&(own, other))
    }

    /// All connections of a process that is gone, as the other sides see them.
    pub fn close_all(&mut self, gone: ReplicaId) -> Vec<(ReplicaId, LinkId)> {
        self.sides.retain(|(own, _), _| *own != gone);
        let noticed = self.sides.iter().filter(|((_, other), _)| *other == gone);
        noticed.map(|((own, _), link)| (*own, *link)).collect()
    }

    /// Whether what `from` says to `to` vanishes.
    #[must_use]
    pub fn is_cut(&self, from: ReplicaId, to: ReplicaId) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// Cuts one direction.
    pub fn cut(&mut self, from: ReplicaId, to: ReplicaId) {
        self.cuts.insert((from, to));
    }

    /// Opens every way, at full speed.
    pub fn heal(&mut self) {
        self.cuts.clear();
        self.slow.clear();
    }

    /// Nothing is lost or repeated any more.
    pub fn calm(&mut self) {
        (self.loss, self.duplication) = (0, 0);
    }

    /// Slows one direction down for a while.
    pub fn slow_down(&mut self, from: ReplicaId, to: ReplicaId, by: Duration, until: Time) {
        self.slow.insert((from, to), (by, until));
    }

    /// When a frame sent now arrives: never, once, or twice. Order is kept within a connection's lane.
    pub fn arrivals(&mut self, now: Time, from: ReplicaId, to: ReplicaId, link: LinkId, lane: Lane) -> Vec<Time> {
        if self.is_cut(from, to) || self.random.chance(self.loss) {
            return Vec::new();
        }
        let copies = 1 + usize::from(self.random.chance(self.duplication));
        (0..copies)
            .map(|_| {
                let mut at = now + self.latency(now, from, to);
                let last = self.last_arrival.entry((link, to, lane)).or_default();
                at = at.max(Time(last.0 + 1));
                *last = at;
                at
            })
            .collect()
    }

    /// When something sent now by a connection of its own arrives: never, once, or twice, in no order.
    pub fn stray_arrivals(&mut self, now: Time, from: ReplicaId, to: ReplicaId) -> Vec<Time> {
        if self.is_cut(from, to) || self.random.chance(self.loss) {
            return Vec::new();
        }
        let copies = 1 + usize::from(self.random.chance(self.duplication));
        (0..copies).map(|_| now + self.latency(now, from, to)).collect()
    }

    /// How long something takes from one to the other now.
    pub fn latency(&mut self, now: Time, from: ReplicaId, to: ReplicaId) -> Duration {
        let extra = match self.slow.get(&(from, to)) {
            Some((by, until)) if now < *until => *by,
            _ => Duration::ZERO,
        };
        self.random.duration_between(self.latency.0, self.latency.1) + extra
    }

    /// Frames from a connection that nobody has any more need no order.
    pub fn forget_old_links(&mut self) {
        let live: BTreeSet<LinkId> = self.sides.values().copied().collect();
        self.last_arrival.retain(|(link, _, _), _| live.contains(link));
    }
}
