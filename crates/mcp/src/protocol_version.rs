//! The interface of a protocol version, and what it can use to answer.
//!
//! Which protocol version a request speaks is decided for each request, from its contents; nothing is remembered
//! between two requests.
//!
//! A new protocol version needs three things: a module in [`crate::protocol_versions`] with a type that implements
//! [`ProtocolVersion`], a line in the router's list, and a row in the table of layers in `ARCHITECTURE.md`.
//!
//! - [`Incoming`] has the request, read once, with the revision and the capabilities of its client. They come from the
//!   request itself or from its signed session.
//! - [`Endpoint`] has the engine and the settings ([`Endpoint::shared`]), knows whether a tool exists, and talks to the
//!   handler ([`Endpoint::backend`]). [`crate::tool_calls::accept`] accepts a call as a task.
//! - [`crate::reply`] makes the answers, and [`crate::views`] has the views that all protocol versions share.
//! - A revision that `rmcp` does not know has its line in [`crate::revision`]; handshake, headers and sessions then
//!   support it.

use std::sync::Arc;

use async_trait::async_trait;
use http::Response;
use longhaul_core::OwnerId;
use serde_json::{Map, Value};

use crate::Body;
use crate::backend::Backend;
use crate::request::incoming::{Client, Incoming, Notice};
use crate::state::Shared;

/// One way of speaking about tasks. A protocol version has no state: everything is in the request and in the store.
#[async_trait]
pub(crate) trait ProtocolVersion: Send + Sync {
    /// Answers a request of this protocol version; `None` leaves it to the next one, and in the end to [`crate::call`].
    async fn answer(&self, _call: &Incoming<'_>, _endpoint: &Endpoint) -> Option<Response<Body>> {
        None
    }

    /// Resumes a stream that the protocol version began and whose connection was closed; `None` if the stream is not
    /// one of its own. `last_event_id` is that of the last event that the client received.
    async fn resume(&self, _last_event_id: &str, _owner: OwnerId, _endpoint: &Endpoint) -> Option<Response<Body>> {
        None
    }

    /// Opens the stream on which a client hears what no request of its own is answered with; `None` if it has none.
    async fn attend(&self, _client: &Client, _owner: OwnerId, _endpoint: &Endpoint) -> Option<Response<Body>> {
        None
    }

    /// Is called for every notification. Its sender gets no answer.
    async fn on_notification(&self, _notice: &Notice<'_>, _endpoint: &Endpoint) {}

    /// Whether [`patch`](Self::patch) changes the result of this request. A result is parsed only then.
    fn patches(&self, _call: &Incoming<'_>) -> bool {
        false
    }

    /// Changes what a handshake or a list shows this client: adds what the protocol version has, hides what the client
    /// must not see.
    fn patch(&self, _call: &Incoming<'_>, _endpoint: &Endpoint, _result: &mut Map<String, Value>) {}
}

pub(crate) struct Endpoint {
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
    /// All protocol versions, in the order in which they are asked. No protocol version knows another one by name.
    protocol_versions: &'static [&'static dyn ProtocolVersion],
}

impl Endpoint {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        shared: Arc<Shared>,
        protocol_versions: &'static [&'static dyn ProtocolVersion],
    ) -> Self {
        Self { backend, shared, protocol_versions }
    }

    /// The engine, the policies and the settings.
    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) const fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Whether any protocol version changes the result of this request.
    pub(crate) fn patches(&self, call: &Incoming<'_>) -> bool {
        self.protocol_versions.iter().any(|protocol_version| protocol_version.patches(call))
    }

    /// Changes the result of this request as the protocol versions want.
    pub(crate) fn patch(&self, call: &Incoming<'_>, result: &mut Map<String, Value>) {
        let patching = self.protocol_versions.iter().filter(|protocol_version| protocol_version.patches(call));
        patching.for_each(|protocol_version| protocol_version.patch(call, self, result));
    }
}
