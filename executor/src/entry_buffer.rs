//! One entry of the memory store: key and value in one buffer, so that finding a key and reading or overwriting its value touch
//! neighbouring memory. With more keys than the processor's caches hold, memory accesses are what a put costs.

use crate::short::{copy_bytes, same_bytes};

/// A buffer is given back when less than a quarter of it is used and it is at least this large, in bytes.
const SPARE_BYTES: usize = 256;

/// Bytes of a cache line, and lines that are worth fetching early; the processor fetches further ones by itself.
const LINE_BYTES: usize = 64;
const LINES: usize = 4;

/// A key and its value.
#[derive(Debug)]
pub(crate) struct EntryBuffer {
    /// Key, then value.
    bytes: Vec<u8>,
    key_length: u32,
}

impl EntryBuffer {
    /// An entry with exactly the room it needs.
    pub(crate) fn new(key: &[u8], value: &[u8]) -> EntryBuffer {
        let mut bytes = Vec::with_capacity(key.len() + value.len());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        EntryBuffer { bytes, key_length: key.len() as u32 }
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[..self.key_length as usize]
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        &self.bytes[self.key_length as usize..]
    }

    #[inline]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        same_bytes(key, self.key())
    }

    /// Reads a little of each cache line in front, so that they are near when they are needed. The sum has no meaning.
    #[inline]
    pub(crate) fn touch(&self) -> u8 {
        let lines = self.bytes.iter().step_by(LINE_BYTES).take(LINES);
        lines.fold(self.bytes.last().copied().unwrap_or(0), |sum, byte| sum.wrapping_add(*byte))
    }

    /// Bytes of the buffer, its spare room included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.bytes.capacity() as u64
    }

    /// Overwrites the value, in place if it has the same length.
    #[inline]
    pub(crate) fn set_value(&mut self, value: &[u8]) {
        let start = self.key_length as usize;
        if self.bytes.len() - start == value.len() {
            copy_bytes(&mut self.bytes[start..], value);
            return;
        }
        self.bytes.truncate(start);
        self.bytes.extend_from_slice(value);
        if self.bytes.capacity() >= SPARE_BYTES && self.bytes.len() < self.bytes.capacity() / 4 {
            self.bytes.shrink_to(self.bytes.len() * 2);
        }
    }

    /// Adds to the end of the value.
    pub(crate) fn append(&mut self, tail: &[u8]) {
        self.bytes.extend_from_slice(tail);
    }
}
