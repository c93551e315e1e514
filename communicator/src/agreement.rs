//! What two replicas must agree on before they talk, setting by setting, so that a difference is named.

use quorate_framework::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Differences named in a refusal at most; the rest is counted.
const DIFFERENCES_NAMED: usize = 8;
/// Characters of a value that are shown.
const VALUE_SHOWN: usize = 120;

/// What a replica was started with, as far as its peers care.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// The consensus protocol's name.
    pub consensus: String,
    /// Versions of formats that travel or are stored, by name.
    pub format_versions: Vec<(String, u32)>,
    /// Settings that must be equal, by name.
    pub settings: Vec<(String, String)>,
    /// Settings that may differ; a difference is reported on both sides.
    pub noted_settings: Vec<(String, String)>,
    /// A digest over all that must be equal, or zeros.
    pub digest: Digest,
}

/// One setting that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The setting's name.
    pub name: String,
    /// Its value on the first side; none if it does not have it.
    pub first: Option<String>,
    /// Its value on the second side; none if it does not have it.
    pub second: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| match value {
            None => "nothing".to_owned(),
            Some(value) => format!("{:?}", value.chars().take(VALUE_SHOWN).collect::<String>()),
        };
        let name: String = self.name.chars().take(VALUE_SHOWN).collect();
        write!(formatter, "{name}: {} there, {} here", shown(&self.first), shown(&self.second))
    }
}

impl Agreement {
    /// What must be equal and is not, `self` being the first side.
    #[must_use]
    pub fn differences(&self, second: &Agreement) -> Vec<Difference> {
        let mut found = named_differences(self.binding(), second.binding());
        if found.is_empty() && self.digest != second.digest {
            let digest = |side: &Agreement| Some(side.digest.to_string());
            found.push(Difference { name: "agreement digest".into(), first: digest(self), second: digest(second) });
        }
        found
    }

    /// What may differ and does.
    #[must_use]
    pub fn noted_differences(&self, second: &Agreement) -> Vec<Difference> {
        named_differences(self.noted_settings.clone(), second.noted_settings.clone())
    }

    fn binding(&self) -> Vec<(String, String)> {
        let mut list = vec![("consensus".to_owned(), self.consensus.clone())];
        list.extend(self.format_versions.iter().map(|(name, version)| (format!("format {name}"), version.to_string())));
        list.extend(self.settings.iter().cloned());
        list
    }
}

fn named_differences(first: Vec<(String, String)>, second: Vec<(String, String)>) -> Vec<Difference> {
    let mut pairs: BTreeMap<String, (Option<String>, Option<String>)> = BTreeMap::new();
    for (name, value) in first {
        pairs.entry(name).or_default().0 = Some(value);
    }
    for (name, value) in second {
        pairs.entry(name).or_default().1 = Some(value);
    }
    let differing = pairs.into_iter().filter(|(_, (first, second))| first != second);
    differing.map(|(name, (first, second))| Difference { name, first, second }).collect()
}

/// The differences as one line, the first ones by name.
#[must_use]
pub fn describe(differences: &[Difference]) -> String {
    let mut text = differences.iter().take(DIFFERENCES_NAMED).map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if differences.len() > DIFFERENCES_NAMED {
        text.push_str(&format!("; and {} more", differences.len() - DIFFERENCES_NAMED));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement(settings: &[(&str, &str)]) -> Agreement {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Agreement { consensus: "raft".into(), settings, ..Agreement::default() }
    }

    #[test]
    fn every_difference_is_named_with_both_values() {
        let first = agreement(&[("lease", "on"), ("same", "1"), ("only first", "x")]);
        let mut second = agreement(&[("lease", "off"), ("same", "1")]);
        second.format_versions.push(("entry".into(), 2));
        let text = describe(&first.differences(&second));
        assert_eq!(
            text,
            "format entry: nothing there, \"2\" here; lease: \"on\" there, \"off\" here; only first: \"x\" there, nothing here"
        );
        assert_eq!(first.differences(&first.clone()), []);
    }

    #[test]
    fn a_digest_decides_when_no_name_differs() {
        let second = Agreement { digest: Digest([1; 32]), ..agreement(&[]) };
        let differences = agreement(&[]).differences(&second);
        assert_eq!(differences.len(), 1);
        assert_eq!(differences[0].name, "agreement digest");
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let names: Vec<String> = (0..20).map(|number| format!("setting {number}")).collect();
        let settings: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let text = describe(&agreement(&settings).differences(&agreement(&[])));
        assert!(text.ends_with("; and 12 more"), "{text}");
    }
}
