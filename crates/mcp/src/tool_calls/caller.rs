//! The caller of a request, as tools may see it, and the parts of a call other than its arguments.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use longhaul_core::{OwnerId, Principal, Scopes, VerifiedIdentity, limits};
use longhaul_engine::Idempotency;
use rmcp::model::{CallToolRequestParams, ClientCapabilities, JsonObject, ProtocolVersion, RequestMetaObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tracing::Span;

use crate::revision::Generation;
use crate::signing::derived;
use crate::signing::session::Scope;
use crate::tool_calls::cancelling::Ending;

/// The header that makes a retry of a call recognisable.
pub(crate) const KEY_HEADER: &str = "idempotency-key";

/// The same in `_meta`, for clients that cannot set headers.
const KEY_META: &str = "dev.longhaul/idempotencyKey";

/// The caller of a request.
pub(crate) struct Caller {
    /// The identity, as the HTTP frontend verified it.
    pub(crate) principal: Arc<Principal>,
    /// Whose tasks it sees.
    pub(crate) owner: OwnerId,
    /// Where names are valid that it chose.
    pub(crate) scope: Scope,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) generation: Generation,
}

impl Caller {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Result<Self, ErrorData> {
        let generation = Generation::of_version(context.meta.protocol_version().as_ref().map(ProtocolVersion::as_str));
        let capabilities = context.client_capabilities().unwrap_or_default();
        let principal = principal(context)?;
        Ok(Self { owner: principal.owner, principal, scope: scope(context)?, capabilities, generation })
    }
}

/// The caller that the router put into the request.
pub(crate) fn principal(context: &RequestContext<RoleServer>) -> Result<Arc<Principal>, ErrorData> {
    let principal = parts(context).and_then(|parts| parts.extensions.get::<Arc<Principal>>());
    // Never "anonymous" instead: a request without a caller did not come through the router.
    principal.cloned().ok_or_else(|| {
        tracing::error!("a request has no caller");
        ErrorData::internal_error("the caller is not known", None)
    })
}

/// The scope that the router put into the request.
fn scope(context: &RequestContext<RoleServer>) -> Result<Scope, ErrorData> {
    let scope = parts(context).and_then(|parts| parts.extensions.get::<Scope>());
    scope.cloned().ok_or_else(|| {
        tracing::error!("a request has no scope");
        ErrorData::internal_error("the caller is not known", None)
    })
}

/// The span of a request on its way through `rmcp`, which spawns a task for each handler.
#[derive(Clone, Debug)]
pub(crate) struct RequestSpan(pub(crate) Span);

pub(crate) fn span(context: &RequestContext<RoleServer>) -> Span {
    let carried = parts(context).and_then(|parts| parts.extensions.get::<RequestSpan>());
    carried.map_or_else(Span::current, |carried| carried.0.clone())
}

pub(crate) fn parts(context: &RequestContext<RoleServer>) -> Option<&Parts> {
    context.extensions.get::<Parts>()
}

/// The JSON of a call's parameters, as the caller wrote it, in the parts of its request.
#[derive(Clone, Default)]
pub(crate) struct CallTexts {
    arguments: Option<Bytes>,
    meta: Option<Bytes>,
}

impl CallTexts {
    /// The JSON of parameters that were read from `body`: parts of it, unless they were written again since.
    pub(crate) fn of(body: &Bytes, arguments: Option<&str>, meta: Option<&str>) -> Self {
        let part = |text: &str| {
            let from = text.as_ptr().addr().checked_sub(body.as_ptr().addr());
            let part =
                from.and_then(|from| Some(from..from.checked_add(text.len())?)).filter(|part| part.end <= body.len());
            part.map_or_else(|| Bytes::copy_from_slice(text.as_bytes()), |part| body.slice(part))
        };
        Self { arguments: arguments.map(part), meta: meta.map(part) }
    }
}

/// The arguments as the caller wrote them.
pub(crate) fn arguments_text(context: &RequestContext<RoleServer>) -> Option<&str> {
    std::str::from_utf8(parts(context)?.extensions.get::<CallTexts>()?.arguments.as_ref()?).ok()
}

/// The `_meta` as the caller wrote it.
pub(crate) fn meta_text(context: &RequestContext<RoleServer>) -> Option<&str> {
    std::str::from_utf8(parts(context)?.extensions.get::<CallTexts>()?.meta.as_ref()?).ok()
}

/// How the call ends early, if its protocol version says so.
pub(crate) fn ending(context: &RequestContext<RoleServer>) -> Option<Ending> {
    parts(context)?.extensions.get::<Ending>().cloned()
}

