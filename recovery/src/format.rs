//! Sizes and small codings that all parts of the format share (docs/STORAGE-FORMAT.md).

use std::path::{Path, PathBuf};

/// Groups start at multiples of this, in bytes.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// [`BLOCK_BYTES`], as an offset.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;
/// The version of the format of segments that this code reads and writes.
pub(crate) const SEGMENT_VERSION: u32 = 1;
/// The version of the format of the metadata that this code reads and writes. 2: with the settings that decide how an entry is applied.
pub(crate) const METADATA_VERSION: u32 = 2;
/// What messages call the directory itself; files in it go by their names.
pub(crate) const DIRECTORY: &str = "the data directory";

/// The next multiple of a block, at or above `length`.
pub(crate) fn padded(length: u64) -> u64 {
    length.div_ceil(BLOCK) * BLOCK
}

/// The number at an offset of a slice that is known to be long enough.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes[offset..].first_chunk::<4>().map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// The number at an offset of a slice that is known to be long enough.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    bytes[offset..].first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// The name of a segment file; the number says nothing but this.
pub(crate) fn segment_path(number: u64) -> PathBuf {
    PathBuf::from(format!("segment-{number:016x}.wal"))
}

/// The number in the name of a segment file; none for any other file.
pub(crate) fn segment_number(path: &Path) -> Option<u64> {
    let digits = path.to_str()?.strip_prefix("segment-")?.strip_suffix(".wal")?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (segment_path(number) == path).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exactly_the_names_we_write_are_segments() {
        assert_eq!(segment_number(&segment_path(0xab)), Some(0xab));
        for other in ["segment-1.wal", "segment-00000000000000AB.wal", "metadata.dat", "segment-00000000000000ab.wal~"]
        {
            assert_eq!(segment_number(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn padding_goes_up_to_the_next_block_and_not_beyond() {
        assert_eq!([0, 1, 4096, 4097].map(padded), [0, 4096, 4096, 8192]);
    }
}
