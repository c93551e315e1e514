//! One file: what the medium holds, what the page cache holds, and everything in between that a power cut may leave.

use crate::choice::Chooser;
use crate::page::{self, PAGE_BYTES, PAGE_SIZE, Page, Pages, SECTOR_BYTES};
use std::collections::{BTreeMap, BTreeSet};

/// How small a piece of an unsynced write may survive alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Torn {
    /// A page of 4 KiB is old or new as a whole.
    #[default]
    Pages,
    /// A sector of 512 bytes is old or new as a whole; a page may be a mixture.
    Sectors,
}

/// What a failed sync leaves of the pages it should have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailedSync {
    /// They stay dirty: a later sync writes them.
    StillDirty,
    /// They count as clean: reads show the new bytes, a later sync succeeds without writing them, a power cut shows the old ones.
    MarkedClean,
    /// They are thrown away: reads show the old bytes at once.
    Dropped,
}

/// Versions of one page beyond which the middle ones are forgotten (each is only one more thing that may survive).
const VERSIONS_PER_PAGE_MAX: usize = 64;

/// A page as it was after one unsynced write.
#[derive(Clone, Debug)]
struct PageVersion {
    sequence: u64,
    page: Page,
    /// Made by cutting the file short: it survives with the length, and only with it.
    truncation: bool,
}

#[derive(Clone, Copy, Debug)]
struct LengthVersion {
    sequence: u64,
    length: u64,
}

/// What survives of one file, as indices into its histories.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileOutcome {
    pub(crate) lengths_applied: usize,
    /// For a page with a choice: one version for the page, or one for each sector; 0 is what was durable.
    pub(crate) pages: BTreeMap<u64, Vec<usize>>,
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileState {
    durable: Pages,
    durable_length: u64,
    cached: Pages,
    cached_length: u64,
    versions: BTreeMap<u64, Vec<PageVersion>>,
    lengths: Vec<LengthVersion>,
    unreadable_sectors: BTreeSet<u64>,
}

impl FileState {
    /// A file whose bytes are durable.
    pub(crate) fn durable(bytes: &[u8]) -> FileState {
        let mut file = FileState::default();
        file.write(bytes, 0, 0);
        file.sync(u64::MAX);
        file
    }

    pub(crate) fn length(&self) -> u64 {
        self.cached_length
    }

    /// Whether nothing waits to be written back.
    pub(crate) fn is_synced(&self) -> bool {
        self.versions.is_empty() && self.lengths.is_empty()
    }

