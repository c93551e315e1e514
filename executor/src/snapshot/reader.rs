//! Reads a snapshot file, one section at a time, and believes nothing.

use super::error::SnapshotError;
use super::files::failed;
use super::format::{
    ENTRY_HEAD_BYTES, PREFIX_BYTES, SECTION_BYTES, SECTION_HEAD_BYTES, SectionHead, SectionKind, SnapshotHeader,
    SnapshotSummary, meaningless,
};
use crate::session::{SessionTable, SessionTableBuilder};
use quorate_framework::vfs::VfsFile;
use quorate_framework::{ClusterId, SnapshotBase, WireError};

/// A snapshot file being read. Holds one section in memory. All calls block.
///
/// First [`SnapshotReader::sessions`], then [`SnapshotReader::next_entry`] until it gives none: only then was the file's end checked, and
/// only then is what was read the state of that position.
pub struct SnapshotReader {
    file: Box<dyn VfsFile>,
    length: u64,
    header: SnapshotHeader,
    hasher: blake3::Hasher,
    /// Where the next section begins.
    offset: u64,
    section: Section,
    seen: SnapshotSummary,
    last_key: Vec<u8>,
    end: Option<SnapshotSummary>,
}

/// The key and the value of an entry, on loan from the reader.
pub type SnapshotEntry<'a> = (&'a [u8], &'a [u8]);

/// The section that is being read.
#[derive(Debug, Default)]
struct Section {
    kind: Option<SectionKind>,
    /// Where in the file its body begins.
    start: u64,
    body: Vec<u8>,
    read: usize,
    items_left: u32,
}

impl Section {
    /// Where in the file the next item begins.
    fn offset(&self) -> u64 {
        self.start + self.read as u64
    }

    fn is_read(&self) -> bool {
        self.read == self.body.len()
    }

    /// Counts an item that is about to be read.
    fn count_item(&mut self) -> Result<(), WireError> {
        let count = self.body.len() - self.read;
        self.items_left =
            self.items_left.checked_sub(1).ok_or(WireError::Trailing { what: "section of a snapshot", count })?;
        Ok(())
    }
}

impl std::fmt::Debug for SnapshotReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SnapshotReader { header, offset, end, .. } = self;
        write!(formatter, "SnapshotReader {{ position: {}, offset: {offset}, end: {end:?} }}", header.base.position)
    }
}

/// Reads a whole snapshot and checks everything in it, restoring nothing. Blocks.
///
/// # Errors
/// [`SnapshotError`].
pub fn verify(file: Box<dyn VfsFile>) -> Result<(SnapshotHeader, SnapshotSummary), SnapshotError> {
    let mut reader = SnapshotReader::open(file)?;
    reader.sessions()?;
    while reader.next_entry()?.is_some() {}
    let summary = reader.end.expect("the entries end only when the end was checked");
    Ok((reader.header, summary))
}

