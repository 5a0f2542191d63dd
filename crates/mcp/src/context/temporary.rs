//! A warning about steps that record a path below the temporary folder. It means nothing on another machine, and often
//! nothing in the next process.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use longhaul_engine::Attempt;

/// Steps that are named in warnings of one process.
const WARNED_MAX: usize = 100;

/// The beginning of such a path in a JSON text.
static BELOW: LazyLock<String> = LazyLock::new(|| {
    let below = std::env::temp_dir().join("");
    serde_json::json!(below.to_string_lossy()).to_string().trim_end_matches('"').to_owned()
});

/// The tools and steps that a warning has named.
static WARNED: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

/// Warns once of each step that records a text that begins with the temporary folder.
pub(super) fn warn_of(attempt: &Attempt, step: &str, recorded: &str) {
    if !recorded.contains(&*BELOW) {
        return;
    }
    let tool = &attempt.task().tool;
    let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
    if warned.len() < WARNED_MAX && warned.insert((tool.clone(), step.to_owned())) {
        tracing::warn!(
            tool,
            step,
            "a step recorded a path below the temporary folder: record the name of a file below a folder that all \
             workers have"
        );
    }
}