/// The values that identify a retry of this call, if its caller sent a key. Fails with `-32602` if the key is not a
/// string.
pub(crate) fn idempotency(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Option<Idempotency>, ErrorData> {
    let none = HeaderMap::new();
    let headers = parts(context).map_or(&none, |parts| &parts.headers);
    idempotency_of(headers, &context.meta, &request.name, request.arguments.as_ref())
}

/// Whether the caller sent a key by which it can find its call again.
pub(crate) fn has_idempotency_key(headers: &HeaderMap, meta: &RequestMetaObject) -> bool {
    key(headers, meta).is_ok_and(|key| key.is_some())
}

/// The same for a call that did not come through `rmcp`. Fails with `-32602` if the key is not a text.
pub(crate) fn idempotency_of(
    headers: &HeaderMap,
    meta: &RequestMetaObject,
    tool: &str,
    arguments: Option<&JsonObject>,
) -> Result<Option<Idempotency>, ErrorData> {
    let key = key(headers, meta)?;
    // The engine checks its length.
    Ok(key.map(|key| Idempotency { key: key.to_owned(), fingerprint: derived::digest_of_call(tool, arguments) }))
}

/// The key in the header; otherwise the one in `_meta`. A key that is not a string is refused: if it were converted, or
/// ignored, other calls could be mistaken for this one.
fn key<'a>(headers: &'a HeaderMap, meta: &'a RequestMetaObject) -> Result<Option<&'a str>, ErrorData> {
    if let Some(key) = key_of_header(headers)? {
        return Ok(Some(key));
    }
    let Some(key) = meta.0.0.get(KEY_META) else { return Ok(None) };
    let not_text = || ErrorData::invalid_params(format!("`{KEY_META}` in `_meta` must be a string"), None);
    key.as_str().map(Some).ok_or_else(not_text)
}

/// The key in the header. Fails with `-32602` if there is more than one, or one that is not a text of at most 256
/// bytes.
pub(crate) fn key_of_header(headers: &HeaderMap) -> Result<Option<&str>, ErrorData> {
    let mut keys = headers.get_all(KEY_HEADER).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let refused = |why: &str| ErrorData::invalid_params(format!("the header Idempotency-Key {why}"), None);
    if keys.next().is_some() {
        return Err(refused("must not be sent twice"));
    }
    if key.len() > limits::IDEMPOTENCY_KEY_BYTES_MAX {
        return Err(refused(&format!("must have at most {} bytes", limits::IDEMPOTENCY_KEY_BYTES_MAX)));
    }
    let key = std::str::from_utf8(key.as_bytes()).map_err(|_not_text| refused("must be text in UTF-8"))?;
    Ok(Some(key))
}

/// The caller, as it was verified before the call reached the server. It never holds a caller's own claims, nor a
/// token. [`TaskContext::caller`](crate::TaskContext::caller) returns it in tools, [`VerifiedCaller::of`] everywhere
/// else.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// use longhaul::VerifiedCaller;
/// use rmcp::{RoleServer, service::RequestContext};
///
/// fn greeting(context: &RequestContext<RoleServer>) -> String {
///     match VerifiedCaller::of(context) {
///         Some(caller) => format!("{} of {}", caller.subject(), caller.issuer()),
///         None => "somebody".to_owned(),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedCaller {
    #[serde(flatten)]
    identity: VerifiedIdentity,
    scopes: Scopes,
}

impl VerifiedCaller {
    /// The sender of the request of `context`, for handlers that take no [`TaskContext`](crate::TaskContext). It works in
    /// tools, which may be running as tasks, and in prompts, resources and lists. `None` for anonymous callers.
    #[must_use]
    pub fn of(context: &RequestContext<RoleServer>) -> Option<Self> {
        if let Some(known) = context.extensions.get::<Self>() {
            return Some(known.clone());
        }
        Self::known(context.extensions.get::<Parts>()?.extensions.get::<Arc<Principal>>()?)
    }

    /// The verified facts about `principal`; `None` if it is anonymous.
    pub(crate) fn known(principal: &Principal) -> Option<Self> {
        Some(Self { identity: principal.identity.clone()?, scopes: principal.scopes.clone() })
    }

    /// The principal of a call that a tool makes in the task of this caller, or of an anonymous one.
    pub(crate) fn principal_of(known: Option<&Self>, owner: OwnerId) -> Principal {
        known.map_or_else(
            || Principal::from(owner),
            |known| Principal { owner, identity: Some(known.identity.clone()), scopes: known.scopes.clone() },
        )
    }

    /// The issuer of the caller's token, which vouches for the [subject](Self::subject), or `aws-iam`.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.identity.issuer
    }

    /// The caller's name: unique at its [issuer](Self::issuer), and never given to another caller.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.identity.subject
    }

    /// Further claims about it, which the operator chose, by their names.
    #[must_use]
    pub const fn claims(&self) -> &Map<String, Value> {
        &self.identity.claims
    }

    /// Whether it may do what needs this scope. A caller whom something identified that knows no scopes, such as IAM,
    /// may do everything.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.contain(scope)
    }

    /// The scopes that were granted to it; `None` if it may do everything.
    #[must_use]
    pub fn scopes(&self) -> Option<impl Iterator<Item = &str>> {
        match &self.scopes {
            Scopes::Unrestricted => None,
            Scopes::Granted(scopes) => Some(scopes.iter().map(String::as_str)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_it_wrote_and_what_has_no_claims() {
        let mut identity = VerifiedIdentity::new("https://id.example.com", "alice");
        identity.claims.insert("team".to_owned(), "blue".into());
        let granted = VerifiedCaller { identity, scopes: Scopes::Granted(["etl:run".to_owned()].into()) };
        let text = serde_json::to_string(&granted).unwrap();
        assert_eq!(serde_json::from_str::<VerifiedCaller>(&text).unwrap(), granted, "{text}");
        let text = r#"{"issuer":"aws-iam","subject":"AIDA","scopes":"unrestricted"}"#;
        let read: VerifiedCaller = serde_json::from_str(text).unwrap();
        assert!(read.scopes().is_none() && read.has_scope("anything") && read.claims().is_empty());
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
