//! Strings of a task that may be too large for its record.

use serde::{Deserialize, Serialize};

/// JSON text that belongs to a task: arguments, a result, a step's value, the variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// Stored in the record itself.
    Inline(String),
    /// Stored next to the record, in parts that were written before the record that names them.
    Parts {
        /// Under which name.
        name: PartsName,
        /// How many there are.
        count: u32,
        /// How many bytes they have together.
        bytes: u64,
    },
}

impl Payload {
    /// How many bytes the text has.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::Inline(text) => text.len() as u64,
            Self::Parts { bytes, .. } => *bytes,
        }
    }
}

/// The owner of parts: a task and a purpose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartsName {
    /// The request that made the task.
    Request,
    /// The result or error that `attempt` ended the task with.
    Outcome {
        /// Their writer.
        attempt: u32,
    },
    /// The value of a step, as `attempt` ran it.
    Entry {
        /// Its writer; 0 for a client.
        attempt: u32,
        /// Kind and name of the journal entry.
        entry: String,
    },
    /// The variables after the `version`th change in `attempt`.
    Variables {
        /// Their writer.
        attempt: u32,
        /// Which change.
        version: u32,
    },
}

impl std::fmt::Display for PartsName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Request => write!(f, "in"),
            Self::Outcome { attempt } => write!(f, "out#{attempt}"),
            Self::Entry { attempt, entry } => write!(f, "entry#{attempt}#{entry}"),
            Self::Variables { attempt, version } => write!(f, "var#{attempt}#{version}"),
        }
    }
}

/// Splits `text` into pieces of at most `bytes_max` bytes, cut between characters.
#[must_use]
pub fn split(mut text: &str, bytes_max: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (part, rest) = text.split_at(text.floor_char_boundary(bytes_max.max(4)));
        parts.push(part);
        text = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_join_to_the_text_and_none_is_too_long() {
        let text = "añ€🦀".repeat(1000);
        let parts = split(&text, 7);
        assert!(parts.iter().all(|part| !part.is_empty() && part.len() <= 7));
        assert_eq!(parts.concat(), text);
    }

    #[test]
    fn a_payload_knows_its_size() {
        assert_eq!(Payload::Inline("ä€".to_owned()).bytes(), 5);
        assert_eq!(Payload::Parts { name: PartsName::Request, count: 2, bytes: 400_000 }.bytes(), 400_000);
    }

    #[test]
    fn every_writer_has_a_name_of_its_own() {
        let names = [
            PartsName::Request,
            PartsName::Outcome { attempt: 2 },
            PartsName::Entry { attempt: 2, entry: "step#pay".to_owned() },
            PartsName::Variables { attempt: 2, version: 3 },
        ];
        assert_eq!(names.map(|name| name.to_string()), ["in", "out#2", "entry#2#step#pay", "var#2#3"]);
    }
}
