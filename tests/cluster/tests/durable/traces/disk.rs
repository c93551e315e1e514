//! What of a traced process's data directory would have survived a power cut, at each moment of the trace.
//!
//! A write survives once a sync of its file that began after it has ended well; a name, once a sync of the directory did.

use super::contents::{Content, Group, Record};
use quorate_cluster_tests::strace::Call;
use quorate_recovery::Metadata;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Number of a file among those that were seen.
type FileNumber = usize;

struct Write {
    content: Rc<Content>,
    /// Line at which it ended.
    end: usize,
    survives: bool,
}

#[derive(Default)]
struct TracedFile {
    writes: Vec<Write>,
    is_removed: bool,
}

struct Name {
    file: FileNumber,
    /// Line at which it was given.
    given: usize,
    survives: bool,
}

/// A data directory.
pub(crate) struct TracedDisk {
    directory: PathBuf,
    files: Vec<TracedFile>,
    names: BTreeMap<PathBuf, Name>,
    /// Groups in the order of their sequences: file and number of the write.
    groups: Vec<(FileNumber, usize)>,
    /// Each metadata whose name survived, the latest last.
    pub(crate) metadata: Vec<Metadata>,
}

impl TracedDisk {
    /// A directory that holds nothing yet but what `init` wrote.
    pub(crate) fn new(directory: &Path) -> TracedDisk {
        TracedDisk {
            directory: directory.to_owned(),
            files: Vec::new(),
            names: BTreeMap::new(),
            groups: Vec::new(),
            metadata: Vec::new(),
        }
    }

    /// Takes over what a call has done, at its end: with what it has written, if anything.
    pub(crate) fn ended(&mut self, call: &Call, content: Option<&Rc<Content>>) {
        if call.result < 0 {
            return;
        }
        match call.name.as_str() {
            "openat" if call.has_flag("O_CREAT") => {
                let path = call.path().unwrap();
                if path.parent() == Some(&self.directory) {
                    self.files.push(TracedFile::default());
                    self.names.insert(path, Name { file: self.files.len() - 1, given: call.end, survives: false });
                }
            }
            "fsync" | "fdatasync" => self.synced(call),
            "rename" | "renameat" | "renameat2" => {
                let [from, to] = &call.named_paths()[..] else { panic!("{call:?}") };
                if let Some(name) = self.names.remove(from) {
                    self.names.insert(to.clone(), Name { given: call.end, survives: false, ..name });
                }
            }
            "unlink" | "unlinkat" => {
                if let Some(name) = self.names.remove(&call.named_paths()[0]) {
                    self.files[name.file].is_removed = true;
                }
            }
            _ => {
                if let Some(content) = content {
                    self.written(call, Rc::clone(content));
                }
            }
        }
    }

    fn written(&mut self, call: &Call, content: Rc<Content>) {
        let Some(file) = call.path().and_then(|path| Some(self.names.get(&path)?.file)) else { return };
        let writes = &mut self.files[file].writes;
        if matches!(*content, Content::Group(_)) {
            self.groups.push((file, writes.len()));
        }
        writes.push(Write { content, end: call.end, survives: false });
    }

    fn synced(&mut self, call: &Call) {
        let path = call.path().unwrap();
        if path == self.directory {
            for name in self.names.values_mut().filter(|name| name.given < call.begin) {
                name.survives = true;
            }
            if let Some(metadata) = self.metadata_that_survives()
                && self.metadata.last() != Some(&metadata)
            {
                self.metadata.push(metadata);
            }
        } else if let Some(name) = self.names.get(&path) {
            for write in self.files[name.file].writes.iter_mut().filter(|write| write.end < call.begin) {
                write.survives = true;
            }
        }
    }

    fn metadata_that_survives(&self) -> Option<Metadata> {
        let name = self.names.get(&self.directory.join("metadata.dat")).filter(|name| name.survives)?;
        self.files[name.file].writes.iter().filter(|write| write.survives).find_map(|write| match &*write.content {
            Content::Metadata(metadata) => Some(Metadata::clone(metadata)),
            _ => None,
        })
    }

    /// Whether the file of this name is there with all that was written into it, and so is its name if that is asked for.
    pub(crate) fn survives(&self, path: &Path, with_its_name: bool) -> bool {
        let Some(name) = self.names.get(path) else { return false };
        let writes = &self.files[name.file].writes;
        !writes.is_empty() && writes.iter().all(|write| write.survives) && (name.survives || !with_its_name)
    }

    /// The metadata that were written into a file.
    pub(crate) fn metadata_in(&self, path: &Path) -> &Metadata {
        let writes = &self.files[self.names[path].file].writes;
        match writes.iter().map(|write| &*write.content).collect::<Vec<_>>()[..] {
            [Content::Metadata(metadata)] => metadata,
            ref others => panic!("{} holds {others:?}", path.display()),
        }
    }

    /// The header of the present life of a segment, if one was written: salt, first group, and whether it survives with the name.
    /// None of one that was freed or removed.
    fn life(&self, file: FileNumber) -> Option<(u64, u64, bool)> {
        if self.files[file].is_removed {
            return None;
        }
        let is_named = self.names.values().any(|name| name.file == file && name.survives);
        self.files[file].writes.iter().rev().find_map(|write| match *write.content {
            Content::Live { salt, first_group } => Some(Some((salt, first_group, write.survives && is_named))),
            Content::Free => Some(None),
            _ => None,
        })?
    }

    /// Whether there is a segment with this salt and first group that survives as one.
    pub(crate) fn has_segment(&self, salt: u64, first_group: u64) -> bool {
        (0..self.files.len()).any(|file| self.life(file) == Some((salt, first_group, true)))
    }

    /// Salt and first group of the segment of this name, if it is live.
    pub(crate) fn segment(&self, path: &Path) -> Option<(u64, u64)> {
        let (salt, first_group, _) = self.life(self.names.get(path)?.file)?;
        Some((salt, first_group))
    }

    fn group(&self, (file, write): (FileNumber, usize)) -> (&Group, bool) {
        let write = &self.files[file].writes[write];
        match &*write.content {
            Content::Group(group) => (group, write.survives),
            other => panic!("{other:?}"),
        }
    }

    /// Whether a seal that names this segment survives.
    pub(crate) fn has_seal(&self, salt: u64, first_group: u64) -> bool {
        let mut groups = self.groups.iter().rev().map(|place| self.group(*place));
        groups.any(|(group, survives)| survives && group.seal == Some((salt, first_group)))
    }

    /// The last index of the log that survives: what a start would find after a power cut now. And in which segment it lies: its first
    /// group.
    pub(crate) fn last_index(&self) -> (u64, u64) {
        let (mut last, mut segment) = (0, 0);
        for place in &self.groups {
            let (group, survives) = self.group(*place);
            // Of a segment that was used again the header is that of its later life: what is in its earlier one was released.
            let is_of_this_life = self.life(place.0).is_some_and(|(salt, ..)| salt == group.salt);
            let is_part_of_the_log = self.life(place.0).is_some_and(|(_, _, survives)| survives);
            if is_of_this_life && !(survives && is_part_of_the_log) {
                break;
            }
            if let (true, Some((_, first_group, _))) = (is_of_this_life, self.life(place.0)) {
                segment = first_group;
            }
            for record in &group.records {
                last = match record {
                    Record::Entries(_, index) => *index,
                    Record::Truncate(from) => from - 1,
                };
            }
        }
        (last, segment)
    }
}
