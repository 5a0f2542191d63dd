//! The terms on which tools run, by their names.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::reader::{Members, Reader};
use crate::limits;

/// Whether a call that was interrupted may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// If the server says that the tool is read-only or idempotent.
    Hints,
    /// Yes, even if the server says otherwise.
    Always,
    /// No, even if the server says otherwise.
    Never,
}

/// Whether a call becomes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// Yes, and survives crashes.
    Always,
    /// The same, for callers who know tasks. All others are refused.
    Required,
    /// No: it is passed on while its caller waits, and nothing is stored.
    Never,
}

/// The settings of a tool in a configuration; `None` where it has no setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Without it, as the server says.
    pub(crate) durable: Option<Durable>,
    pub(crate) handle_after: Option<Duration>,
    pub(crate) run_at_most: Option<Duration>,
    pub(crate) retention: Option<Duration>,
    pub(crate) repeat: Option<Repeat>,
    /// Calls of a tool at a time. Servers have a number of their own.
    pub(crate) concurrency: Option<usize>,
}

impl Terms {
    /// Reads them from members of an object.
    pub(super) fn read(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Self {
        let repeats = [("hints", Repeat::Hints), ("always", Repeat::Always), ("never", Repeat::Never)];
        let kinds = [("always", Durable::Always), ("required", Durable::Required), ("never", Durable::Never)];
        Self {
            durable: members.optional(reader, "task", |reader, node| reader.one_of(node, &kinds)),
            handle_after: members.optional(reader, "handleAfter", Reader::duration),
            run_at_most: members.optional(reader, "runAtMost", |reader, node| {
                reader.positive(node, "leaves no time to run: name a time above 0")
            }),
            retention: members.optional(reader, "retention", Reader::duration),
            repeat: members.optional(reader, "repeat", |reader, node| reader.one_of(node, &repeats)),
            concurrency: None,
        }
    }

    /// How long a call may take.
    pub(crate) fn run_at_most(&self) -> Duration {
        self.run_at_most.unwrap_or(limits::RUN_MAX)
    }

    /// These, and `other` where they say nothing.
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            durable: self.durable.or(other.durable),
            handle_after: self.handle_after.or(other.handle_after),
            run_at_most: self.run_at_most.or(other.run_at_most),
            retention: self.retention.or(other.retention),
            repeat: self.repeat.or(other.repeat),
            concurrency: self.concurrency.or(other.concurrency),
        }
    }
}

/// A name, or several: `*` stands for any number of characters.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Pattern(String);

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// How much it says about a name: a whole name more than any pattern, and otherwise the longer one more.
    pub(crate) fn weight(&self) -> (bool, usize) {
        (!self.0.contains('*'), self.0.len())
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else {
            return self.0 == name;
        };
        let Some(mut name) = name.strip_prefix(first) else {
            return false;
        };
        let mut parts: Vec<&str> = rest.split('*').collect();
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            match name.split_once(part) {
                Some((_, after)) => name = after,
                None => return false,
            }
        }
        name.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_fill_each_other_up() {
        let (never, short) = (
            Terms { repeat: Some(Repeat::Never), ..Terms::default() },
            Terms { repeat: Some(Repeat::Always), run_at_most: Some(Duration::from_secs(1)), ..Terms::default() },
        );
        let both = never.or(&short);
        assert_eq!((both.repeat, both.run_at_most), (Some(Repeat::Never), Some(Duration::from_secs(1))));
    }

    #[test]
    fn a_star_stands_for_any_part() {
        let cases = [
            ("git_commit", "git_commit", true),
            ("git_commit", "git_commits", false),
            ("*", "", true),
            ("git_*", "git_commit", true),
            ("git_*", "got_commit", false),
            ("*_file", "edit_file", true),
            ("*_file", "edit_files", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} {name}");
        }
    }
}
