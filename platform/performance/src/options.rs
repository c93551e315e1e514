//! Options of experiments as they stand on the command line: text, so that every fault is told in one form.

use thiserror::Error;

/// Longest run and warm-up, in seconds.
pub(crate) const SECONDS_MAX: f64 = 86_400.0;

/// An option that cannot be used: one line that names the option and its value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{option} {value}: {problem}")]
pub struct InputError {
    /// The option, with its dashes.
    pub option: &'static str,
    /// Its value as given.
    pub value: String,
    /// What is wrong with it or what is allowed.
    pub problem: String,
}

/// Reads options one by one and collects faults, so that all of them are told at once.
#[derive(Debug, Default)]
pub(crate) struct OptionReader {
    errors: Vec<InputError>,
}

impl OptionReader {
    /// Notes a fault.
    pub(crate) fn error(&mut self, option: &'static str, value: impl ToString, problem: impl Into<String>) {
        self.errors.push(InputError { option, value: value.to_string(), problem: problem.into() });
    }

    /// A whole number; the default if it is absent or cannot be used.
    pub(crate) fn whole(
        &mut self,
        option: &'static str,
        text: Option<&String>,
        default: u64,
        min: u64,
        max: u64,
    ) -> u64 {
        let Some(text) = text else { return default };
        match text.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => return number,
            _ => self.error(option, text, format!("must be a whole number from {min} to {max}, without a unit")),
        }
        default
    }

    /// A number, of which `unit` says what it is; the default if it is absent or cannot be used.
    pub(crate) fn real(
        &mut self,
        option: &'static str,
        text: Option<&String>,
        default: f64,
        range: (f64, f64),
        unit: &str,
    ) -> f64 {
        let Some(text) = text else { return default };
        match text.parse::<f64>() {
            Ok(number) if number >= range.0 && number <= range.1 => return number,
            _ => self.error(option, text, format!("must be {unit} from {} to {}, without a unit", range.0, range.1)),
        }
        default
    }

    /// What was read, if all of it can be used.
    pub(crate) fn finish<T>(self, plan: T) -> Result<T, Vec<InputError>> {
        if self.errors.is_empty() { Ok(plan) } else { Err(self.errors) }
    }
}
