//! The contents of a file by pages. A page of zeros takes no memory, so a prewritten segment is cheap to copy.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a page: the unit in which the page cache writes back.
pub const PAGE_BYTES: u64 = 4_096;

/// Bytes of a sector: the unit that a power cut cannot tear.
pub const SECTOR_BYTES: u64 = 512;

pub(crate) const PAGE_SIZE: usize = PAGE_BYTES as usize;

/// One page; none is a page of zeros.
pub(crate) type Page = Option<Arc<[u8; PAGE_SIZE]>>;

static ZEROS: [u8; PAGE_SIZE] = [0; PAGE_SIZE];

/// The bytes of a page.
pub(crate) fn bytes_of(page: &Page) -> &[u8; PAGE_SIZE] {
    page.as_deref().unwrap_or(&ZEROS)
}

/// A page from bytes, with zeros in their one form.
pub(crate) fn page_from(bytes: [u8; PAGE_SIZE]) -> Page {
    (bytes != ZEROS).then(|| Arc::new(bytes))
}

/// Where a page starts in its file.
pub(crate) fn start_of(number: u64) -> u64 {
    number.saturating_mul(PAGE_BYTES)
}

/// The pages that a range of bytes touches, each with the part of the page and the part of the range.
pub(crate) fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let position = offset + done as u64;
        let within = (position % PAGE_BYTES) as usize;
        let taken = (PAGE_SIZE - within).min(length - done);
        let part = (position / PAGE_BYTES, within, done..done + taken);
        done += taken;
        Some(part)
    })
}

/// The pages of a file, without its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    pages: BTreeMap<u64, Arc<[u8; PAGE_SIZE]>>,
}

impl Pages {
    pub(crate) fn get(&self, number: u64) -> Page {
        self.pages.get(&number).cloned()
    }

    pub(crate) fn set(&mut self, number: u64, page: Page) {
        match page {
            Some(page) => self.pages.insert(number, page),
            None => self.pages.remove(&number),
        };
    }

    /// The numbers of the pages that are not all zeros, from `first` on.
    pub(crate) fn numbers_from(&self, first: u64) -> impl Iterator<Item = u64> {
        self.pages.range(first..).map(|(number, _)| *number)
    }

    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) {
        for (number, within, range) in parts(offset, bytes.len()) {
            let page = self.get(number);
            let length = range.len();
            bytes[range].copy_from_slice(&bytes_of(&page)[within..within + length]);
        }
    }

    /// Makes everything from `length` on zero.
    pub(crate) fn truncate(&mut self, length: u64) {
        let first = length / PAGE_BYTES;
        let beyond: Vec<u64> = self.numbers_from(first).collect();
        for number in beyond {
            self.set(number, cut(&self.get(number), number, length));
        }
    }
}

/// A page with zeros where it lies at or beyond a file's length.
pub(crate) fn cut(page: &Page, number: u64, length: u64) -> Page {
    let kept = length.saturating_sub(start_of(number)).min(PAGE_BYTES) as usize;
    if kept == PAGE_SIZE {
        return page.clone();
    }
    let mut bytes = *bytes_of(page);
    bytes[kept..].fill(0);
    page_from(bytes)
}
