//! Revisions of MCP: how a request names its own, and what follows from it.

use http::HeaderMap;
use rmcp::model::ProtocolVersion;

/// The header that names a request's revision.
pub(crate) const VERSION_HEADER: &str = "mcp-protocol-version";

/// The revision that clients of SEP-1391 name.
pub(crate) const NEXT: &str = "next";

/// Methods of older revisions that `2026-07-28` removed.
pub(crate) const REMOVED: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// A revision that `rmcp` does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnRevision {
    pub(crate) name: &'static str,
    /// The revision as which `rmcp` serves its requests.
    pub(crate) served_as: &'static str,
}

/// The revisions that `rmcp` does not know.
const OWN: [OwnRevision; 1] = [OwnRevision { name: NEXT, served_as: "2025-11-25" }];

/// The revision of this name, if it is one of these.
pub(crate) fn own_revision(name: &str) -> Option<OwnRevision> {
    OWN.into_iter().find(|own| own.name == name)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// `2026-07-28` and later: in every request.
    PerRequest,
    /// Older revisions: once, in a handshake.
    Handshake,
}

impl Generation {
    /// The generation of a request with these headers. A body that says otherwise is refused.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self::of_version(headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok()))
    }

    /// The generation of a revision. Revisions are dates; anything else counts as older than all of them.
    pub(crate) fn of_version(version: Option<&str>) -> Self {
        let is_date = |version: &&str| version.starts_with(|first: char| first.is_ascii_digit());
        match version.filter(is_date) {
            Some(version) if version >= ProtocolVersion::V_2026_07_28.as_str() => Self::PerRequest,
            Some(_) | None => Self::Handshake,
        }
    }
}

/// The form of the answer to a call with wrong arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputErrors {
    /// `2025-11-25` and later: as a result with `isError`, so that its model reads it and can correct itself.
    Results,
    /// Older revisions: as a JSON-RPC error.
    Errors,
}

impl InputErrors {
    /// The form that a revision wants.
    pub(crate) fn of_version(version: Option<&str>) -> Self {
        match version {
            Some(version) if version >= ProtocolVersion::V_2025_11_25.as_str() => Self::Results,
            Some(_) | None => Self::Errors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_follows_the_revision() {
        let of = Generation::of_version;
        assert_eq!([of(Some("2026-07-28")), of(Some("2027-01-01"))], [Generation::PerRequest; 2]);
        for older in [None, Some(""), Some("2025-11-25"), Some("2024-11-05"), Some("next"), Some("DRAFT-2026-v1")] {
            assert_eq!(of(older), Generation::Handshake, "{older:?}");
        }
    }
}
