//! Settings: every variable of the environment that a program reads, with any text.
//!
//! An input is a list of lines `NAME=value`. The programs either start with these settings, or name every fault.

use std::collections::BTreeMap;

use longhaul_lambda::{ApiConfig, WorkerConfig};
use longhaul_core::settings::{Flags, Place, SettingsError, Values, table};

/// Lines of one input.
const LINES_MAX: usize = 64;

/// The required settings of the functions.
const REQUIRED: [(&str, &str); 4] = [
    ("LONGHAUL_TABLE", "table"),
    ("LONGHAUL_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/111122223333/tasks"),
    ("LONGHAUL_DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/111122223333/dead"),
    ("LONGHAUL_AUTH", "iam"),
];

/// Reads the settings at each place.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut env: BTreeMap<&str, &str> = REQUIRED.into();
    env.extend(text.lines().take(LINES_MAX).filter_map(|line| line.split_once('=')));
    for place in [Place::Local, Place::Api, Place::Worker] {
        let read = Values::read(place, &[&table::ALL], &Flags::new(), &env);
        explained(read.as_ref().map(|_| ()), &env);
    }
    explained(ApiConfig::read(&env).map(|_| ()).as_ref().copied(), &env);
    explained(WorkerConfig::read(&env).map(|_| ()).as_ref().copied(), &env);
}

/// A refusal names only settings that were given or are missing, and repeats no long value.
fn explained(read: Result<(), &SettingsError>, env: &BTreeMap<&str, &str>) {
    let Err(error) = read else { return };
    assert!(!error.faults().is_empty());
    let text = error.to_string();
    for fault in error.faults() {
        // One setting of many is named with their variable.
        let named = fault.name.starts_with("LONGHAUL_") || fault.name.starts_with("--");
        assert!(named || fault.name.contains("` in LONGHAUL_"), "{text}");
        assert!(fault.name.len() < 512, "{text}");
        let given = env.get(fault.name.as_str()).copied().unwrap_or_default();
        assert!(given.len() < 256 || fault.problem.len() < 2 * given.len(), "{text}");
    }
}
