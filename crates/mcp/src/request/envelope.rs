//! The parts around the parameters of every request: headers, each at most once, and in `2026-07-28` the `_meta` that
//! the headers repeat.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, StatusCode};
use longhaul_core::limits;
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, JsonObject, ProtocolVersion};
use serde_json::Value;

use crate::request::incoming::OverStdio;
use crate::request::meta::Meta;
use crate::request::params::Members;
use crate::revision::{Generation, REMOVED, VERSION_HEADER, own_revision};
use crate::signing::session;

const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";
const PARAM: &str = "Mcp-Param-";

/// The keyword in a tool's input schema for an argument that a header repeats.
const IN_HEADER: &str = "x-mcp-header";

/// How deep such arguments are looked for.
const IN_HEADER_DEPTH: u32 = 16;

/// An error, and its HTTP status.
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) error: ErrorData,
}

impl Refusal {
    const fn bad_request(error: ErrorData) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error }
    }

    fn mismatch(message: impl Into<String>) -> Self {
        Self::bad_request(ErrorData::header_mismatch(message.into(), None))
    }

    fn no_such_method(method: &str) -> Self {
        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None);
        Self { status: StatusCode::NOT_FOUND, error }
    }
}

/// Refuses a body that is too large, or whose content type is not JSON. Also refuses two values of a header that must
/// have one, because a proxy could understand them differently.
pub(crate) fn check_http(request: &Request<Bytes>) -> Result<(), Refusal> {
    check_single(request.headers())?;
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

/// Refuses two values of a header that must have one.
pub(crate) fn check_single(headers: &HeaderMap) -> Result<(), Refusal> {
    for name in [VERSION_HEADER, session::HEADER, "last-event-id", CONTENT_TYPE.as_str()] {
        let mut values = headers.get_all(name).iter();
        let (Some(first), Some(second)) = (values.next(), values.next()) else { continue };
        let message = format!("the header {name} must not be sent twice");
        let is_new = |value: &http::HeaderValue| {
            Generation::of_version(value.to_str().ok()) == Generation::PerRequest && name == VERSION_HEADER
        };
        return Err(if is_new(first) || is_new(second) {
            Refusal::mismatch(message)
        } else {
            Refusal::bad_request(ErrorData::invalid_request(message, None))
        });
    }
    Ok(())
}

/// Compares the headers with the body, and the revision with those that the server supports. Fails with `-32020` if
/// headers and body differ, and with `-32602` if `_meta` is not complete. It fails with `-32022` for other revisions,
/// and with `-32601` for methods that the revision does not have.
pub(crate) fn check(
    http: &Request<Bytes>,
    method: &str,
    members: &Members<'_>,
    meta: &Meta<'_>,
    supported: &[ProtocolVersion],
) -> Result<(), Refusal> {
    let headers = http.headers();
    let generation = Generation::of(headers);
    let declared = meta.revision();
    let claims = Generation::of_version(declared.map(ProtocolVersion::as_str));
    match (generation, method) {
        (Generation::PerRequest, removed) if REMOVED.contains(&removed) => Err(Refusal::no_such_method(removed)),
        // The handshake belongs to older revisions, even if its headers do not name a revision.
        (Generation::Handshake, "initialize") if claims == Generation::PerRequest => {
            Err(Refusal::no_such_method(method))
        }
        // What it asks for is compared with the header where it is answered.
        (Generation::Handshake, "initialize") => Ok(()),
        (Generation::Handshake, "server/discover") => check_meta(headers, meta, supported),
        (Generation::Handshake, _) => {
            check_version(headers, declared.is_some())?;
            declared.map_or(Ok(()), |declared| check_declared(headers, declared))
        }
        (Generation::PerRequest, _) => {
            check_version(headers, declared.is_some())?;
            check_method(headers, method)?;
            if !OverStdio::is_how_it_came(http) {
                check_name(headers, method, members)?;
            }
            check_meta(headers, meta, supported)
        }
    }
}

/// The same for a notification, which has no `_meta` of this kind.
pub(crate) fn check_notification(headers: &HeaderMap, method: &str) -> Result<(), Refusal> {
    check_version(headers, false)?;
    match Generation::of(headers) {
        Generation::PerRequest => check_method(headers, method),
        Generation::Handshake => Ok(()),
    }
}

/// Refuses a revision that is not known, unless the body names one too: then that is compared with those that the
/// server supports.
fn check_version(headers: &HeaderMap, is_declared: bool) -> Result<(), Refusal> {
    let Some(header) = headers.get(VERSION_HEADER) else { return Ok(()) };
    let version = header.to_str().unwrap_or_default();
    let is_known = ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version);
    if is_declared || is_known || own_revision(version).is_some() {
        return Ok(());
    }
    let message = format!("Bad Request: Unsupported MCP-Protocol-Version: {version}");
    Err(Refusal::bad_request(ErrorData::invalid_request(message, None)))
}

fn check_declared(headers: &HeaderMap, declared: &ProtocolVersion) -> Result<(), Refusal> {
    match headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok()) {
        None => Err(Refusal::mismatch("request _meta protocolVersion requires MCP-Protocol-Version header")),
        Some(header) if header != declared.as_str() => Err(Refusal::mismatch(format!(
            "MCP-Protocol-Version header ({header}) does not match request _meta protocolVersion ({declared})"
        ))),
        Some(_) => Ok(()),
    }
}

