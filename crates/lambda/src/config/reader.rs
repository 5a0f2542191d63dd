//! Reading settings one by one, and collecting what is wrong with them.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;

use super::{ConfigError, EnvSource};

/// What is wrong with one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The setting.
    pub name: &'static str,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.problem)
    }
}

/// Reads settings. An empty value counts as none, since a template cannot leave a variable out; a setting that is wrong
/// is noted, and its default goes on.
pub(super) struct Reader<'a> {
    env: &'a dyn EnvSource,
    faults: Vec<Fault>,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(env: &'a dyn EnvSource) -> Self {
        Self { env, faults: Vec::new() }
    }

    pub(super) fn fault(&mut self, name: &'static str, problem: impl Into<String>) {
        self.faults.push(Fault { name, problem: problem.into() });
    }

    pub(super) fn finish<T>(self, config: T) -> Result<T, ConfigError> {
        if self.faults.is_empty() { Ok(config) } else { Err(ConfigError { faults: self.faults }) }
    }

    pub(super) fn required(&mut self, name: &'static str) -> String {
        self.value(name).unwrap_or_else(|| {
            self.fault(name, "is missing");
            String::new()
        })
    }

    pub(super) fn text(&self, name: &'static str, default: &str) -> String {
        self.value(name).unwrap_or_else(|| default.to_owned())
    }

    pub(super) fn url(&mut self, name: &'static str) -> String {
        let url = self.required(name);
        if !url.is_empty() && !url.starts_with("https://") && !url.starts_with("http://") {
            self.fault(name, format!("is `{url}`, which is no URL"));
        }
        url
    }

    /// Texts between commas.
    pub(super) fn list(&self, name: &'static str) -> Vec<String> {
        let value = self.value(name).unwrap_or_default();
        value.split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect()
    }

    pub(super) fn number(&mut self, name: &'static str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let Some(value) = self.value(name) else { return default };
        match value.parse() {
            Ok(number) if range.contains(&number) => number,
            _ => {
                let (least, most) = range.into_inner();
                self.fault(name, format!("is `{value}`; it has to be a number from {least} to {most}"));
                default
            }
        }
    }

    pub(super) fn choice<T: Copy>(&mut self, name: &'static str, default: T, choices: &[(&str, T)]) -> T {
        let Some(value) = self.value(name) else { return default };
        if let Some((_, chosen)) = choices.iter().find(|(word, _)| *word == value) {
            return *chosen;
        }
        let words: Vec<_> = choices.iter().map(|(word, _)| format!("`{word}`")).collect();
        self.fault(name, format!("is `{value}`; it has to be one of {}", words.join(", ")));
        default
    }

    pub(super) fn is_set(&self, name: &'static str) -> bool {
        self.value(name).is_some()
    }

    fn value(&self, name: &str) -> Option<String> {
        self.env.get(name).filter(|value| !value.is_empty())
    }
}
