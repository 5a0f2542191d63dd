//! The headers and the `_meta` of every request of `2026-07-28`, for the requests that `rmcp` does not see: the checks
//! that it makes for the methods that it serves, in its order and with its messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, StatusCode};
use longhaul_core::{limits, strict_json};
use rmcp::ErrorData;
use rmcp::model::{ProtocolVersion, RequestMetaObject};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::revision::{Generation, VERSION_HEADER};
use crate::shared::errors;
use crate::shared::incoming::Incoming;

const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";

/// An error, and its HTTP status.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) error: ErrorData,
}

impl Refusal {
    const fn bad_request(error: ErrorData) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error }
    }

    fn mismatch(message: String) -> Self {
        Self::bad_request(ErrorData::header_mismatch(message, None))
    }
}

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "_meta")]
    meta: Option<RequestMetaObject>,
}

/// The `_meta` of a request; empty if it cannot be read.
pub(super) fn meta(params: Option<&RawValue>) -> RequestMetaObject {
    params.and_then(|params| strict_json::from_str::<Params>(params.get()).ok()?.meta).unwrap_or_default()
}

/// Whether the body says that it is of `2026-07-28` or later.
pub(super) fn claims_metadata(params: Option<&RawValue>) -> bool {
    let version = meta(params).protocol_version();
    Generation::of_version(version.as_ref().map(ProtocolVersion::as_str)) == Generation::PerRequest
}

/// Refuses a body that does not say that it is JSON, or is too large.
pub(super) fn check_body(request: &Request<Bytes>) -> Result<(), Refusal> {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|value| value.split(';').next());
    if !essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json")) {
        let message = "Unsupported Media Type: Content-Type must be application/json";
        let error = ErrorData::invalid_request(message, None);
        return Err(Refusal { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, error });
    }
    if request.body().len() > limits::BODY_BYTES_MAX {
        let message = format!("Payload Too Large: request body exceeds {} bytes", limits::BODY_BYTES_MAX);
        let error = ErrorData::invalid_request(message, None);
        return Err(Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, error });
    }
    Ok(())
}

/// The `_meta` of a request whose parameters are otherwise malformed. Fails with `-32600` where the parameters are not
/// an object, or their `_meta` is not one.
pub(super) fn meta_of(params: &RawValue) -> Result<RequestMetaObject, Refusal> {
    let read = strict_json::from_str::<Params>(params.get());
    read.map(|params| params.meta.unwrap_or_default()).map_err(|_malformed| {
        let message = "fail to deserialize request body unrecognized JSON-RPC message";
        Refusal { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, error: ErrorData::invalid_request(message, None) }
    })
}

/// Compares the headers with the body, and the revision with those that the server supports. `task_id` is what the body
/// says; the client may leave out the header `Mcp-Name`. Fails with `-32020` if headers and body differ, `-32602` if
/// `_meta` is not complete, `-32022` for other revisions.
pub(super) fn check(
    call: &Incoming<'_>,
    meta: &RequestMetaObject,
    task_id: Option<&str>,
    supported: &[ProtocolVersion],
) -> Result<(), Refusal> {
    let headers = call.http.headers();
    let header_version = headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let version = meta.protocol_version();
    let is_known = ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == header_version);
    if version.is_none() && !is_known {
        let message = format!("Bad Request: Unsupported MCP-Protocol-Version: {header_version}");
        return Err(Refusal::bad_request(ErrorData::invalid_request(message, None)));
    }
    check_method(headers, &call.method)?;
    if let Some(task_id) = task_id {
        check_name(headers, task_id)?;
    }
    let missing = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).join(", ");
    let Some(version) = version else {
        let message = format!("Invalid params: request _meta is missing or has malformed required fields: {missing}");
        return Err(Refusal::bad_request(ErrorData::invalid_params(message, None)));
    };
    if header_version != version.as_str() {
        return Err(Refusal::mismatch(format!(
            "MCP-Protocol-Version header ({header_version}) does not match request _meta protocolVersion ({version})"
        )));
    }
    if !supported.contains(&version) {
        return Err(Refusal::bad_request(ErrorData::unsupported_protocol_version(version, supported)));
    }
    if !missing.is_empty() {
        let message = format!("request _meta is missing or has malformed required fields: {missing}");
        return Err(Refusal::bad_request(ErrorData::invalid_params(message, None)));
    }
    Ok(())
}

/// Refuses a client that did not declare the Tasks extension. Fails with `-32021`.
pub(super) fn check_capability(meta: &RequestMetaObject) -> Result<(), Refusal> {
    let declared = meta.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks());
    if declared { Ok(()) } else { Err(Refusal::bad_request(errors::tasks_not_declared())) }
}

fn check_method(headers: &HeaderMap, method: &str) -> Result<(), Refusal> {
    match only(headers, METHOD)? {
        None => Err(Refusal::mismatch("missing required Mcp-Method header".to_owned())),
        Some(header) if header != method => {
            Err(Refusal::mismatch(format!("Mcp-Method header `{header}` does not match body method `{method}`")))
        }
        Some(_) => Ok(()),
    }
}

fn check_name(headers: &HeaderMap, task_id: &str) -> Result<(), Refusal> {
    let Some(header) = only(headers, NAME)? else { return Ok(()) };
    let decoded = match header.strip_prefix("=?base64?").and_then(|encoded| encoded.strip_suffix("?=")) {
        None => Some(header.to_owned()),
        Some(encoded) => STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()),
    };
    match decoded {
        None => Err(Refusal::mismatch("Mcp-Name header is not valid Base64".to_owned())),
        Some(name) if name != task_id => {
            Err(Refusal::mismatch(format!("Mcp-Name header `{name}` does not match body value `{task_id}`")))
        }
        Some(_) => Ok(()),
    }
}

/// The only value of this header, if it is present. A proxy could understand several values differently.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::mismatch(format!("duplicate {name} header")));
    }
    let text = value.to_str();
    text.map(Some).map_err(|_not_text| Refusal::mismatch(format!("{name} header contains invalid characters")))
}
