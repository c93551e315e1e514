//! The settings that decide how an entry is applied.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The settings that decide how an entry is applied, by name. They are recorded when a replica is made: with others its log would lead
/// to another state. What each of them means is known to whoever applies entries, and not here.
pub type ReplicatedSettings = BTreeMap<String, u64>;

/// A setting that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDifference {
    /// Its name.
    pub name: String,
    /// What it was; none if there was no such setting.
    pub recorded: Option<u64>,
    /// What it is now; none if there is no such setting any more.
    pub given: Option<u64>,
}

impl fmt::Display for SettingDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: Option<u64>| value.map_or("nothing".to_owned(), |value| value.to_string());
        write!(formatter, "{} was {} and is {}", self.name, shown(self.recorded), shown(self.given))
    }
}

/// What differs, in the order of the names; empty if nothing does.
#[must_use]
pub fn setting_differences(recorded: &ReplicatedSettings, given: &ReplicatedSettings) -> Vec<SettingDifference> {
    let names: BTreeSet<&String> = recorded.keys().chain(given.keys()).collect();
    let compared = names.into_iter().map(|name| SettingDifference {
        name: name.clone(),
        recorded: recorded.get(name).copied(),
        given: given.get(name).copied(),
    });
    compared.filter(|difference| difference.recorded != difference.given).collect()
}

/// Differences as one line.
#[must_use]
pub fn describe_differences(differences: &[SettingDifference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(list: &[(&str, u64)]) -> ReplicatedSettings {
        list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn each_setting_that_differs_is_named_with_both_values_and_no_other() {
        let (recorded, given) =
            (settings(&[("a", 1), ("b", 2), ("same", 3)]), settings(&[("b", 4), ("c", 5), ("same", 3)]));
        let differences = setting_differences(&recorded, &given);
        let expected = "a was 1 and is nothing, b was 2 and is 4, c was nothing and is 5";
        assert_eq!(describe_differences(&differences), expected);
        assert_eq!(setting_differences(&recorded, &recorded), []);
    }
}
