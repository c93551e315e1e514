//! Lives begin here, and links between them.

use super::World;
use crate::event::Happening;
use crate::fault::About;
use crate::oracle::Violation;
use crate::process::Started;
use crate::protocol::SimulatedProtocol;
use quorate_framework::{LinkId, ReplicaId};
use quorate_node::driver::{Disconnect, Inbound};
use std::time::Duration;

/// Pause between attempts to connect.
const CONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

impl<P: SimulatedProtocol> World<P> {
    pub(super) fn start(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        process.arm(About::Start);
        let started = process.start(&self.plan)?;
        let (life, incarnation) = (process.life, process.incarnation);
        match started {
            Started::Runs { kept, torn_bytes, is_another, finished_install } => {
                let counts = [
                    (kept > 0, "start: unreported records survived"),
                    (torn_bytes > 0, "start: torn tail cut"),
                    (is_another, "start: incarnation given up"),
                    (finished_install, "start: interrupted install finished"),
                ];
                counts.iter().filter(|(occurred, _)| *occurred).for_each(|(_, what)| self.coverage.count(what));
                self.note(format_args!(
                    "{replica} starts, life {life}, incarnation {incarnation}, {kept} records more"
                ));
            }
            Started::Refused(reason) => {
                self.coverage.count(if process.is_ruined { "start: refused, rot" } else { "start: refused, ill disk" });
                self.note(format_args!("{replica} does not start: {reason}"));
                return Ok(());
            }
            Started::CutOff => {
                self.coverage.count("start: cut off");
                self.note(format_args!("{replica} loses power while it starts"));
                return Ok(());
            }
        }
        self.check_restored(replica)?;
        self.check_started(replica)?;
        self.wal_soon(replica);
        self.wake(replica);
        let others: Vec<ReplicaId> = self.processes.keys().copied().filter(|other| *other != replica).collect();
        for other in others {
            self.connect_soon(replica, other);
        }
        Ok(())
    }

    pub(super) fn connect_soon(&mut self, one: ReplicaId, other: ReplicaId) {
        let pause = self.random.duration_between(CONNECT_PAUSE.0, CONNECT_PAUSE.1);
        self.agenda.add(self.now + pause, Happening::Connect(one, other));
    }

    pub(super) fn connect(&mut self, one: ReplicaId, other: ReplicaId) {
        let (Some(first), Some(second)) = (self.processes.get(&one), self.processes.get(&other)) else { return };
        let (Some(a), Some(b)) = (&first.running, &second.running) else { return };
        if self.network.is_whole(one, other) {
            return;
        }
        let claims = (a.driver.forming().claim(), b.driver.forming().claim());
        if first.is_paused(self.now) || second.is_paused(self.now) {
            return self.connect_soon(one, other);
        }
        let Some(link) = self.network.connect(one, other) else { return self.connect_soon(one, other) };
        self.note(format_args!("{one} and {other} connect, link {}", link.0));
        self.push(one, Inbound::PeerConnected { peer: other, link, claim: claims.1 });
        self.push(other, Inbound::PeerConnected { peer: one, link, claim: claims.0 });
        self.network.forget_old_links();
    }

    /// A side's connection is gone, and it knows.
    pub(super) fn drop_side(&mut self, own: ReplicaId, other: ReplicaId, link: LinkId) {
        if self.network.side(own, other) == Some(link) {
            self.network.close_side(own, other);
            self.push(own, Inbound::PeerDisconnected { peer: other, link });
            self.connect_soon(own, other);
        }
    }

    pub(super) fn notice(&mut self, own: ReplicaId, other: ReplicaId, link: LinkId) {
        self.note(format_args!("{own} notices that its link {} to {other} is gone", link.0));
        self.drop_side(own, other, link);
    }

    pub(super) fn disconnect(&mut self, replica: ReplicaId, orders: Vec<Disconnect>) {
        for order in orders {
            self.note(format_args!("{replica} drops its link to {}: {}", order.peer, order.reason));
            self.drop_side(replica, order.peer, order.link);
        }
    }
}
