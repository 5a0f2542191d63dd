//! Failures of steps that a test asks for, without a fake.

use longhaul_core::{Entry, EntryKind, Payload, Recording, Timestamp};
use serde_json::{Value, json};

/// How often a step [fails](super::Call::fail_step).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times(Option<u32>);

/// So many tries fail, and the next one does the step's work.
#[must_use]
pub const fn times(tries: u32) -> Times {
    Times(Some(tries))
}

/// The step fails for good: its work is not done.
#[must_use]
pub const fn always() -> Times {
    Times(None)
}

/// The entries of an attempt whose steps failed.
pub(super) fn recorded(failures: &[(String, Times, Value)], now: Timestamp) -> Vec<Entry> {
    let recording = Some(Recording { at: now, took_ms: None, attempt: 1, order: None });
    let entry =
        |kind, name: String, value: &Value| Entry { kind, name, value: Payload::Inline(value.to_string()), recording };
    let of_step = |(step, times, error): &(String, Times, Value)| match times.0 {
        None => vec![entry(EntryKind::Step, step.clone(), &json!({"dev.longhaul/failed": error}))],
        Some(tries) => {
            let failed = json!({"since": now, "next": now, "error": error});
            (1..=tries).map(|number| entry(EntryKind::Try, format!("{step}#{number}"), &failed)).collect()
        }
    };
    failures.iter().flat_map(of_step).collect()
}
