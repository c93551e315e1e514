//! Random runs with a tiny log, snapshots and restarts: every replica executes the same, in order, and a healed cluster agrees.

use crate::cluster::{Cluster, Wish, id, index};
use quorate_framework::{Event, Incarnation, ServedSnapshot, SnapshotBase, SnapshotId};
use quorate_raft::{RaftSettings, RaftState};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

/// What the nodes of a run are busy with.
#[derive(Default)]
struct Nodes {
    /// Offers to be made ready: by whom, for whom.
    preparing: Vec<(u32, u32)>,
    /// Snapshots being fetched, by replica.
    fetching: BTreeMap<u32, ServedSnapshot>,
    /// Installs under way, by replica.
    installing: BTreeMap<u32, (SnapshotId, SnapshotBase)>,
    served: u64,
    installed: usize,
}

impl Nodes {
    fn collect(&mut self, cluster: &mut Cluster) {
        for replica in 1..=3 {
            for wish in cluster.wishes(replica) {
                match wish {
                    Wish::Offer(to, _) => self.preparing.push((replica, to.0)),
                    Wish::Withdraw(to) => self.preparing.retain(|one| *one != (replica, to.0)),
                    Wish::Fetch(_, snapshot) => {
                        self.fetching.insert(replica, snapshot);
                    }
                    Wish::Cancel => {
                        self.fetching.remove(&replica);
                    }
                    Wish::Install(snapshot, base) => {
                        let fetched = self.fetching.remove(&replica).expect("what is installed was fetched");
                        assert_eq!(fetched.id, snapshot);
                        self.installing.insert(replica, (snapshot, base));
                    }
                    Wish::Forget(through) => cluster.replica_mut(replica).disk.forget(through),
                    Wish::Take(_) => {}
                }
            }
        }
    }

    fn work(&mut self, cluster: &mut Cluster, random: &mut SmallRng) {
        self.collect(cluster);
        match random.random_range(0..4) {
            0 if !self.preparing.is_empty() => {
                let (at, to) = self.preparing.swap_remove(0);
                self.served += 1;
                cluster.make_ready(at, to, self.served);
            }
            1 => {
                if let Some((replica, snapshot)) = self.fetching.clone().into_iter().next() {
                    if random.random_bool(0.2) {
                        self.fetching.remove(&replica);
                        cluster.event(id(replica), Event::SnapshotNotFetched { id: snapshot.id });
                    } else {
                        cluster.event(id(replica), Event::SnapshotFetched { id: snapshot.id });
                    }
                }
            }
            2 => {
                if let Some((replica, (snapshot, base))) = self.installing.pop_first() {
                    self.installed += 1;
                    let position = base.position;
                    cluster.name_snapshot(replica, base, Some(snapshot));
                    if random.random_bool(0.2) {
                        // Dead right after the commit point of the install, before the log was told.
                        return self.restart(cluster, replica, random);
                    }
                    cluster.event(id(replica), Event::SnapshotInstalled { position });
                }
            }
            _ => {}
        }
        self.collect(cluster);
    }

    /// A replica dies and starts again, with some of what it had not been told to be durable, and with the state of its snapshot or,
    /// as with a store on disk, a later one.
    fn restart(&mut self, cluster: &mut Cluster, at: u32, random: &mut SmallRng) {
        self.collect(cluster);
        let replica = cluster.replica(at);
        let (snapshot, state_at) = (replica.disk.position(), replica.state_at);
        let in_exchange = self.installing.remove(&at).is_some() || state_at < snapshot;
        let executed =
            (!in_exchange && random.random_bool(0.5)).then(|| index(random.random_range(snapshot.0..=state_at.0)));
        self.fetching.remove(&at);
        self.preparing.retain(|(by, _)| *by != at);
        cluster.restart(at, random.random_range(0..4), executed);
    }
}

fn deliver_some(cluster: &mut Cluster, random: &mut SmallRng) {
    for _ in 0..random.random_range(0..12) {
        let (from, to) = (random.random_range(1..=3), random.random_range(1..=3));
        if random.random_bool(0.9) {
            cluster.deliver_one(from, to);
        }
    }
}

