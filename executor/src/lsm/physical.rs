//! Reading keys of the keyspace: what is committed now with the open batch over it, or a view.

use super::keys;
use super::pending::Pending;
use crate::store::is_empty_range;
use fjall::{Keyspace, Readable, Snapshot, UserValue};
use std::ops::{Bound, ControlFlow};

/// A place to read from.
pub(super) enum Source<'s> {
    /// The store as it is, the open batch included.
    Now { keyspace: &'s Keyspace, pending: &'s Pending },
    /// The store as it was.
    View { keyspace: &'s Keyspace, snapshot: &'s Snapshot },
}

/// A value that was found.
pub(super) enum Found<'s> {
    Pending(&'s [u8]),
    Stored(UserValue),
}

impl Found<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Found::Pending(value) => value,
            Found::Stored(value) => value,
        }
    }
}

type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;
type Scanned = Result<ControlFlow<()>, fjall::Error>;

impl<'s> Source<'s> {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Found<'s>>, fjall::Error> {
        let stored = match self {
            Source::Now { keyspace, pending } => match pending.get(key) {
                Some(written) => return Ok(written.map(Found::Pending)),
                None => keyspace.get(key)?,
            },
            Source::View { keyspace, snapshot } => snapshot.get(keyspace, key)?,
        };
        Ok(stored.map(Found::Stored))
    }

    /// The value of an entry's key.
    pub(super) fn entry(&self, key: &[u8]) -> Result<Option<Found<'s>>, fjall::Error> {
        match keys::entry(key) {
            (physical, None) => self.get(&physical),
            (head, Some(rest)) => match self.long_number(&head)? {
                Some(number) => self.get(&keys::long(number, rest)),
                None => Ok(None),
            },
        }
    }

    /// The number that stands under the head of long keys.
    pub(super) fn long_number(&self, head: &[u8]) -> Result<Option<u64>, fjall::Error> {
        self.get(head)?.map(|found| number(found.bytes())).transpose()
    }

    /// Visits keys of the keyspace between two bounds until the visitor breaks.
    pub(super) fn scan(&self, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>, visit: &mut Visit<'_>) -> Scanned {
        let (lower, upper) = (as_slice(&from), as_slice(&to));
        if is_empty_range(lower, upper) {
            return Ok(ControlFlow::Continue(()));
        }
        match self {
            Source::View { keyspace, snapshot } => {
                for entry in snapshot.range::<Vec<u8>, _>(keyspace, (from, to)) {
                    let (key, value) = entry.into_inner()?;
                    if visit(&key, &value).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Source::Now { keyspace, pending } => {
                let mut written = pending.range(lower, upper).peekable();
                for entry in keyspace.range::<Vec<u8>, _>((from.clone(), to.clone())) {
                    let (key, value) = entry.into_inner()?;
                    // Writes that come before it, and the one that replaces it.
                    while let Some((before, new)) = written.next_if(|(before, _)| before.as_slice() < &key[..]) {
                        if let Some(new) = new
                            && visit(before, new).is_break()
                        {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                    let shown = match written.next_if(|(same, _)| same.as_slice() == &key[..]) {
                        Some((_, new)) => new.as_deref(),
                        None => Some(&value[..]),
                    };
                    if let Some(shown) = shown
                        && visit(&key, shown).is_break()
                    {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                for (key, new) in written {
                    if let Some(new) = new
                        && visit(key, new).is_break()
                    {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Visits entries between two bounds of their keys until the visitor breaks.
    pub(super) fn scan_entries(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: &mut Visit<'_>) -> Scanned {
        if is_empty_range(from, to) {
            return Ok(ControlFlow::Continue(()));
        }
        let mut failed = None;
        let (lower, upper) = keys::entries_between(from, to);
        let flow = self.scan(lower, upper, &mut |physical, value| {
            if !keys::is_long_head(physical) {
                return visit(&physical[1..], value);
            }
            match number(value).and_then(|number| self.scan_long(&physical[1..], number, (from, to), visit)) {
                Ok(flow) => flow,
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(flow), Err)
    }

    /// Visits the long keys that begin alike.
    fn scan_long(
        &self,
        head: &[u8],
        number: u64,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut Visit<'_>,
    ) -> Scanned {
        let (lower, upper) = keys::all_long(number);
        self.scan(lower, upper, &mut |physical, value| {
            let key = [head, &physical[9..]].concat();
            let is_above = match from {
                Bound::Included(from) => &key[..] >= from,
                Bound::Excluded(from) => &key[..] > from,
                Bound::Unbounded => true,
            };
            let is_below = match to {
                Bound::Included(to) => &key[..] <= to,
                Bound::Excluded(to) => &key[..] < to,
                Bound::Unbounded => true,
            };
            if is_above && is_below { visit(&key, value) } else { ControlFlow::Continue(()) }
        })
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// The number of long keys, from the value that stands under their head.
fn number(value: &[u8]) -> Result<u64, fjall::Error> {
    let bytes = value.try_into().map_err(|_| fjall::Error::InvalidTag(("number of long keys", 0)))?;
    Ok(u64::from_le_bytes(bytes))
}
