//! Answers, always in JSON-RPC.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use longhaul_core::verbatim::text_of;
use rmcp::ErrorData;
use rmcp::model::RequestId;
use serde_json::Value;

use crate::revision::Generation;

pub(crate) mod errors;
pub(crate) mod sse;

/// The body of an answer: all its bytes at once, or a stream of events.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The same body, which holds `guard` until its end.
pub(crate) fn holding<G: Send + 'static>(body: Body, guard: G) -> Body {
    let held = move |never: Infallible| {
        let _held = &guard;
        never
    };
    body.map_err(held).boxed_unsync()
}

pub(crate) fn json(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The JSON text of a message that answers with `result`, which is JSON text itself.
pub(crate) fn result_text(id: &RequestId, result: &str) -> String {
    let id = id_text(id);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// The JSON text of a message that answers with an error. The id is left out if the request's could not be read.
pub(crate) fn error_text(id: Option<&RequestId>, error: &ErrorData) -> String {
    let id = id.map(|id| format!(r#""id":{},"#, id_text(id))).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0",{id}"error":{}}}"#, error_object_text(error))
}

/// The JSON text of an error.
pub(crate) fn error_object_text(error: &ErrorData) -> String {
    let message = Value::from(&*error.message);
    let data = error.data.as_ref().map(|data| format!(r#","data":{}"#, text_of(data))).unwrap_or_default();
    format!(r#"{{"code":{},"message":{message}{data}}}"#, error.code.0)
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

/// A message was accepted, and there is no answer to it. The SDKs of all languages accept this content type with an
/// empty body. Java's clients refuse the type that a host adds on its own, and they try to read JSON.
pub(crate) fn accepted() -> Response<Body> {
    let mut response = Response::new(http_body_util::Empty::new().boxed_unsync());
    *response.status_mut() = StatusCode::ACCEPTED;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

pub(crate) fn error_with(status: StatusCode, id: Option<&RequestId>, error: &ErrorData) -> Response<Body> {
    let mut answer = json(status, error_text(id, error));
    if let Some(ms) = errors::retry_after_ms(error) {
        answer.extensions_mut().insert(RetryAfter { ms });
    }
    answer
}

/// The transport supports only `POST`.
pub(crate) fn method_not_allowed() -> Response<Body> {
    let error = ErrorData::invalid_request("the MCP endpoint accepts only POST", None);
    let mut response = error_with(StatusCode::METHOD_NOT_ALLOWED, None, &error);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

pub(crate) async fn read(body: Body) -> Bytes {
    match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    }
}

/// When a client may come again whose request is refused for now.
#[derive(Clone, Copy)]
struct RetryAfter {
    ms: u64,
}

/// The answer, with the header and the status of a refusal that ends on its own. The status is 429 for clients of
/// `2026-07-28`, which read the error of such an answer. Older ones get 200, as for all errors of a method. The Python
/// SDK before version 2 closes the whole connection when it gets a 429.
pub(crate) fn with_retry_after(mut answer: Response<Body>, generation: Generation) -> Response<Body> {
    let Some(RetryAfter { ms }) = answer.extensions().get().copied() else { return answer };
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
    if generation == Generation::PerRequest {
        *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn announced_to(generation: Generation, answer: Response<Body>) -> (u16, Option<String>, Bytes) {
        let answer = with_retry_after(answer, generation);
        let after = answer.headers().get(RETRY_AFTER).map(|after| after.to_str().unwrap().to_owned());
        (answer.status().as_u16(), after, read(answer.into_body()).await)
    }

    #[test]
    fn a_refusal_says_when_to_come_again_in_whole_seconds() {
        let refused = errors::too_much_for_now("polls", "too many".to_owned(), 1_001);
        let text = error_text(Some(&RequestId::Number(7)), &refused);
        longhaul_testkit::block_on(async {
            for (generation, status) in [(Generation::PerRequest, 429), (Generation::Handshake, 200)] {
                let announced = announced_to(generation, error(&RequestId::Number(7), &refused)).await;
                assert_eq!(announced, (status, Some("2".to_owned()), text.clone().into()));
            }
        });
    }

    #[test]
    fn an_answer_that_only_looks_like_a_refusal_is_not_changed() {
        let of_a_tool = json(StatusCode::OK, r#"{"jsonrpc":"2.0","id":1,"result":{"retryAfterMs":5}}"#);
        let data = Some(serde_json::json!({"retryAfterMs": 5}));
        let other_code = error(&RequestId::Number(1), &ErrorData::invalid_params("no", data));
        longhaul_testkit::block_on(async {
            for answer in [of_a_tool, other_code] {
                let (status, after, _) = announced_to(Generation::PerRequest, answer).await;
                assert_eq!((status, after), (200, None));
            }
        });
    }
}
