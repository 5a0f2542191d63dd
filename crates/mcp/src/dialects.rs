//! The ways of speaking about tasks on the wire: one module each, with its wire types and nothing else. Which one a
//! request speaks is decided for each request, from what it carries; nothing is remembered between two.

use http::HeaderMap;
use rmcp::model::ProtocolVersion;

pub(crate) mod tasks_extension;

/// The header that names a request's revision.
pub(crate) const VERSION_HEADER: &str = "mcp-protocol-version";

/// How a request speaks about tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `2026-07-28` and later: every request says what its client can do, and tasks are an extension.
    TasksExtension,
    /// Older revisions: a handshake said what the client can do, and is forgotten. All calls are plain.
    Plain,
}

impl Dialect {
    /// The dialect of a request with these headers. A body that says otherwise is refused by `rmcp`.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self::of_version(headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok()))
    }

    /// The dialect of a revision. Revisions are dates; what is none is older than all of them.
    pub(crate) fn of_version(version: Option<&str>) -> Self {
        let is_date = |version: &&str| version.starts_with(|first: char| first.is_ascii_digit());
        match version.filter(is_date) {
            Some(version) if version >= ProtocolVersion::V_2026_07_28.as_str() => Self::TasksExtension,
            Some(_) | None => Self::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialect_follows_the_revision() {
        let of = Dialect::of_version;
        assert_eq!([of(Some("2026-07-28")), of(Some("2027-01-01"))], [Dialect::TasksExtension; 2]);
        for older in [None, Some(""), Some("2025-11-25"), Some("2024-11-05"), Some("next"), Some("DRAFT-2026-v1")] {
            assert_eq!(of(older), Dialect::Plain, "{older:?}");
        }
    }
}
