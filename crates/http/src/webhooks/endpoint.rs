//! The endpoints of webhooks.

use std::collections::BTreeSet;

use longhaul_core::{Notification, NotificationKind};
use url::Url;

use crate::webhooks::Secret;

/// One receiver of webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name, unique among all.
    pub name: String,
    /// Where it is.
    pub url: Url,
    /// The events that it gets.
    pub events: BTreeSet<NotificationKind>,
    /// The names of the tools, in which `*` stands for anything. Empty for all.
    pub tools: Vec<String>,
    /// The secrets that sign its webhooks: one, or two while one replaces the other. None if they were not read.
    pub secrets: Vec<Secret>,
    /// Raised by the operator, to switch an endpoint on again that has switched itself off.
    pub revision: u64,
}

impl Endpoint {
    /// Whether it is notified of this.
    #[must_use]
    pub fn wants(&self, notification: &Notification) -> bool {
        let wants_tool = self.tools.is_empty() || self.tools.iter().any(|tool| matches(tool, &notification.tool));
        self.events.contains(&notification.what) && wants_tool
    }
}

/// All receivers of webhooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints(Vec<Endpoint>);

impl Endpoints {
    pub(crate) const fn new(endpoints: Vec<Endpoint>) -> Self {
        Self(endpoints)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter()
    }

    /// The one of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Endpoint> {
        self.0.iter().find(|endpoint| endpoint.name == name)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether `name` matches `pattern`, in which `*` stands for any characters, or none.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = left.find(piece) else { return false };
        left = left.get(at + piece.len()..).unwrap_or_default();
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name) in
            [("a", "a"), ("*", ""), ("*", "a"), ("a*", "abc"), ("*c", "abc"), ("a*c", "ac"), ("a*b*c", "aXbXbc")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "ab"), ("a*", "b"), ("*c", "cb"), ("ab*bc", "abc"), ("a*b*c", "acb"), ("", "a")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
