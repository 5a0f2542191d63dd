//! The common parts of the tools of the servers that are compared with other systems.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `life`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Life {
    /// How many steps.
    pub(crate) steps: u32,
    /// How long each takes, in milliseconds.
    pub(crate) pause_ms: u64,
    /// The file in which each step leaves a line when it begins, and one when it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<PathBuf>,
    /// The name of this call in the lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
}

impl Life {
    /// The sum of the numbers of its steps.
    pub(crate) fn sum(&self) -> u32 {
        (0..self.steps).sum()
    }

    fn note(&self, what: &str, number: u32) {
        let Some(log) = &self.log else { return };
        let line = format!("{} {what} {number}\n", self.id.as_deref().unwrap_or_default());
        let opened = OpenOptions::new().create(true).append(true).open(log);
        // What is missing in the file is counted as never begun.
        drop(opened.and_then(|mut file| file.write_all(line.as_bytes())));
    }
}

/// One step.
pub(crate) async fn step(life: &Life, number: u32) -> u32 {
    life.note("begins", number);
    if life.pause_ms > 0 {
        tokio::time::sleep(Duration::from_millis(life.pause_ms)).await;
    }
    life.note("ends", number);
    number
}

/// The arguments of `blob`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Blob {
    /// How long the result is.
    pub(crate) bytes: usize,
}

impl Blob {
    /// The result.
    pub(crate) fn text(self) -> String {
        "x".repeat(self.bytes)
    }
}
