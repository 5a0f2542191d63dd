//! The ways of speaking about tasks on the wire: one module each, with its wire types and its mapping to the engine.
//! Which one a request speaks is decided for each request, from what it carries; nothing is remembered between two.
//!
//! To add one: a module here with a type that implements [`Dialect`], and its line in [`IN_ORDER`].
//!
//! - What a request says is in [`Incoming`]: read once, with the revision and the capabilities of its client, from the
//!   request itself or from its sealed session.
//! - What the server can do is in [`Front`]: the engine and the settings ([`Front::shared`]), accepting a call as a
//!   task ([`crate::accept`]), asking whether a tool is there, and handing a request to `rmcp` ([`Front::pass_on`]).
//! - Answers are made with [`crate::reply`]; what all dialects show alike is in [`shown`].
//! - A revision that `rmcp` does not know is named by [`Dialect::own_revision`]; handshake, headers and sessions are
//!   then dealt with in front.

use async_trait::async_trait;
use http::{HeaderMap, Response};
use longhaul_core::OwnerId;
use rmcp::model::ProtocolVersion;
use serde_json::{Map, Value};

use crate::Body;
use crate::front::Front;
use crate::incoming::{Incoming, Notice};

pub(crate) mod async_calls;
pub(crate) mod core_tasks;
pub(crate) mod handshake;
pub(crate) mod job_tools;
pub(crate) mod operations;
pub(crate) mod shown;
pub(crate) mod tasks_extension;

/// The dialects, in the order in which they are asked. The handshake takes what is left of older revisions, so it is
/// the last.
pub(crate) const IN_ORDER: &[&dyn Dialect] = &[
    &tasks_extension::TasksExtension,
    &operations::Operations,
    &async_calls::AsyncCalls,
    &job_tools::JobTools,
    &core_tasks::CoreTasks,
    &handshake::Handshake,
];

/// One way of speaking about tasks. A dialect keeps nothing: all of it is in the request and in the store.
#[async_trait]
pub(crate) trait Dialect: Send + Sync {
    /// A revision that this dialect alone knows.
    fn own_revision(&self) -> Option<OwnRevision> {
        None
    }

    /// Answers a request that is the dialect's own; nothing leaves it to the next one, and in the end to `rmcp`.
    async fn answer(&self, _call: &Incoming<'_>, _front: &Front) -> Option<Response<Body>> {
        None
    }

    /// Goes on with a stream that the dialect began and whose connection was closed; nothing where it is not one of its
    /// own. `last_event_id` is the last that the client has got.
    async fn resume(&self, _last_event_id: &str, _owner: OwnerId, _front: &Front) -> Option<Response<Body>> {
        None
    }

    /// Hears a notification, whichever it is. Its sender gets no answer.
    async fn hear(&self, _notice: &Notice<'_>, _front: &Front) {}

    /// Whether [`decorate`](Self::decorate) has something to say to this request. A result is parsed only then.
    fn decorates(&self, _call: &Incoming<'_>) -> bool {
        false
    }

    /// Changes what a handshake or a list tells this client: adds what the dialect has, hides what it must not show.
    fn decorate(&self, _call: &Incoming<'_>, _front: &Front, _result: &mut Map<String, Value>) {}
}

/// A revision that `rmcp` does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnRevision {
    /// What its clients call it.
    pub(crate) name: &'static str,
    /// As which revision `rmcp` serves its requests.
    pub(crate) served_as: &'static str,
}

/// The own revision of this name, where a dialect has it.
pub(crate) fn own_revision(name: &str) -> Option<OwnRevision> {
    IN_ORDER.iter().filter_map(|dialect| dialect.own_revision()).find(|own| own.name == name)
}

/// The header that names a request's revision.
pub(crate) const VERSION_HEADER: &str = "mcp-protocol-version";

/// How clients say what they can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// `2026-07-28` and later: in every request.
    PerRequest,
    /// Older revisions: once, in a handshake.
    Handshake,
}

impl Generation {
    /// The generation of a request with these headers. A body that says otherwise is refused by `rmcp`.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self::of_version(headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok()))
    }

    /// The generation of a revision. Revisions are dates; what is none is older than all of them.
    pub(crate) fn of_version(version: Option<&str>) -> Self {
        let is_date = |version: &&str| version.starts_with(|first: char| first.is_ascii_digit());
        match version.filter(is_date) {
            Some(version) if version >= ProtocolVersion::V_2026_07_28.as_str() => Self::PerRequest,
            Some(_) | None => Self::Handshake,
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
