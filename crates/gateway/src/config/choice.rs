//! Which tools of a server clients see, and what they read about them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::reader::{Members, Node, Reader};
use super::terms::Pattern;
use crate::limits;

/// Which tools of a server clients see, and what they read about them. A lock file has it too.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Choice {
    /// These and no others; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    only: Vec<Pattern>,
    /// Not these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<Pattern>,
    /// The descriptions of tools, instead of the server's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    descriptions: BTreeMap<String, String>,
}

impl Choice {
    /// Reads `only` and `hidden`.
    pub(super) fn read(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Self {
        Self {
            only: members.optional(reader, "only", patterns).unwrap_or_default(),
            hidden: members.optional(reader, "hidden", patterns).unwrap_or_default(),
            descriptions: BTreeMap::new(),
        }
    }

    /// Reads `description` from the terms of the tools that `pattern` names.
    pub(super) fn describe(&mut self, reader: &mut Reader<'_>, pattern: &str, members: &mut Members<'_>) {
        let Some(node) = members.find("description") else { return };
        if pattern.contains('*') {
            reader.fault(&node.pointer, "describes one tool: write the name of that tool without `*`");
            return;
        }
        let text = reader.text(&node);
        if text.as_ref().is_some_and(|text| text.len() > limits::DESCRIPTION_BYTES_MAX) {
            reader.fault(&node.pointer, format!("is longer than {} bytes", limits::DESCRIPTION_BYTES_MAX));
        }
        self.descriptions.extend(text.map(|text| (pattern.to_owned(), text)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether clients see the tool.
    pub(crate) fn shows(&self, tool: &str) -> bool {
        let is_in = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(tool));
        (self.only.is_empty() || is_in(&self.only)) && !is_in(&self.hidden)
    }

    /// The description of the tool, unless clients read the server's own.
    pub(crate) fn description(&self, tool: &str) -> Option<&str> {
        self.descriptions.get(tool).map(String::as_str)
    }

    /// The names in it, with the members that have them.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&'static str, &Pattern)> {
        let only = self.only.iter().map(|pattern| ("only", pattern));
        only.chain(self.hidden.iter().map(|pattern| ("hidden", pattern)))
    }
}

fn patterns(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Vec<Pattern>> {
    let texts = reader.texts(node)?;
    if texts.is_empty() && node.value.as_array().is_some_and(Vec::is_empty) {
        reader.fault(&node.pointer, "names no tool: leave it out, or the server with `\"disabled\": true`");
    }
    Some(texts.iter().map(|text| Pattern::new(text)).collect())
}
