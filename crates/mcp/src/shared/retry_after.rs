//! Refusals of what is too much for now, in HTTP: `Retry-After` says in seconds what the error says in milliseconds.
//!
//! The status is 429 where clients read the error of such an answer: those of `2026-07-28`. Older ones get 200, as for
//! all errors of a method: the Python SDK before version 2 closes the whole connection when it gets a 429.

use bytes::Bytes;
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Body as _;
use serde::Deserialize;

use crate::Body;
use crate::revision::Generation;
use crate::shared::{errors, reply};

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

/// The answer, with the header and the status of a refusal if it is one.
pub(crate) async fn announced(answer: Response<Body>, generation: Generation) -> Response<Body> {
    let is_short = answer.body().size_hint().upper().is_some_and(|bytes| bytes <= REFUSAL_BYTES_MAX);
    if !is_short || !reply::is_json(&answer) {
        return answer;
    }
    let (parts, body) = answer.into_parts();
    let text = reply::read(body).await;
    let retry_ms = retry_ms(&text);
    let mut answer = Response::from_parts(parts, reply::body(text));
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
    let Refusal { error } = serde_json::from_slice(text).ok()?;
    (error.code == errors::TOO_MUCH_FOR_NOW.0).then_some(error.data.retry_after_ms)
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestId;
    use serde_json::json;

    use super::*;
    use crate::shared::body::json as answer;

    async fn announced_to(generation: Generation, text: String) -> (u16, Option<String>, Bytes) {
        let answer = announced(answer(StatusCode::OK, text), generation).await;
        let after = answer.headers().get(RETRY_AFTER).map(|after| after.to_str().unwrap().to_owned());
        (answer.status().as_u16(), after, reply::read(answer.into_body()).await)
    }

    #[test]
    fn a_refusal_says_when_to_come_again_in_whole_seconds() {
        let error = errors::too_much_for_now("polls", "too many".to_owned(), 1_001);
        let text = reply::error_text(Some(&RequestId::Number(7)), &error);
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
