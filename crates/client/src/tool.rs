//! A tool as its server lists it.

use serde_json::Value;

/// Whether a tool may be called as a task, in revision `2025-11-25`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSupport {
    /// Only without one.
    Forbidden,
    /// With one or without.
    Optional,
    /// Only with one.
    Required,
}

/// A tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// All that the server says about it.
    pub raw: Value,
}

impl Tool {
    /// A tool as a list has it; `None` if it has no name.
    #[must_use]
    pub fn read(raw: &Value) -> Option<Self> {
        Some(Self { name: raw["name"].as_str()?.to_owned(), raw: raw.clone() })
    }

    /// What it does, in the server's words.
    #[must_use]
    pub fn description(&self) -> &str {
        self.raw["description"].as_str().unwrap_or_default()
    }

    /// The schema of its arguments.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.raw["inputSchema"]
    }

    /// Whether it may be called as a task, in revision `2025-11-25`.
    #[must_use]
    pub fn task_support(&self) -> TaskSupport {
        match self.raw.pointer("/execution/taskSupport").and_then(Value::as_str) {
            Some("required") => TaskSupport::Required,
            Some("optional") => TaskSupport::Optional,
            _ => TaskSupport::Forbidden,
        }
    }

    /// Whether a second call does no harm, as the server says.
    #[must_use]
    pub fn may_be_repeated(&self) -> bool {
        let hints = &self.raw["annotations"];
        ["readOnlyHint", "idempotentHint"].iter().any(|hint| hints[hint] == Value::Bool(true))
    }
}
