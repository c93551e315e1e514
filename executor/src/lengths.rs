//! How byte strings stand in bodies of commands and results.
//!
//! ```text
//! 0        1                            0      1             5
//! | length | bytes ... |       or       | 0xff | length, LE  | bytes ... |
//! ```
//! Lengths up to 254 take one byte; longer ones five. Each length has exactly one form, so equal contents are equal bytes.

/// The first byte of a length that takes five bytes.
const LONG: u8 = 0xff;

/// Why a byte string could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LengthError {
    CutShort,
    WrongForm,
}

/// Bytes that a byte string of `length` takes, its length included.
pub(crate) fn encoded_bytes(length: usize) -> usize {
    if length < usize::from(LONG) { 1 + length } else { 5 + length }
}

/// Appends a byte string with its length.
pub(crate) fn put_bytes(output: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() < usize::from(LONG) {
        output.push(bytes.len() as u8);
    } else {
        output.push(LONG);
        // Nothing of 4 GiB fits a frame; a length that does not fit makes a body that is refused, not one that is misread.
        output.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    }
    output.extend_from_slice(bytes);
}

/// Takes a byte string off the front of `rest`.
#[inline(always)]
pub(crate) fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], LengthError> {
    let (&first, mut tail) = rest.split_first().ok_or(LengthError::CutShort)?;
    let mut length = usize::from(first);
    if first == LONG {
        let (long, behind) = tail.split_first_chunk::<4>().ok_or(LengthError::CutShort)?;
        length = u32::from_le_bytes(*long) as usize;
        if length < usize::from(LONG) {
            return Err(LengthError::WrongForm);
        }
        tail = behind;
    }
    let (bytes, behind) = tail.split_at_checked(length).ok_or(LengthError::CutShort)?;
    *rest = behind;
    Ok(bytes)
}

/// Takes an eight-byte number off the front of `rest`.
#[inline(always)]
pub(crate) fn take_number(rest: &mut &[u8]) -> Result<i64, LengthError> {
    let (number, behind) = rest.split_first_chunk::<8>().ok_or(LengthError::CutShort)?;
    *rest = behind;
    Ok(i64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_strings_around_the_change_of_form_read_back_and_take_the_bytes_foretold() {
        for length in [0, 1, 253, 254, 255, 256, 70_000] {
            let mut output = Vec::new();
            put_bytes(&mut output, &vec![7; length]);
            assert_eq!(output.len(), encoded_bytes(length));
            let mut rest = &output[..];
            assert_eq!(take_bytes(&mut rest).map(<[u8]>::len), Ok(length));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_short_length_in_the_long_form_is_refused() {
        let mut rest: &[u8] = &[LONG, 1, 0, 0, 0, 9];
        assert_eq!(take_bytes(&mut rest), Err(LengthError::WrongForm));
    }
}
