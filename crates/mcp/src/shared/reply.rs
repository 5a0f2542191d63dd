//! Answers that this crate makes itself, always in JSON-RPC: `rmcp` refuses some requests in plain text.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use rmcp::ErrorData;
use rmcp::model::RequestId;
use serde_json::Value;

use crate::Body;
use crate::shared::body::json;

/// Bytes that a request may have besides the arguments that are stored: names, capabilities, the answers of earlier
/// rounds.
const ENVELOPE_BYTES_MAX: usize = 1024 * 1024;

/// The largest request, in bytes.
pub(crate) const BODY_BYTES_MAX: usize = longhaul_core::limits::REQUEST_BYTES_MAX + ENVELOPE_BYTES_MAX;

/// Bytes of a plain text that are repeated in an answer.
const TEXT_BYTES_MAX: usize = 1024;

/// The JSON text of a message that answers with `result`, which is JSON text itself.
pub(crate) fn result_text(id: &RequestId, result: &str) -> String {
    let id = id_text(id);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// The JSON text of a message that answers with an error. The id is left out if the request's could not be read.
pub(crate) fn error_text(id: Option<&RequestId>, error: &ErrorData) -> String {
    let id = id.map(|id| format!(r#""id":{},"#, id_text(id))).unwrap_or_default();
    let message = Value::from(&*error.message);
    let data = error.data.as_ref().map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":{},"message":{message}{data}}}}}"#, error.code.0)
}

/// The JSON text of a request's id.
pub(crate) fn id_text(id: &RequestId) -> String {
    match id {
        RequestId::Number(id) => id.to_string(),
        RequestId::String(id) => Value::from(&**id).to_string(),
    }
}

/// A result, which is JSON text.
pub(crate) fn result(id: &RequestId, result: &str) -> Response<Body> {
    json(StatusCode::OK, result_text(id, result))
}

/// An error of a method, with status 200: older revisions know no other status for it.
pub(crate) fn error(id: &RequestId, error: &ErrorData) -> Response<Body> {
    error_with(StatusCode::OK, Some(id), error)
}

/// The result or the error.
pub(crate) fn outcome(id: &RequestId, outcome: Result<String, ErrorData>) -> Response<Body> {
    match outcome {
        Ok(text) => result(id, &text),
        Err(failed) => error(id, &failed),
    }
}

/// A message was accepted, and there is no answer to it.
pub(crate) fn accepted() -> Response<Body> {
    let mut response = Response::new(http_body_util::Empty::new().boxed_unsync());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// An error with this status.
pub(crate) fn error_with(status: StatusCode, id: Option<&RequestId>, error: &ErrorData) -> Response<Body> {
    json(status, error_text(id, error))
}

/// The transport supports only `POST`.
pub(crate) fn method_not_allowed() -> Response<Body> {
    let error = ErrorData::invalid_request("the MCP endpoint accepts only POST", None);
    let mut response = error_with(StatusCode::METHOD_NOT_ALLOWED, None, &error);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Whether the answer is JSON, rather than a stream.
pub(crate) fn is_json(answer: &Response<Body>) -> bool {
    answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// The whole of a body.
pub(crate) async fn read(body: Body) -> Bytes {
    match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    }
}

/// A body of these bytes.
pub(crate) fn body(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed_unsync()
}

/// Whether a JSON-RPC client can read this answer of `rmcp`.
pub(crate) fn speaks_json_rpc(answer: &Response<Body>) -> bool {
    let failed = answer.status().is_client_error() || answer.status().is_server_error();
    !failed || is_json(answer)
}

/// The same refusal, in JSON-RPC.
pub(crate) async fn as_json_rpc(refused: Response<Body>, id: Option<&RequestId>) -> Response<Body> {
    let status = refused.status();
    let text = read(refused.into_body()).await;
    let text = longhaul_core::limits::cut(&String::from_utf8_lossy(&text), TEXT_BYTES_MAX);
    if status.is_server_error() {
        tracing::error!(%status, text, "rmcp could not answer");
        return error_with(status, id, &ErrorData::internal_error("the server could not answer", None));
    }
    error_with(status, id, &ErrorData::invalid_request(text, None))
}