fn check_meta(headers: &HeaderMap, meta: &Meta<'_>, supported: &[ProtocolVersion]) -> Result<(), Refusal> {
    let missing = || meta.whole().missing_required_keys(&ProtocolVersion::V_2026_07_28).join(", ");
    let Some(declared) = meta.revision() else {
        let missing = missing();
        let message = format!("Invalid params: request _meta is missing or has malformed required fields: {missing}");
        return Err(Refusal::bad_request(ErrorData::invalid_params(message, None)));
    };
    check_declared(headers, declared)?;
    if !supported.contains(declared) {
        return Err(Refusal::bad_request(ErrorData::unsupported_protocol_version(declared.clone(), supported)));
    }
    if meta.declared().is_none() {
        let message = format!("request _meta is missing or has malformed required fields: {}", missing());
        return Err(Refusal::bad_request(ErrorData::invalid_params(message, None)));
    }
    Ok(())
}

fn check_method(headers: &HeaderMap, method: &str) -> Result<(), Refusal> {
    match only(headers, METHOD)? {
        None => Err(Refusal::mismatch("missing required Mcp-Method header")),
        Some(header) if header != method => {
            Err(Refusal::mismatch(format!("Mcp-Method header `{header}` does not match body method `{method}`")))
        }
        Some(_) => Ok(()),
    }
}

/// The client may leave out the name of a task.
fn check_name(headers: &HeaderMap, method: &str, members: &Members<'_>) -> Result<(), Refusal> {
    let (member, is_required) = match method {
        "tools/call" | "prompts/get" => ("name", true),
        "resources/read" => ("uri", true),
        "tasks/get" | "tasks/update" | "tasks/cancel" | "dev.longhaul/tasks/inspect" | "dev.longhaul/tasks/resume" => {
            ("taskId", false)
        }
        _ => return Ok(()),
    };
    let Some(name) = members.text(member) else { return Ok(()) };
    match only(headers, NAME)? {
        None if is_required => Err(Refusal::mismatch(format!("missing required Mcp-Name header for `{method}`"))),
        None => Ok(()),
        Some(header) => match decoded(header) {
            None => Err(Refusal::mismatch("Mcp-Name header is not valid Base64")),
            Some(header) if header != name => {
                Err(Refusal::mismatch(format!("Mcp-Name header `{header}` does not match body value `{name}`")))
            }
            Some(_) => Ok(()),
        },
    }
}

/// Compares arguments with the headers that repeat them, as the tool's input schema says. Fails with `-32020`.
pub(crate) fn check_arguments(
    headers: &HeaderMap,
    arguments: Option<&JsonObject>,
    schema: &JsonObject,
) -> Result<(), Refusal> {
    check_properties(headers, arguments, schema, IN_HEADER_DEPTH)
}

fn check_properties(
    headers: &HeaderMap,
    arguments: Option<&JsonObject>,
    schema: &JsonObject,
    depth: u32,
) -> Result<(), Refusal> {
    let properties = schema.get("properties").and_then(Value::as_object).filter(|_| depth > 0);
    for (name, property) in properties.into_iter().flatten() {
        let argument = arguments.and_then(|arguments| arguments.get(name));
        if let Some(header) = property.get(IN_HEADER).and_then(Value::as_str).filter(|header| !header.is_empty()) {
            check_argument(headers, &format!("{PARAM}{header}"), name, argument)?;
        }
        if let Some(property) = property.as_object() {
            check_properties(headers, argument.and_then(Value::as_object), property, depth - 1)?;
        }
    }
    Ok(())
}

fn check_argument(headers: &HeaderMap, header: &str, name: &str, argument: Option<&Value>) -> Result<(), Refusal> {
    let expected = match argument {
        Some(Value::String(text)) => Some(text.clone()),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => Some(value.to_string()),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => None,
    };
    match (only(headers, header)?, expected) {
        (None, None) => Ok(()),
        (Some(_), None) => Err(Refusal::mismatch(format!("unexpected {header} header for absent or null `{name}`"))),
        (None, Some(_)) => Err(Refusal::mismatch(format!("missing {header} header for `{name}`"))),
        (Some(sent), Some(expected)) => match decoded(sent) {
            None => Err(Refusal::mismatch(format!("{header} header is not valid Base64"))),
            Some(sent) if sent != expected => {
                Err(Refusal::mismatch(format!("{header} header `{sent}` does not match body value `{expected}`")))
            }
            Some(_) => Ok(()),
        },
    }
}

fn decoded(header: &str) -> Option<String> {
    match header.strip_prefix("=?base64?").and_then(|encoded| encoded.strip_suffix("?=")) {
        None => Some(header.to_owned()),
        Some(encoded) => STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()),
    }
}

/// The only value of this header, if it is present.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::mismatch(format!("duplicate {name} header")));
    }
    let text = value.to_str();
    text.map(Some).map_err(|_not_text| Refusal::mismatch(format!("{name} header contains invalid characters")))
}
