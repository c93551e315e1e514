//! What a replica's disk must hold, by what was handed to it and what it reported: every start is compared with it.

use quorate_framework::{MemberVector, Position, RecoverySpec, ReplayError, SnapshotBase, Ticket, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// One thing to be made durable.
#[derive(Clone, Debug)]
pub enum Written<R> {
    /// A record of the protocol.
    Record(R),
    /// The member vector of the metadata.
    Members(MemberVector),
    /// The snapshot that the metadata name.
    Snapshot(SnapshotBase),
}

/// What a start must find, or found.
#[derive(Clone, Debug)]
pub struct Contents<R: RecoverySpec> {
    /// All records replayed, by a replay that begins with nothing and forgets nothing.
    pub state: R::State,
    /// The member vector.
    pub members: Option<MemberVector>,
    /// The named snapshot.
    pub snapshot: Option<SnapshotBase>,
}

impl<R: RecoverySpec> Default for Contents<R> {
    fn default() -> Contents<R> {
        Contents { state: R::State::default(), members: None, snapshot: None }
    }
}

impl<R: RecoverySpec> Contents<R> {
    fn keep(&mut self, written: Written<R>) -> Result<(), ReplayError> {
        match written {
            Written::Record(record) => record.replay(&mut self.state)?,
            Written::Members(members) => self.members = Some(members),
            Written::Snapshot(base) => self.snapshot = Some(base),
        }
        Ok(())
    }

    /// Position of the named snapshot.
    #[must_use]
    pub fn snapshot_position(&self) -> Position {
        self.snapshot.as_ref().map_or(Position::ZERO, |base| base.position)
    }
}

/// What a disk must hold.
#[derive(Clone, Debug)]
pub struct Model<R: RecoverySpec> {
    /// What it reported durable: this much is sure.
    pub durable: Contents<R>,
    /// Handed to it and not reported: any first part of it may be found, never a later part without an earlier.
    pending: VecDeque<(Ticket, Time, Written<R>)>,
}

impl<R: RecoverySpec> Default for Model<R> {
    fn default() -> Model<R> {
        Model { durable: Contents::default(), pending: VecDeque::new() }
    }
}

impl<R: RecoverySpec + Clone> Model<R> {
    /// Something is handed to the disk.
    pub fn write(&mut self, now: Time, ticket: Ticket, written: Written<R>) {
        self.pending.push_back((ticket, now, written));
    }

    /// Everything up to a ticket is reported durable.
    ///
    /// # Errors
    /// [`ReplayError`] if the records do not follow one another.
    pub fn reported(&mut self, ticket: Ticket) -> Result<(), ReplayError> {
        while self.pending.front().is_some_and(|(pending, _, _)| *pending <= ticket) {
            if let Some((_, _, written)) = self.pending.pop_front() {
                self.durable.keep(written)?;
            }
        }
        Ok(())
    }

    /// Everything handed over is durable.
    ///
    /// # Errors
    /// [`ReplayError`] if the records do not follow one another.
    pub fn all_reported(&mut self) -> Result<(), ReplayError> {
        self.pending.back().map(|(ticket, _, _)| *ticket).map_or(Ok(()), |last| self.reported(last))
    }

    /// How long the oldest thing that is not reported has waited.
    #[must_use]
    pub fn waiting_for(&self, now: Time) -> Option<Duration> {
        self.pending.front().map(|(_, since, _)| now.since(*since))
    }

    /// How many unreported things must have survived so that a start finds `found`; none if nothing legal explains it.
    ///
    /// # Errors
    /// [`ReplayError`] if the records do not follow one another.
    pub fn explain(
        &self,
        found: &Contents<R>,
        same: fn(&Contents<R>, &Contents<R>) -> bool,
    ) -> Result<Option<usize>, ReplayError> {
        let mut expected = self.durable.clone();
        let mut explained = same(&expected, found).then_some(0);
        for (kept, (_, _, written)) in self.pending.iter().enumerate() {
            expected.keep(written.clone())?;
            if same(&expected, found) {
                explained = Some(kept + 1);
            }
        }
        Ok(explained)
    }

    /// A start has found this, and all of it is durable now.
    pub fn restarted(&mut self, found: Contents<R>) {
        *self = Model { durable: found, pending: VecDeque::new() };
    }
}

/// Whether two contents agree, for a protocol that knows no snapshots.
#[must_use]
pub fn is_same<R: RecoverySpec>(expected: &Contents<R>, found: &Contents<R>) -> bool {
    expected.state == found.state && expected.members == found.members && expected.snapshot == found.snapshot
}
