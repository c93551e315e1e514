//! The digest of entries in ascending order: how every store computes it.

use quorate_framework::Digest;

/// Takes entries one by one. Lengths are hashed too, so that no two different lists of entries are hashed alike.
pub(crate) struct EntryDigest {
    hasher: blake3::Hasher,
    entries: u64,
}

impl EntryDigest {
    pub(crate) fn new() -> EntryDigest {
        EntryDigest { hasher: blake3::Hasher::new(), entries: 0 }
    }

    pub(crate) fn entry(&mut self, key: &[u8], value: &[u8]) {
        self.hasher.update(&(key.len() as u64).to_le_bytes());
        self.hasher.update(key);
        self.hasher.update(&(value.len() as u64).to_le_bytes());
        self.hasher.update(value);
        self.entries += 1;
    }

    pub(crate) fn finish(mut self) -> Digest {
        self.hasher.update(&self.entries.to_le_bytes());
        Digest(*self.hasher.finalize().as_bytes())
    }
}
