//! The one place that knows bincode: control messages (handshake, votes, membership), never the entry path.
//!
//! Fixed-width little-endian with a limit on memory, so that a hostile length cannot allocate; trailing bytes are refused. bincode is
//! unmaintained (RUSTSEC-2025-0141) but chosen; its bytes equal those of wincode's default, which is the way out.

use crate::wire::WireError;
use serde::{Serialize, de::DeserializeOwned};

/// Memory that decoding one control message may take, in bytes.
pub const CONTROL_BYTES: usize = 256 << 10;

fn configuration() -> impl bincode::config::Config {
    bincode::config::legacy().with_limit::<CONTROL_BYTES>()
}

/// Appends the encoded value to `output`.
///
/// # Panics
/// Never for the types of this workspace: they hold no unsized sequence, map or unsupported attribute.
pub fn encode<T: Serialize>(value: &T, output: &mut Vec<u8>) {
    let encoded =
        bincode::serde::encode_to_vec(value, configuration()).expect("control types are encodable by construction");
    output.extend_from_slice(&encoded);
}

/// Decodes a value that takes up all of `bytes`.
///
/// # Errors
/// [`WireError`] if the bytes are not exactly one value, or need more memory than [`CONTROL_BYTES`].
pub fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, WireError> {
    if bytes.len() > CONTROL_BYTES {
        return Err(WireError::TooLarge { what, value: bytes.len() as u64, limit: CONTROL_BYTES as u64 });
    }
    let (value, read) = bincode::serde::decode_from_slice(bytes, configuration())
        .map_err(|error| WireError::Undecodable { what, reason: error.to_string() })?;
    match bytes.len() - read {
        0 => Ok(value),
        count => Err(WireError::Trailing { what, count }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_length_is_refused_before_it_allocates() {
        let mut bytes = u64::MAX.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[1, 2, 3]);
        assert!(matches!(decode::<Vec<u64>>("list", &bytes), Err(WireError::Undecodable { .. })));
        assert!(matches!(decode::<String>("text", &bytes), Err(WireError::Undecodable { .. })));
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let mut bytes = Vec::new();
        encode(&7u64, &mut bytes);
        assert_eq!(bytes, [7, 0, 0, 0, 0, 0, 0, 0], "fixed width, little endian");
        bytes.push(0);
        assert_eq!(decode::<u64>("number", &bytes), Err(WireError::Trailing { what: "number", count: 1 }));
    }
}
