//! What the world has to do, in the order of its clock.

use crate::fault::Fault;
use crate::snapshots::Served;
use quorate_framework::LinkId;
use quorate_framework::{
    ClientFrame, ClientReply, ConnectionId, FrameClass, Lane, ReplicaId, SnapshotId, Ticket, Time,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A frame on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flight {
    /// The sender.
    pub from: ReplicaId,
    /// The receiver.
    pub to: ReplicaId,
    /// By which connection.
    pub link: LinkId,
    /// In which lane.
    pub lane: Lane,
    /// For which decoder.
    pub class: FrameClass,
    /// The message's own bytes.
    pub head: Vec<u8>,
    /// What follows it.
    pub body: Vec<u8>,
}

/// Something the world has to do.
#[derive(Clone, Debug)]
pub enum Happening {
    /// Give a replica a turn.
    Turn(ReplicaId),
    /// A frame arrives.
    Arrival(Flight),
    /// The writer of a replica's log takes its next step. The number is the process's, as in what follows.
    WalStep(ReplicaId, u64),
    /// A replica hears that everything up to a ticket is durable.
    Reported(ReplicaId, u64, Ticket),
    /// A replica whose disk has failed is gone.
    Ended(ReplicaId, u64),
    /// A snapshot that a replica writes goes on by a step.
    SnapshotStep(ReplicaId, u64),
    /// A replica looks after the snapshot that it fetches.
    Fetch(ReplicaId, u64, SnapshotId),
    /// A replica loads what it has fetched.
    Load(ReplicaId, u64, SnapshotId),
    /// Bytes of a snapshot are asked for.
    ChunkAsked {
        /// By whom.
        by: ReplicaId,
        /// Of whom.
        of: ReplicaId,
        /// Which snapshot.
        id: SnapshotId,
        /// From which offset on.
        offset: u64,
    },
    /// The answer.
    ChunkServed {
        /// To whom.
        to: ReplicaId,
        /// Of which snapshot.
        id: SnapshotId,
        /// From which offset on.
        offset: u64,
        /// What.
        served: Served,
    },
    /// The two replicas try to connect.
    Connect(ReplicaId, ReplicaId),
    /// One side notices that a connection is gone.
    Noticed(ReplicaId, ReplicaId, LinkId),
    /// A paused replica goes on.
    Resume(ReplicaId),
    /// A request arrives at a replica.
    Request(ReplicaId, ConnectionId, ClientFrame),
    /// An answer arrives at its client.
    Answer(ClientReply),
    /// A client acts by its clock.
    Client(u32),
    /// Something goes wrong.
    Fault(Fault),
}

/// The world's agenda: by time, and among equals by the order of entry.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(Time, u64)>>,
    happenings: std::collections::BTreeMap<u64, Happening>,
    next: u64,
}

impl Agenda {
    /// Adds something.
    pub fn add(&mut self, at: Time, happening: Happening) {
        self.heap.push(Reverse((at, self.next)));
        self.happenings.insert(self.next, happening);
        self.next += 1;
    }

    /// When the next thing happens.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the next thing.
    pub fn pop(&mut self) -> Option<(Time, Happening)> {
        let Reverse((at, number)) = self.heap.pop()?;
        self.happenings.remove(&number).map(|happening| (at, happening))
    }
}
