//! Gives a snapshot's bytes piece by piece; in between, execution goes on.

use super::error::SnapshotError;
use super::format::{
    ENTRY_HEAD_BYTES, SECTION_BYTES, SECTION_BYTES_MAX, SectionKind, SnapshotHeader, SnapshotSummary, put_section,
};
use crate::session::{SessionImage, SessionItem};
use crate::store::OrderedStore;
use quorate_framework::Position;
use std::ops::{Bound, ControlFlow};

/// A snapshot being written: a pump without a thread.
///
/// It holds a view of the store, which must be the one it was begun on, and a copy of the session table; both cost while it lives.
/// Its own memory is one section. Equal states at a position give equal bytes, whatever the store and the budgets.
#[derive(Debug)]
pub struct SnapshotWriter<V> {
    header: SnapshotHeader,
    view: V,
    sessions: SessionImage,
    stage: Stage,
    last_key: Vec<u8>,
    section: Vec<u8>,
    hasher: blake3::Hasher,
    summary: SnapshotSummary,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Header,
    Sessions,
    FirstEntries,
    Entries,
    End,
    Done,
}

impl<V: Send> SnapshotWriter<V> {
    pub(crate) fn new(header: SnapshotHeader, view: V, sessions: SessionImage) -> SnapshotWriter<V> {
        let summary = SnapshotSummary { position: header.base.position, ..SnapshotSummary::default() };
        SnapshotWriter {
            header,
            view,
            sessions,
            stage: Stage::Header,
            last_key: Vec::new(),
            section: Vec::new(),
            hasher: blake3::Hasher::new(),
            summary,
        }
    }

    /// The position whose state it is.
    #[must_use]
    pub fn position(&self) -> Position {
        self.summary.position
    }

    /// Appends the next bytes to `output`: whole sections, until they are `budget_bytes` or more (at least one section; see
    /// [`SECTION_BYTES_MAX`] for the most it can be). Gives the summary once the end is appended; after that nothing more comes.
    /// `store` is the one the snapshot was begun on. Blocks where the store does.
    ///
    /// # Errors
    /// [`SnapshotError`]; the snapshot is then of no use.
    pub fn step<S: OrderedStore<View = V>>(
        &mut self,
        store: &S,
        budget_bytes: usize,
        output: &mut Vec<u8>,
    ) -> Result<Option<SnapshotSummary>, SnapshotError> {
        let start = output.len();
        while self.stage != Stage::Done && (output.len() == start || output.len() - start < budget_bytes) {
            let before = output.len();
            self.next_piece(store, output)?;
            if self.stage == Stage::Done {
                break;
            }
            self.hasher.update(&output[before..]);
            self.summary.file_bytes += (output.len() - before) as u64;
        }
        Ok((self.stage == Stage::Done).then_some(self.summary))
    }

    /// Appends one piece, or moves on to the next stage.
    fn next_piece<S: OrderedStore<View = V>>(&mut self, store: &S, output: &mut Vec<u8>) -> Result<(), SnapshotError> {
        match self.stage {
            Stage::Header => {
                self.header.encode(output)?;
                self.stage = Stage::Sessions;
            }
            Stage::Sessions => {
                let items = self.fill_with_sessions();
                self.close_section(SectionKind::Sessions, items, Stage::FirstEntries, output)?;
            }
            Stage::FirstEntries => {
                self.stage = Stage::Entries;
                let items = self.fill_with_entries(store, true)?;
                self.close_section(SectionKind::Entries, items, Stage::End, output)?;
            }
            Stage::Entries => {
                let items = self.fill_with_entries(store, false)?;
                self.close_section(SectionKind::Entries, items, Stage::End, output)?;
            }
            Stage::End => {
                self.summary.file_bytes += SnapshotSummary::END_SECTION_BYTES as u64;
                self.summary.hash = *self.hasher.finalize().as_bytes();
                self.summary.encode(output);
                self.stage = Stage::Done;
            }
            Stage::Done => {}
        }
        Ok(())
    }

    /// Appends the section, or, if there is nothing in it, goes on to the stage that follows its kind.
    fn close_section(
        &mut self,
        kind: SectionKind,
        items: u32,
        following: Stage,
        output: &mut Vec<u8>,
    ) -> Result<(), SnapshotError> {
        if items == 0 {
            self.stage = following;
            return Ok(());
        }
        if self.section.len() > SECTION_BYTES_MAX {
            return Err(SnapshotError::ItemTooLarge { bytes: self.section.len() });
        }
        put_section(kind, items, &self.section, output);
        self.summary.sections += 1;
        self.section.clear();
        self.section.shrink_to(2 * SECTION_BYTES);
        Ok(())
    }

    fn fill_with_sessions(&mut self) -> u32 {
        let mut items = 0;
        while self.section.len() < SECTION_BYTES {
            match self.sessions.write_item(&mut self.section) {
                Some(SessionItem::Session) => self.summary.sessions += 1,
                Some(SessionItem::Answer) => self.summary.answers += 1,
                None => break,
            }
            items += 1;
        }
        items
    }

    fn fill_with_entries<S: OrderedStore<View = V>>(&mut self, store: &S, first: bool) -> Result<u32, SnapshotError> {
        let SnapshotWriter { view, last_key, section, summary, .. } = self;
        let from = if first { Bound::Unbounded } else { Bound::Excluded(last_key.as_slice()) };
        let mut items = 0;
        let mut last = None;
        store.view_scan(view, from, Bound::Unbounded, |key, value| {
            section.reserve(ENTRY_HEAD_BYTES + key.len() + value.len());
            section.extend_from_slice(&(key.len() as u32).to_le_bytes());
            section.extend_from_slice(&(value.len() as u32).to_le_bytes());
            section.extend_from_slice(key);
            section.extend_from_slice(value);
            items += 1;
            summary.entries += 1;
            summary.content_bytes += (key.len() + value.len()) as u64;
            if section.len() < SECTION_BYTES {
                return ControlFlow::Continue(());
            }
            last = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        // Where the scan was not broken off, the view is at its end.
        match last {
            Some(key) => *last_key = key,
            None => self.stage = Stage::End,
        }
        Ok(items)
    }
}