fn relink(cluster: &mut Cluster, one: u32, other: u32) {
    for (own, peer) in [(one, other), (other, one)] {
        cluster.network.remove(&(id(own), id(peer)));
        cluster.event(id(own), Event::PeerDown { peer: id(peer) });
    }
    for (own, peer) in [(one, other), (other, one)] {
        cluster.event(id(own), Event::PeerUp { peer: id(peer), incarnation: Incarnation(u64::from(peer)) });
    }
}

fn run(seed: u64) -> usize {
    let mut random = SmallRng::seed_from_u64(seed);
    let settings = RaftSettings {
        log_memory_bytes: 300,
        log_held_bytes: if seed.is_multiple_of(2) { 300 } else { 3_000 },
        log_tail_entries: 2,
        entries_per_append: 3,
        snapshots: true,
        ..RaftSettings::default()
    };
    let mut cluster = Cluster::with(3, settings, |_| RaftState::default());
    let mut nodes = Nodes::default();
    (1..=3).for_each(|replica| cluster.replica_mut(replica).durable_at_once = false);
    for _ in 0..1_500 {
        let (one, other) = ([1, 2, 3][random.random_range(0..3)], random.random_range(1..=3));
        match random.random_range(0..25) {
            0..=7 => deliver_some(&mut cluster, &mut random),
            8..=11 => cluster.propose(one, "some payload that takes room in a tiny log"),
            12..=14 => cluster.persist_first(id(one), random.random_range(1..5)),
            15..=17 => nodes.work(&mut cluster, &mut random),
            18..=20 => {
                cluster.pass(random.random_range(1..120));
                cluster.tick(one);
            }
            21 => {
                let pair = (id(one), id(other));
                if cluster.cut.contains(&pair) { cluster.heal() } else { cluster.cut.push(pair) }
            }
            22 if one != other => relink(&mut cluster, one, other),
            23 if random.random_bool(0.2) => nodes.restart(&mut cluster, one, &mut random),
            _ => take_snapshot(&mut cluster, one),
        }
        nodes.collect(&mut cluster);
    }
    heal(&mut cluster, &mut nodes, &mut random);
    let what = format!("seed {seed}");
    for replica in 1..=3 {
        assert_eq!(cluster.replica(replica).halted, None, "{what}");
        assert_eq!(cluster.executed_payloads(replica), cluster.executed_payloads(1), "{what}: replica {replica}");
        assert_eq!(cluster.replica(replica).state_at, cluster.replica(1).state_at, "{what}: replica {replica}");
    }
    assert!(cluster.replica(1).state_at > index(0), "{what}");
    nodes.installed
}

fn take_snapshot(cluster: &mut Cluster, at: u32) {
    cluster.event(id(at), Event::SnapshotDue);
    let take = |wish| match wish {
        Wish::Take(base) => Some(base),
        _ => None,
    };
    if let Some(base) = cluster.wishes(at).into_iter().find_map(take) {
        let position = base.position;
        cluster.name_snapshot(at, base, None);
        cluster.event(id(at), Event::SnapshotTaken { position, root: None });
    }
}

fn heal(cluster: &mut Cluster, nodes: &mut Nodes, random: &mut SmallRng) {
    cluster.heal();
    for replica in 1..=3 {
        cluster.replica_mut(replica).durable_at_once = true;
        cluster.persist_all(id(replica));
    }
    for (one, other) in [(1, 2), (1, 3), (2, 3)] {
        relink(cluster, one, other);
    }
    for _ in 0..400 {
        (0..12).for_each(|_| nodes.work(cluster, random));
        cluster.run_for(50);
    }
    let leader = (1..=3).find(|replica| cluster.core(*replica).is_leader()).expect("a healed cluster has a leader");
    cluster.propose(leader, "the last one");
    cluster.run_for(500);
    for peer in (1..=3).filter(|peer| *peer != leader) {
        assert_eq!(cluster.peer(leader, peer).state, "replicate");
    }
}

#[test]
fn whatever_happens_replicas_execute_the_same_and_a_healed_cluster_agrees() {
    let installed: usize = (0..300).map(run).sum();
    assert!(installed >= 200, "{installed} installs in 300 runs prove little");
}
