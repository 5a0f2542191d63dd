//! Answers that Lambda delivers as a whole. It takes such an answer as a string within a JSON object, and refuses one
//! that has too many bytes in that form. The caller would get nothing but "internal server error".

use std::pin::Pin;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use lambda_http::IntoResponse;
use longhaul_core::strict_json;
use longhaul_mcp::Body;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

/// The largest answer of one invocation, in bytes.
pub(crate) const ANSWER_BYTES_MAX: usize = 6_291_556;

/// Bytes around headers and body: `{"statusCode":200,"headers":{},"multiValueHeaders":{},"body":"","isBase64Encoded":
/// false,"cookies":[]}`, with some to spare.
const ENVELOPE_BYTES: usize = 256;

/// Bytes around a header's name and value: `"":"",`.
const HEADER_BYTES: usize = 6;

#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
}

/// An answer that is delivered as a whole. Without this, `lambda_http` would decode it from any character set that it
/// names. The tables for that make the function 150 kB larger, and these answers are UTF-8.
pub(crate) struct Whole(pub(crate) Response<Body>);

impl IntoResponse for Whole {
    fn into_response(self) -> Pin<Box<dyn Future<Output = Response<lambda_http::Body>> + Send>> {
        Box::pin(async move {
            let (head, body) = self.0.into_parts();
            let body = match String::from_utf8(read(body).await.into()) {
                Ok(text) => lambda_http::Body::Text(text),
                Err(no_text) => lambda_http::Body::Binary(no_text.into_bytes()),
            };
            Response::from_parts(head, body)
        })
    }
}

/// The answer, or if it is too large, an error for each request in `asked` that expects an answer.
pub(crate) async fn deliverable(answer: Response<Body>, asked: &[u8]) -> Response<Body> {
    let (mut head, body) = answer.into_parts();
    let body = read(body).await;
    let bytes = delivered_bytes(&head.headers, &body);
    if bytes <= ANSWER_BYTES_MAX {
        return Response::from_parts(head, whole(body));
    }
    tracing::warn!(bytes, bytes_max = ANSWER_BYTES_MAX, "an answer is too large to be delivered as a whole");
    head.status = StatusCode::OK;
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(head, whole(refusal(asked, bytes).into()))
}

async fn read(body: Body) -> Bytes {
    match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    }
}

fn whole(body: Bytes) -> Body {
    Full::new(body).boxed_unsync()
}

/// The answer to one request, or to a batch of them.
fn refusal(asked: &[u8], bytes: usize) -> String {
    let error = json!({
        "code": -32603,
        "message": format!(
            "the answer has {bytes} bytes in the form in which this endpoint sends it, and AWS Lambda delivers at most \
             {ANSWER_BYTES_MAX} as a whole. An endpoint that streams can deliver it: deploy with the parameter \
             Endpoint=function-url or Endpoint=rest-api"
        ),
        "data": {"reason": "answer_too_large", "bytes": bytes, "bytesMax": ANSWER_BYTES_MAX},
    });
    let answer = |id: &RawValue| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
    if asked.trim_ascii_start().starts_with(b"[") {
        let batch: Vec<&RawValue> = strict_json::from_slice(asked).unwrap_or_else(|_unreadable| Vec::new());
        let answers: Vec<_> = batch.into_iter().filter_map(|asked| id(asked.get().as_bytes())).map(answer).collect();
        return format!("[{}]", answers.join(","));
    }
    // A request that could not be read was answered with less than this.
    id(asked).map_or_else(|| format!(r#"{{"jsonrpc":"2.0","error":{error}}}"#), answer)
}

/// The id of a request.
fn id(asked: &[u8]) -> Option<&RawValue> {
    strict_json::from_slice::<Asked<'_>>(asked).ok()?.id
}

/// How many bytes Lambda counts, or a few more.
fn delivered_bytes(headers: &HeaderMap, body: &[u8]) -> usize {
    let header = |(name, value): (&http::HeaderName, &HeaderValue)| {
        name.as_str().len() + escaped_bytes(value.as_bytes()) + HEADER_BYTES
    };
    // A body that is not text is sent in base64.
    let body = if str::from_utf8(body).is_ok() { escaped_bytes(body) } else { body.len().div_ceil(3) * 4 };
    ENVELOPE_BYTES + headers.iter().map(header).sum::<usize>() + body
}

/// How many bytes a text has within a JSON text, without its quotation marks.
fn escaped_bytes(text: &[u8]) -> usize {
    text.iter().map(|byte| escaped_byte(*byte)).sum()
}

const fn escaped_byte(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0x00..=0x1f => 6,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_as_many_bytes_as_json_makes_of_it() {
        for character in (0..=0x2ff).filter_map(char::from_u32).chain("\u{2028}→😀".chars()) {
            let text = character.to_string();
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(escaped_bytes(text.as_bytes()) + 2, json.len(), "{character:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_text_stays_as_it_is_and_is_counted_as_base64() {
        let bytes: &[u8] = &[0xff, 0x00, b'"'];
        assert_eq!(delivered_bytes(&HeaderMap::new(), bytes), ENVELOPE_BYTES + 4);
        let sent = Whole(Response::new(whole(Bytes::from_static(bytes)))).into_response().await.into_body();
        assert_eq!(sent, lambda_http::Body::Binary(bytes.to_vec()));
    }

    async fn delivered(kind: &'static str, body: Vec<u8>, asked: &str) -> (String, Bytes) {
        let mut answer = Response::new(whole(body.into()));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let answer = deliverable(answer, asked.as_bytes()).await;
        let kind = answer.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
        (kind, answer.into_body().collect().await.unwrap().to_bytes())
    }

    #[tokio::test]
    async fn an_answer_that_fits_stays_as_it_is() {
        let room = ANSWER_BYTES_MAX - ENVELOPE_BYTES - 64;
        for (kind, body) in [("application/json", vec![b'"'; room / 2]), ("text/event-stream", vec![b' '; room])] {
            assert_eq!(delivered(kind, body.clone(), "").await, (kind.to_owned(), body.into()));
        }
    }

    fn says_what_to_do(answer: &serde_json::Value) {
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("An endpoint that streams can deliver it"), "{message}");
        assert!(answer["error"]["data"]["bytes"].as_u64().unwrap() > 6_291_556);
    }

    #[tokio::test]
    async fn every_request_of_an_answer_that_does_not_fit_gets_the_error() {
        let too_large = || vec![b'"'; ANSWER_BYTES_MAX / 2];
        for (asked, ids) in [
            (r#"{"method":"m","params":{"id":7},"id":"a"}"#, r#"["a"]"#),
            (r#" [{"id":1},{"method":"n"},{"id":"2"}]"#, r#"[1,"2"]"#),
        ] {
            let (kind, body) = delivered("text/event-stream", too_large(), asked).await;
            assert_eq!(kind, "application/json");
            let answers: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let answers = answers.as_array().cloned().unwrap_or_else(|| vec![answers]);
            let answered: Vec<_> = answers.iter().map(|answer| answer["id"].clone()).collect();
            assert_eq!(json!(answered).to_string(), ids);
            answers.iter().for_each(says_what_to_do);
        }
    }
}
