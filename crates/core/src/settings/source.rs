//! Sources of the values of settings, and their faults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

/// Where environment variables come from.
pub trait EnvSource {
    /// The value of `name`, if there is one.
    fn get(&self, name: &str) -> Option<OsString>;
}

impl EnvSource for BTreeMap<&str, &str> {
    fn get(&self, name: &str) -> Option<OsString> {
        Self::get(self, name).map(OsString::from)
    }
}

/// The flags that were given: names without hyphens, and values.
pub type Flags = BTreeMap<&'static str, OsString>;

/// A fault of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The setting, named as it was set: a flag or an environment variable.
    pub name: String,
    /// The fault, and the allowed values.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.problem)
    }
}

/// Settings that cannot be used: all their faults, so that they can be corrected together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    pub(crate) faults: Vec<Fault>,
}

impl SettingsError {
    /// The faults, in the order in which the settings are declared.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    pub(crate) fn of(name: String, problem: impl Into<String>) -> Self {
        Self { faults: vec![Fault { name, problem: problem.into() }] }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be used: ")?;
        for (index, fault) in self.faults.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}
