//! The settings that decide how an entry is applied, by name. The metadata record them, peers compare them in the handshake, and a state
//! that is read back or fetched must have been made by the same ones: otherwise the same log would lead to another state.

use quorate_executor::ReplicatedLimits;
use quorate_recovery::{ReplicatedSettings, SettingDifference, describe_differences, setting_differences};
use thiserror::Error;

/// A state that was made by other limits than those by which this replica applies entries.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("its entries were applied by other settings than those of this replica: {}", describe_differences(.differences))]
pub struct OtherLimits {
    /// Each setting that differs, in the order of the names.
    pub differences: Vec<SettingDifference>,
}

/// Limits by name. The names are those of the cluster file; what no cluster file says is fixed in the program.
#[must_use]
pub fn by_name(limits: &ReplicatedLimits) -> ReplicatedSettings {
    // Taken apart whole, so that a limit that is added cannot be forgotten here.
    let ReplicatedLimits {
        key_bytes,
        value_bytes,
        commands_per_frame,
        answer_bytes,
        session_window_frames,
        sessions,
        session_answer_bytes,
    } = *limits;
    let named = [
        ("key_size_limit_bytes", u64::from(key_bytes)),
        ("value_size_limit_bytes", u64::from(value_bytes)),
        ("commands_per_frame", u64::from(commands_per_frame)),
        ("answer_bytes", u64::from(answer_bytes)),
        ("session_window", u64::from(session_window_frames)),
        ("session_table_limit", u64::from(sessions)),
        ("session_answer_limit_bytes", session_answer_bytes),
    ];
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Compares the limits by which a state was made with those of this replica.
///
/// # Errors
/// [`OtherLimits`], with each that differs.
pub fn check_limits(made_by: &ReplicatedLimits, ours: &ReplicatedLimits) -> Result<(), OtherLimits> {
    let differences = setting_differences(&by_name(made_by), &by_name(ours));
    if differences.is_empty() { Ok(()) } else { Err(OtherLimits { differences }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_name_of_its_own_and_one_that_differs_is_told_by_it() {
        let ours = ReplicatedLimits {
            key_bytes: 1,
            value_bytes: 2,
            commands_per_frame: 3,
            answer_bytes: 4,
            session_window_frames: 5,
            sessions: 6,
            session_answer_bytes: 7,
        };
        let named: Vec<(String, u64)> = by_name(&ours).into_iter().collect();
        let expected = [
            ("answer_bytes", 4),
            ("commands_per_frame", 3),
            ("key_size_limit_bytes", 1),
            ("session_answer_limit_bytes", 7),
            ("session_table_limit", 6),
            ("session_window", 5),
            ("value_size_limit_bytes", 2),
        ];
        assert_eq!(named, expected.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(check_limits(&ours, &ours), Ok(()));
        let refused = check_limits(&ReplicatedLimits { sessions: 8, ..ours }, &ours).unwrap_err().to_string();
        let expected =
            "its entries were applied by other settings than those of this replica: session_table_limit was 8 and is 6";
        assert_eq!(refused, expected);
    }
}
