//! How long this device takes to make 4 KiB durable.

use crate::result::MedianAndTailMs;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

/// Syncs of a probe.
pub const PROBE_SYNCS: usize = 200;
const BLOCK_BYTES: usize = 4 << 10;

/// Writes and syncs [`PROBE_SYNCS`] blocks in a file of its own in `folder`, which it removes. Blocks for as long as that takes.
///
/// # Errors
/// Those of the file system.
pub fn probe(folder: &Path) -> io::Result<MedianAndTailMs> {
    let path = folder.join(format!(".fsync-probe-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    let measured = measure(file);
    fs::remove_file(&path)?;
    let mut times = measured?;
    times.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| times[(times.len() * percent).div_ceil(100) - 1];
    Ok(MedianAndTailMs { p50: at(50), p99: at(99) })
}

fn measure(mut file: File) -> io::Result<Vec<f64>> {
    let block = [7; BLOCK_BYTES];
    let mut times = Vec::with_capacity(PROBE_SYNCS);
    for _ in 0..PROBE_SYNCS {
        let started = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        times.push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_measures_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let times = probe(folder.path()).unwrap();
        assert!(times.p50 > 0.0 && times.p50 <= times.p99, "{times:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(probe(&folder.path().join("missing")).is_err());
    }
}
