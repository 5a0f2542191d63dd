//! Answers that say no, always in JSON-RPC: `rmcp` says some of them in plain text.

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use rmcp::ErrorData;
use rmcp::model::RequestId;
use serde::Serialize;

use crate::Body;
use crate::body::json;

/// Bytes of a plain text that are told on.
const TEXT_BYTES_MAX: usize = 1024;

#[derive(Serialize)]
struct Refused<'a> {
    jsonrpc: &'static str,
    /// Left out where the request's could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RequestId>,
    error: &'a ErrorData,
}

pub(super) fn answer(status: StatusCode, id: Option<&RequestId>, error: &ErrorData) -> Response<Body> {
    let refused = Refused { jsonrpc: "2.0", id, error };
    json(status, serde_json::to_string(&refused).unwrap_or_default())
}

/// The transport knows `POST` alone.
pub(super) fn method_not_allowed() -> Response<Body> {
    let error = ErrorData::invalid_request("the MCP endpoint takes POST", None);
    let mut response = answer(StatusCode::METHOD_NOT_ALLOWED, None, &error);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Whether an answer of `rmcp` is one that a JSON-RPC client can read.
pub(super) fn speaks_json_rpc(answer: &Response<Body>) -> bool {
    let failed = answer.status().is_client_error() || answer.status().is_server_error();
    let is_json =
        answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    !failed || is_json
}

/// The same refusal in JSON-RPC.
pub(super) async fn reworded(refused: Response<Body>, id: Option<&RequestId>) -> Response<Body> {
    let status = refused.status();
    let text = match refused.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    };
    let text = longhaul_core::limits::cut(&String::from_utf8_lossy(&text), TEXT_BYTES_MAX);
    if status.is_server_error() {
        tracing::error!(%status, text, "rmcp could not answer");
        return answer(status, id, &ErrorData::internal_error("the server could not answer", None));
    }
    answer(status, id, &ErrorData::invalid_request(text, None))
}
