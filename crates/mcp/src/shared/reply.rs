//! Answers that this crate makes itself, always in JSON-RPC: `rmcp` refuses some requests in plain text.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use longhaul_core::strict_json;
use rmcp::ErrorData;
use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::Value;

use crate::revision::Generation;
use crate::shared::errors;

/// The body of an answer: all its bytes at once, or a stream of events.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The same body, which holds `guard` until its end.
pub(crate) fn holding<G: Send + Unpin + 'static>(body: Body, guard: G) -> Body {
    Holding { body, _guard: guard }.boxed_unsync()
}

struct Holding<G> {
    body: Body,
    _guard: G,
}

impl<G: Send + Unpin> http_body::Body for Holding<G> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

pub(crate) fn json(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

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

pub(crate) fn id_text(id: &RequestId) -> String {
    match id {
        RequestId::Number(id) => id.to_string(),
        RequestId::String(id) => Value::from(&**id).to_string(),
    }
}

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

pub(crate) async fn read(body: Body) -> Bytes {
    match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    }
}

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

/// No refusal is longer than this: answers that are, are not looked at.
const REFUSAL_BYTES_MAX: u64 = 4 * 1024;

/// What every such refusal contains.
const MARK: &[u8] = b"\"retryAfterMs\":";

#[derive(Deserialize)]
struct Refusal {
    error: Failed,
}

#[derive(Deserialize)]
struct Failed {
    code: i32,
    data: When,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct When {
    retry_after_ms: u64,
}

/// The answer, with the header and the status of a refusal if it is one. The status is 429 where clients read the error
/// of such an answer: those of `2026-07-28`. Older ones get 200, as for all errors of a method: the Python SDK before
/// version 2 closes the whole connection when it gets a 429.
pub(crate) async fn with_retry_after(answer: Response<Body>, generation: Generation) -> Response<Body> {
    let is_short = answer.body().size_hint().upper().is_some_and(|bytes| bytes <= REFUSAL_BYTES_MAX);
    if !is_short || !is_json(&answer) {
        return answer;
    }
    let (parts, read_body) = answer.into_parts();
    let text = read(read_body).await;
    let retry_ms = retry_ms(&text);
    let mut answer = Response::from_parts(parts, body(text));
    let Some(retry_ms) = retry_ms else { return answer };
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_ms.div_ceil(1_000)));
    if generation == Generation::PerRequest {
        *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    answer
}

fn retry_ms(text: &Bytes) -> Option<u64> {
    if !text.windows(MARK.len()).any(|part| part == MARK) {
        return None;
    }
    let Refusal { error } = strict_json::from_slice(text).ok()?;
    (error.code == errors::TOO_MUCH_FOR_NOW.0).then_some(error.data.retry_after_ms)
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestId;
    use serde_json::json;

    use super::*;

    async fn announced_to(generation: Generation, text: String) -> (u16, Option<String>, Bytes) {
        let answer = with_retry_after(json(StatusCode::OK, text), generation).await;
        let after = answer.headers().get(RETRY_AFTER).map(|after| after.to_str().unwrap().to_owned());
        (answer.status().as_u16(), after, read(answer.into_body()).await)
    }

    #[test]
    fn a_refusal_says_when_to_come_again_in_whole_seconds() {
        let error = errors::too_much_for_now("polls", "too many".to_owned(), 1_001);
        let text = error_text(Some(&RequestId::Number(7)), &error);
        longhaul_testkit::block_on(async {
            for (generation, status) in [(Generation::PerRequest, 429), (Generation::Handshake, 200)] {
                let announced = announced_to(generation, text.clone()).await;
                assert_eq!(announced, (status, Some("2".to_owned()), text.clone().into()));
            }
        });
    }

    #[test]
    fn nothing_else_is_changed() {
        let of_a_tool = json!({"jsonrpc": "2.0", "id": 1, "result": {"retryAfterMs": 5}});
        let other_code = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "data": {"retryAfterMs": 5}}});
        let long = json!({"jsonrpc": "2.0", "id": 1, "result": "\"retryAfterMs\":5".repeat(1_000)});
        longhaul_testkit::block_on(async {
            for text in [of_a_tool, other_code, long].map(|text| text.to_string()) {
                let announced = announced_to(Generation::PerRequest, text.clone()).await;
                assert_eq!(announced, (200, None, text.into()));
            }
        });
    }
}
