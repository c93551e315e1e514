//! Comparing and copying byte strings that are mostly short, without a call into the C library: at a few bytes the call costs more
//! than the work, and it was a quarter of what a put cost.

/// Whether two byte strings are equal.
#[inline]
pub(crate) fn same_bytes(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    // Both ends cover everything in between; they may overlap.
    match one.len() {
        0 => true,
        1 => one[0] == other[0],
        2..4 => one.first_chunk::<2>() == other.first_chunk() && one.last_chunk::<2>() == other.last_chunk(),
        4..8 => one.first_chunk::<4>() == other.first_chunk() && one.last_chunk::<4>() == other.last_chunk(),
        8..=16 => one.first_chunk::<8>() == other.first_chunk() && one.last_chunk::<8>() == other.last_chunk(),
        _ => one == other,
    }
}

/// Overwrites `target` with `source`, which is as long.
#[inline]
pub(crate) fn copy_bytes(target: &mut [u8], source: &[u8]) {
    if (8..=16).contains(&source.len())
        && let (Some(first), Some(last)) = (source.first_chunk::<8>(), source.last_chunk::<8>())
    {
        if let Some(place) = target.first_chunk_mut() {
            *place = *first;
        }
        if let Some(place) = target.last_chunk_mut() {
            *place = *last;
        }
    } else {
        target.copy_from_slice(source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_every_short_length_are_compared_to_their_last_byte() {
        for length in 0..40_u8 {
            let one: Vec<u8> = (0..length).collect();
            assert!(same_bytes(&one, &one.clone()));
            for place in 0..one.len() {
                let mut other = one.clone();
                other[place] ^= 0x80;
                assert!(!same_bytes(&one, &other), "length {length}, place {place}");
            }
            assert!(!same_bytes(&one, &[&one[..], b"x"].concat()));
        }
    }

    #[test]
    fn strings_of_every_short_length_are_copied_whole() {
        for length in 0..40_u8 {
            let source: Vec<u8> = (1..=length).collect();
            let mut target = vec![0; source.len()];
            copy_bytes(&mut target, &source);
            assert_eq!(target, source);
        }
    }
}
