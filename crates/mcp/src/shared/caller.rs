//! Who calls, and what the request says besides its arguments.

use http::HeaderMap;
use http::request::Parts;
use longhaul_core::OwnerId;
use longhaul_engine::Idempotency;
use rmcp::model::{CallToolRequestParams, ClientCapabilities, JsonObject, ProtocolVersion, RequestMetaObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tracing::Span;

use crate::revision::{Generation, InputErrors};
use crate::shared::cancelling::Ending;
use crate::shared::digest;

/// The header that makes a retry of a call recognisable.
const KEY_HEADER: &str = "idempotency-key";

/// The same in `_meta`, for clients that cannot set headers.
const KEY_META: &str = "dev.longhaul/idempotencyKey";

/// What a request says about its caller.
pub(crate) struct Caller {
    /// Who it is, as the HTTP frontend verified it.
    pub(crate) owner: OwnerId,
    /// What it can be asked.
    pub(crate) capabilities: ClientCapabilities,
    /// How it says what it can do.
    pub(crate) generation: Generation,
    /// How it wants to be told that arguments are wrong.
    pub(crate) input_errors: InputErrors,
}

impl Caller {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Result<Self, ErrorData> {
        let version = context.meta.protocol_version();
        let generation = Generation::of_version(version.as_ref().map(ProtocolVersion::as_str));
        let version = version.or_else(|| Some(context.peer.peer_info()?.protocol_version.clone()));
        let input_errors = InputErrors::of_version(version.as_ref().map(ProtocolVersion::as_str));
        let capabilities = context.client_capabilities().unwrap_or_default();
        Ok(Self { owner: owner(context)?, capabilities, generation, input_errors })
    }

    /// Whether task handles may be sent to it. A handshake may declare the extension too, in a revision that has no
    /// task handles: that does not count.
    pub(crate) fn knows_tasks(&self) -> bool {
        self.generation == Generation::PerRequest && self.capabilities.supports_tasks()
    }
}

/// The owner that the HTTP frontend put into the request.
pub(crate) fn owner(context: &RequestContext<RoleServer>) -> Result<OwnerId, ErrorData> {
    let owner = parts(context).and_then(|parts| parts.extensions.get::<OwnerId>());
    // Never "anonymous" instead: a request without an owner did not come through the router.
    owner.copied().ok_or_else(|| {
        tracing::error!("a request has no owner");
        ErrorData::internal_error("the caller is not known", None)
    })
}

/// The span of a request on its way through `rmcp`, which spawns a task for each handler.
#[derive(Clone, Debug)]
pub(crate) struct RequestSpan(pub(crate) Span);

/// The span that the request came in.
pub(crate) fn span(context: &RequestContext<RoleServer>) -> Span {
    let carried = parts(context).and_then(|parts| parts.extensions.get::<RequestSpan>());
    carried.map_or_else(Span::current, |carried| carried.0.clone())
}

pub(crate) fn parts(context: &RequestContext<RoleServer>) -> Option<&Parts> {
    context.extensions.get::<Parts>()
}

/// How the call ends early, if its dialect says so.
pub(crate) fn ending(context: &RequestContext<RoleServer>) -> Option<Ending> {
    parts(context)?.extensions.get::<Ending>().cloned()
}

/// What recognises a retry of this call, if its caller sent a key.
pub(crate) fn idempotency(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Idempotency> {
    let none = HeaderMap::new();
    let headers = parts(context).map_or(&none, |parts| &parts.headers);
    idempotency_of(headers, &context.meta, &request.name, request.arguments.as_ref())
}

/// Whether the caller sent a key by which it can find its call again.
pub(crate) fn has_idempotency_key(context: &RequestContext<RoleServer>) -> bool {
    let none = HeaderMap::new();
    idempotency_of(parts(context).map_or(&none, |parts| &parts.headers), &context.meta, "", None).is_some()
}

/// The same for a call that did not come through `rmcp`.
pub(crate) fn idempotency_of(
    headers: &HeaderMap,
    meta: &RequestMetaObject,
    tool: &str,
    arguments: Option<&JsonObject>,
) -> Option<Idempotency> {
    // A header that is not text counts as a key too; the engine checks its length.
    let header = headers.get(KEY_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let key = header.or_else(|| Some(meta.0.0.get(KEY_META)?.as_str()?.to_owned()))?;
    Some(Idempotency { key, fingerprint: digest::of_call(tool, arguments) })
}