impl SnapshotReader {
    /// Reads the header.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn open(file: Box<dyn VfsFile>) -> Result<SnapshotReader, SnapshotError> {
        let length = file.length().map_err(failed("measuring a snapshot"))?;
        let short = |needed: usize| SnapshotError::Damaged {
            offset: length,
            reason: WireError::Short { what: "snapshot", needed, present: length as usize },
        };
        if length < PREFIX_BYTES as u64 {
            return Err(short(PREFIX_BYTES));
        }
        let mut prefix = [0; PREFIX_BYTES];
        file.read_exact_at(&mut prefix, 0).map_err(failed("reading a snapshot"))?;
        let body_bytes = SnapshotHeader::body_bytes(&prefix)?;
        let offset = (PREFIX_BYTES + body_bytes) as u64;
        if length < offset {
            return Err(short(PREFIX_BYTES + body_bytes));
        }
        let mut body = vec![0; body_bytes];
        file.read_exact_at(&mut body, PREFIX_BYTES as u64).map_err(failed("reading a snapshot"))?;
        let header =
            SnapshotHeader::decode(&prefix, &body).map_err(|reason| SnapshotError::Damaged { offset: 0, reason })?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&prefix);
        hasher.update(&body);
        let seen = SnapshotSummary { position: header.base.position, ..SnapshotSummary::default() };
        Ok(SnapshotReader {
            file,
            length,
            header,
            hasher,
            offset,
            section: Section::default(),
            seen,
            last_key: Vec::new(),
            end: None,
        })
    }

    /// What stands before the state.
    #[must_use]
    pub fn header(&self) -> &SnapshotHeader {
        &self.header
    }

    /// The summary, once the end was checked.
    #[must_use]
    pub fn end(&self) -> Option<&SnapshotSummary> {
        self.end.as_ref()
    }

    /// Bytes of the file that were read, for showing progress.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.offset
    }

    /// Whether the next item has to be read from the file.
    #[must_use]
    pub fn is_between_sections(&self) -> bool {
        self.section.is_read()
    }

    /// Checks that this is the snapshot that was asked for.
    ///
    /// # Errors
    /// [`SnapshotError::Foreign`].
    pub fn expect(&self, cluster: ClusterId, base: &SnapshotBase) -> Result<(), SnapshotError> {
        let found = &self.header.base;
        let differs = [
            (self.header.cluster != cluster, "cluster"),
            (found.position != base.position, "position"),
            (found.protocol != base.protocol, "protocol state"),
            (found.membership != base.membership, "membership"),
        ];
        match differs.into_iter().find(|(differs, _)| *differs) {
            Some((_, what)) => Err(SnapshotError::Foreign { what }),
            None => Ok(()),
        }
    }

    /// Reads the session table, all of it.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn sessions(&mut self) -> Result<SessionTable, SnapshotError> {
        let mut builder = SessionTableBuilder::default();
        while self.advance(SectionKind::Sessions)? {
            let offset = self.section.offset();
            let counted = self.section.count_item();
            let mut rest = &self.section.body[self.section.read..];
            let before = rest.len();
            counted
                .and_then(|()| builder.read_item(&mut rest))
                .map_err(|reason| SnapshotError::Damaged { offset, reason })?;
            let read = before - rest.len();
            self.section.read += read;
        }
        (self.seen.sessions, self.seen.answers) = (builder.sessions(), builder.answers());
        let offset = self.section.offset();
        builder.finish(Some(&self.header.limits)).map_err(|reason| SnapshotError::Damaged { offset, reason })
    }

    /// The next entry; none once all of them and the end of the file were read and checked.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn next_entry(&mut self) -> Result<Option<SnapshotEntry<'_>>, SnapshotError> {
        if self.end.is_some() {
            return Ok(None);
        }
        if !self.advance(SectionKind::Entries)? {
            self.check_end()?;
            return Ok(None);
        }
        let offset = self.section.offset();
        let (key, value) = self.take_entry().map_err(|reason| SnapshotError::Damaged { offset, reason })?;
        self.seen.entries += 1;
        self.seen.content_bytes += (key.len() + value.len()) as u64;
        let body = &self.section.body;
        self.last_key.clear();
        self.last_key.extend_from_slice(&body[key.clone()]);
        Ok(Some((&body[key], &body[value])))
    }

    /// Where in the section the next entry's key and value lie.
    fn take_entry(&mut self) -> Result<(std::ops::Range<usize>, std::ops::Range<usize>), WireError> {
        const WHAT: &str = "entry of a snapshot";
        self.section.count_item()?;
        let Section { body, read, .. } = &mut self.section;
        let (rest, start) = (&body[*read..], *read);
        let short = |needed| WireError::Short { what: WHAT, needed, present: rest.len() };
        let (lengths, _) = rest.split_first_chunk::<ENTRY_HEAD_BYTES>().ok_or_else(|| short(ENTRY_HEAD_BYTES))?;
        let both = u64::from_le_bytes(*lengths);
        let (key_bytes, value_bytes) = ((both & 0xffff_ffff) as usize, (both >> 32) as usize);
        let needed = ENTRY_HEAD_BYTES.saturating_add(key_bytes).saturating_add(value_bytes);
        if needed > rest.len() {
            return Err(short(needed));
        }
        let key = start + ENTRY_HEAD_BYTES..start + ENTRY_HEAD_BYTES + key_bytes;
        let value = key.end..key.end + value_bytes;
        if body[key.clone()] <= self.last_key[..] {
            return Err(meaningless("order of keys in a snapshot", self.seen.entries));
        }
        *read = value.end;
        Ok((key, value))
    }

    /// Whether another item of this kind follows; reads the next section if the current one is used up.
    fn advance(&mut self, kind: SectionKind) -> Result<bool, SnapshotError> {
        if self.section.is_read() {
            if self.section.items_left > 0 {
                let reason = meaningless("number of items in a section", u64::from(self.section.items_left));
                return Err(SnapshotError::Damaged { offset: self.section.offset(), reason });
            }
            self.read_section()?;
        }
        match self.section.kind {
            Some(found) if found < kind => {
                let reason = meaningless("order of sections", found as u64);
                Err(SnapshotError::Damaged { offset: self.section.start, reason })
            }
            found => Ok(found == Some(kind)),
        }
    }

    fn read_section(&mut self) -> Result<(), SnapshotError> {
        let offset = self.offset;
        let damaged = |reason| SnapshotError::Damaged { offset, reason };
        let left = self.length - offset;
        if left < SECTION_HEAD_BYTES as u64 {
            let (needed, present) = (SECTION_HEAD_BYTES, left as usize);
            return Err(damaged(WireError::Short { what: "section of a snapshot", needed, present }));
        }
        let mut bytes = [0; SECTION_HEAD_BYTES];
        self.file.read_exact_at(&mut bytes, offset).map_err(failed("reading a snapshot"))?;
        let head = SectionHead::decode(&bytes, left - SECTION_HEAD_BYTES as u64).map_err(damaged)?;
        let start = offset + SECTION_HEAD_BYTES as u64;
        let body = &mut self.section.body;
        body.resize(head.length, 0);
        body.shrink_to(2 * SECTION_BYTES);
        self.file.read_exact_at(body, start).map_err(failed("reading a snapshot"))?;
        head.check(body).map_err(damaged)?;
        if head.kind != SectionKind::End {
            self.hasher.update(&bytes);
            self.hasher.update(body);
            self.seen.sections += 1;
        }
        (self.section.kind, self.section.items_left) = (Some(head.kind), head.items);
        (self.section.start, self.section.read) = (start, 0);
        self.offset = start + head.length as u64;
        Ok(())
    }

    /// Checks the end section, which was read, against everything that was seen.
    fn check_end(&mut self) -> Result<(), SnapshotError> {
        let start = self.section.start;
        let damaged = |reason| SnapshotError::Damaged { offset: start, reason };
        let end = SnapshotSummary::decode(&self.section.body, self.seen.position).map_err(damaged)?;
        if self.section.items_left != 1 {
            return Err(damaged(meaningless("items of the end section", u64::from(self.section.items_left))));
        }
        if self.length > self.offset {
            let count = (self.length - self.offset) as usize;
            return Err(damaged(WireError::Trailing { what: "snapshot", count }));
        }
        self.seen.file_bytes = self.length;
        self.seen.hash = *self.hasher.finalize().as_bytes();
        let pairs = [
            ("number of sessions in a snapshot", end.sessions, self.seen.sessions),
            ("number of answers in a snapshot", end.answers, self.seen.answers),
            ("number of entries in a snapshot", end.entries, self.seen.entries),
            ("bytes of keys and values in a snapshot", end.content_bytes, self.seen.content_bytes),
            ("number of sections in a snapshot", end.sections, self.seen.sections),
            ("length of a snapshot", end.file_bytes, self.seen.file_bytes),
        ];
        if let Some((what, said, _)) = pairs.into_iter().find(|(_, said, seen)| said != seen) {
            return Err(damaged(meaningless(what, said)));
        }
        if end.hash != self.seen.hash {
            return Err(damaged(WireError::Checksum { what: "snapshot" }));
        }
        self.end = Some(end);
        Ok(())
    }
}