    /// Whether what a process reads is what a power cut would leave.
    pub(crate) fn is_durable(&self) -> bool {
        self.is_synced() && self.cached_length == self.durable_length && self.cached == self.durable
    }

    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) {
        self.cached.read(bytes, offset);
    }

    /// What a process reads.
    pub(crate) fn cached_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.cached_length as usize];
        self.cached.read(&mut bytes, 0);
        bytes
    }

    /// What is on the medium for certain.
    pub(crate) fn durable_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.durable_length as usize];
        self.durable.read(&mut bytes, 0);
        bytes
    }

    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64, sequence: u64) {
        for (number, within, range) in page::parts(offset, bytes.len()) {
            let mut content = *page::bytes_of(&self.cached.get(number));
            content[within..within + range.len()].copy_from_slice(&bytes[range]);
            self.put_page(number, page::page_from(content), sequence, false);
        }
        let end = offset + bytes.len() as u64;
        for sector in offset.div_ceil(SECTOR_BYTES)..end / SECTOR_BYTES {
            self.unreadable_sectors.remove(&sector);
        }
        if !bytes.is_empty() && end > self.cached_length {
            self.put_length(end, sequence);
        }
    }

    pub(crate) fn set_length(&mut self, length: u64, sequence: u64) {
        if length < self.cached_length {
            let first = length / PAGE_BYTES;
            let mut beyond: BTreeSet<u64> = self.cached.numbers_from(first).collect();
            beyond.extend(self.durable.numbers_from(first));
            beyond.extend(self.versions.range(first..).map(|(number, _)| *number));
            for number in beyond {
                let page = page::cut(&self.cached.get(number), number, length);
                self.put_page(number, page, sequence, true);
            }
        }
        if length != self.cached_length {
            self.put_length(length, sequence);
        }
    }

    fn put_length(&mut self, length: u64, sequence: u64) {
        // A file grows page by page; a length in the middle stands for those in between.
        let middle = self.cached_length.midpoint(length).next_multiple_of(PAGE_BYTES);
        if self.cached_length < middle && middle < length {
            self.lengths.push(LengthVersion { sequence, length: middle });
        }
        self.cached_length = length;
        self.lengths.push(LengthVersion { sequence, length });
        // Only a length on the way up is forgotten: a truncation goes with its pages.
        while self.lengths.len() > VERSIONS_PER_PAGE_MAX
            && let Some(place) = self.lengths.windows(3).position(|three| three.is_sorted_by_key(|one| one.length))
        {
            let forgotten = self.lengths.remove(place + 1);
            self.lengths[place + 1].sequence = forgotten.sequence;
        }
    }

    fn put_page(&mut self, number: u64, page: Page, sequence: u64, truncation: bool) {
        self.cached.set(number, page.clone());
        let history = self.versions.entry(number).or_default();
        let newest = history.last().map_or_else(|| self.durable.get(number), |version| version.page.clone());
        if truncation || newest != page {
            history.push(PageVersion { sequence, page, truncation });
        }
        // The version after a forgotten one stands in for it, so that a sync of the forgotten one loses nothing.
        if history.len() > VERSIONS_PER_PAGE_MAX
            && let Some(place) = history.windows(2).position(|two| two.iter().all(|version| !version.truncation))
        {
            let forgotten = history.remove(place);
            history[place].sequence = forgotten.sequence;
        }
        if history.is_empty() {
            self.versions.remove(&number);
        }
    }

    /// Makes durable what was written up to a sequence.
    pub(crate) fn sync(&mut self, up_to: u64) {
        for (number, history) in &mut self.versions {
            let synced = history.iter().take_while(|version| version.sequence <= up_to).count();
            if let Some(last) = history.drain(..synced).next_back() {
                self.durable.set(*number, last.page);
            }
        }
        self.versions.retain(|_, history| !history.is_empty());
        let synced = self.lengths.iter().take_while(|version| version.sequence <= up_to).count();
        for version in self.lengths.drain(..synced) {
            self.durable_length = version.length;
        }
    }

    /// Forgets, after a failed sync, that the pages up to a sequence are dirty. Lengths stay: they are metadata of the file
    /// system and come with its next commit.
    pub(crate) fn forget(&mut self, up_to: u64, drop_cached: bool) {
        for (number, history) in &mut self.versions {
            let before = history.len();
            history.retain(|version| version.sequence > up_to || version.truncation);
            if drop_cached && history.is_empty() && before > 0 {
                self.cached.set(*number, self.durable.get(*number));
            }
        }
        self.versions.retain(|_, history| !history.is_empty());
    }

    /// Flips a bit on the medium. A clean page is read from there again; a dirty one hides the damage until it is lost.
    pub(crate) fn flip_bit(&mut self, offset: u64, bit: u8) {
        let number = offset / PAGE_BYTES;
        let mut content = *page::bytes_of(&self.durable.get(number));
        content[(offset % PAGE_BYTES) as usize] ^= 1 << (bit % 8);
        let page = page::page_from(content);
        self.durable.set(number, page.clone());
        if !self.versions.contains_key(&number) {
            self.cached.set(number, page);
        }
    }

    pub(crate) fn break_sectors(&mut self, first: u64, end: u64) {
        self.unreadable_sectors.extend(first..end);
    }

    /// Whether a read of this range meets a broken sector.
    pub(crate) fn is_unreadable(&self, offset: u64, length: usize) -> bool {
        let end = (offset + length as u64).div_ceil(SECTOR_BYTES);
        length > 0 && self.unreadable_sectors.range(offset / SECTOR_BYTES..end).next().is_some()
    }

    /// One legal outcome of a power cut, as a chooser decides.
    pub(crate) fn choose_outcome(&self, torn: Torn, chooser: &mut dyn Chooser) -> FileOutcome {
        let lengths_applied = if self.lengths.is_empty() { 0 } else { chooser.choose(self.lengths.len() + 1) };
        let length = self.length_after(lengths_applied);
        let settled = lengths_applied.checked_sub(1).map_or(0, |last| self.lengths[last].sequence);
        let unit = if torn == Torn::Pages { PAGE_SIZE } else { SECTOR_BYTES as usize };
        let mut pages = BTreeMap::new();
        for (number, history) in &self.versions {
            let visible = length.saturating_sub(page::start_of(*number)).min(PAGE_BYTES) as usize;
            let range = legal_versions(history, settled);
            let choices: Vec<usize> = (0..visible.div_ceil(unit))
                .map(|place| {
                    let piece = place * unit..((place + 1) * unit).min(visible);
                    self.choose_version(*number, history, range.clone(), piece, chooser)
                })
                .collect();
            if choices.iter().any(|choice| *choice > 0) {
                pages.insert(*number, choices);
            }
        }
        FileOutcome { lengths_applied, pages }
    }

    /// The version of one piece, named by the first one with the same bytes, so that equal outcomes are equal.
    fn choose_version(
        &self,
        number: u64,
        history: &[PageVersion],
        range: std::ops::RangeInclusive<usize>,
        piece: std::ops::Range<usize>,
        chooser: &mut dyn Chooser,
    ) -> usize {
        let durable = self.durable.get(number);
        let bytes_at = |version: usize| {
            let page = if version == 0 { &durable } else { &history[version - 1].page };
            &page::bytes_of(page)[piece.clone()]
        };
        let (oldest, newest) = (*range.start(), *range.end());
        if range.clone().all(|version| bytes_at(version) == bytes_at(oldest)) {
            return oldest;
        }
        let chosen = oldest + chooser.choose(newest - oldest + 1);
        range.into_iter().find(|version| bytes_at(*version) == bytes_at(chosen)).unwrap_or(chosen)
    }

    fn length_after(&self, lengths_applied: usize) -> u64 {
        lengths_applied.checked_sub(1).map_or(self.durable_length, |last| self.lengths[last].length)
    }

    /// The file after the power cut: everything left is durable.
    pub(crate) fn after(&self, outcome: &FileOutcome) -> FileState {
        let length = self.length_after(outcome.lengths_applied);
        let mut pages = self.durable.clone();
        for (number, choices) in &outcome.pages {
            let unit = if choices.len() == 1 { PAGE_SIZE } else { SECTOR_BYTES as usize };
            let mut content = *page::bytes_of(&self.durable.get(*number));
            for (place, version) in choices.iter().enumerate().filter(|(_, version)| **version > 0) {
                let chosen = page::bytes_of(&self.versions[number][version - 1].page);
                let piece = place * unit..((place + 1) * unit).min(PAGE_SIZE);
                content[piece.clone()].copy_from_slice(&chosen[piece]);
            }
            pages.set(*number, page::page_from(content));
        }
        pages.truncate(length);
        FileState {
            durable: pages.clone(),
            durable_length: length,
            cached: pages,
            cached_length: length,
            unreadable_sectors: self.unreadable_sectors.clone(),
            ..FileState::default()
        }
    }
}

/// The versions (0 is the durable one) that agree with the lengths that survived: not from before a truncation that did, not from
/// one that did not.
fn legal_versions(history: &[PageVersion], settled: u64) -> std::ops::RangeInclusive<usize> {
    let oldest = history.iter().rposition(|version| version.truncation && version.sequence <= settled);
    let lost = history.iter().position(|version| version.truncation && version.sequence > settled);
    oldest.map_or(0, |place| place + 1)..=lost.unwrap_or(history.len())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
