//! No acknowledged write lost, and exactly once: each token that a client was told is written stands exactly once in the value of its
//! key; one whose fate the client never learned stands there at most once.

use super::Violation;
use crate::client::{Client, Fate};
use std::collections::BTreeMap;

/// Checks the tokens of all clients against what was read at the end.
///
/// # Errors
/// A [`Violation`].
pub fn check_tokens(clients: &[Client], values: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), Violation> {
    let texts: BTreeMap<&Vec<u8>, String> =
        values.iter().map(|(key, value)| (key, String::from_utf8_lossy(value).into_owned())).collect();
    for client in clients {
        for (token, (key, fate)) in &client.tokens {
            let Some(text) = texts.get(key) else { continue };
            let times = text.matches(token.as_str()).count();
            let key = String::from_utf8_lossy(key);
            if *fate == Fate::Acknowledged && times == 0 {
                let what = format!("{token} was acknowledged, and key \"{key}\" lacks it");
                return Err(Violation::new("no acknowledged write lost", what));
            }
            if times > 1 {
                return Err(Violation::new("exactly once", format!("key \"{key}\" holds {token} {times} times")));
            }
        }
    }
    Ok(())
}
