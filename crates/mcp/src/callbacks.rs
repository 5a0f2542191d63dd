//! Callbacks: their tokens, and the answers to requests with one. A token names the task, and has a secret whose hash
//! is in the task's journal. So a token cannot be forged, it is valid for one signal of one task, and every instance
//! verifies it without a key. The token is the right to send its value, for any sender.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use longhaul_core::audit::{Entry, Event, Outcome};
use longhaul_core::{IdSource, OwnerId, TaskId, TaskKey, limits, strict_json};
use longhaul_engine::{SignalError, SignalRecorded};
use serde::de::IgnoredAny;
use serde_json::json;

use crate::Body;
use crate::admission::weight::Weight;
use crate::reply::json as json_body;
use crate::signing::derived;
use crate::state::Shared;

struct Answer(StatusCode, &'static str, Option<u64>);

impl Answer {
    const TAKEN: Self = Self(StatusCode::ACCEPTED, "the value is recorded", None);
    const WRONG: Self = Self(StatusCode::NOT_FOUND, "the callback does not exist, or has expired", None);
    const SECOND: Self = Self(StatusCode::CONFLICT, "a value was sent before; it stays", None);
    const TOO_LATE: Self = Self(StatusCode::GONE, "the task has continued without a value: its wait has expired", None);
    const ENDED: Self = Self(StatusCode::GONE, "the task has ended, and waits for nothing any more", None);
    const NOT_JSON: Self = Self(StatusCode::BAD_REQUEST, "the body must be one JSON value", None);
    const TOO_LARGE: Self = Self(StatusCode::PAYLOAD_TOO_LARGE, "the value is larger than 4 MiB", None);
    const TOO_MANY_VALUES: Self =
        Self(StatusCode::PAYLOAD_TOO_LARGE, "the value has too many parts: send large data as one string", None);
    const UNAVAILABLE: Self =
        Self(StatusCode::SERVICE_UNAVAILABLE, "the value could not be recorded; send it again", Some(2_000));
    const UNREADABLE: Self = Self(
        StatusCode::INTERNAL_SERVER_ERROR,
        "what is stored of the task cannot be read; do not send the value again",
        None,
    );

    fn into_response(self) -> Response<Body> {
        let Self(status, what, retry_after_ms) = self;
        let body = if status.is_success() { json!({"status": what}) } else { json!({"error": what}) };
        let mut answer = json_body(status, body.to_string());
        if let Some(ms) = retry_after_ms {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
        }
        answer
    }
}

/// The answer to a request with this value and this token.
pub(crate) async fn answer(shared: &Shared, token: &str, value: &[u8]) -> Response<Body> {
    let Some(token) = CallbackToken::read(token) else { return Answer::WRONG.into_response() };
    let answer = take(shared, &token, value).await;
    log(&token.task, &answer);
    answer.into_response()
}

/// The entry in the audit log.
fn log(task: &TaskKey, answer: &Answer) {
    let entry = |outcome| Entry::new(Event::Callback, outcome).task(task);
    match answer.0 {
        StatusCode::ACCEPTED => entry(Outcome::Done).log(),
        StatusCode::CONFLICT | StatusCode::GONE => entry(Outcome::Unchanged).log(),
        StatusCode::NOT_FOUND => entry(Outcome::NotFound).log(),
        StatusCode::PAYLOAD_TOO_LARGE => entry(Outcome::Refused).because("too_large").log(),
        StatusCode::BAD_REQUEST => entry(Outcome::Refused).because("not_json").log(),
        StatusCode::TOO_MANY_REQUESTS => entry(Outcome::Refused).because("too_many_requests").log(),
        _ => entry(Outcome::Unavailable).log(),
    }
}

async fn take(shared: &Shared, token: &CallbackToken, value: &[u8]) -> Answer {
    if let Err(retry_after_ms) = shared.callback_rate.count(&token.task, shared.engine.ports().clock.now()) {
        return Answer(StatusCode::TOO_MANY_REQUESTS, "too many requests for this task", Some(retry_after_ms));
    }
    let value = match value_of(value) {
        Ok(value) => value,
        Err(answer) => return answer,
    };
    match shared.engine.record_signal_by_token(&token.task, &token.hash(), value).await {
        Ok(SignalRecorded::First) => Answer::TAKEN,
        Ok(SignalRecorded::Earlier(_)) => Answer::SECOND,
        Ok(SignalRecorded::TooLate) => Answer::TOO_LATE,
        Err(SignalError::NotFound | SignalError::Name) => Answer::WRONG,
        Err(SignalError::Ended) => Answer::ENDED,
        Err(SignalError::Empty) => Answer::NOT_JSON,
        Err(SignalError::TooLarge { .. }) => Answer::TOO_LARGE,
        Err(SignalError::Unavailable(error)) => {
            let may_pass = error.may_pass();
            let error = &error as &dyn std::error::Error;
            tracing::warn!(task_id = %token.task.id, error, "a callback could not be recorded");
            if may_pass { Answer::UNAVAILABLE } else { Answer::UNREADABLE }
        }
    }
}

/// The value in a body: one JSON text, which a tool can read without more memory than a request may use.
fn value_of(body: &[u8]) -> Result<&str, Answer> {
    if body.len() > limits::ENTRY_BYTES_MAX {
        return Err(Answer::TOO_LARGE);
    }
    if Weight::of(body).cost() > limits::REQUEST_MEMORY_BYTES_MAX {
        return Err(Answer::TOO_MANY_VALUES);
    }
    let text = std::str::from_utf8(body).map_err(|_no_text| Answer::NOT_JSON)?;
    match strict_json::from_str::<IgnoredAny>(text) {
        Ok(_value) => Ok(text),
        Err(_no_json) => Err(Answer::NOT_JSON),
    }
}

const OWNER_BYTES: usize = 32;
const TASK_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;

/// A token. Its text has 107 characters, of letters, digits, `-` and `_`.
pub(crate) struct CallbackToken {
    pub(crate) task: TaskKey,
    secret: [u8; SECRET_BYTES],
}

impl CallbackToken {
    pub(crate) fn random(task: TaskKey, ids: &dyn IdSource) -> Self {
        let mut secret = [0; SECRET_BYTES];
        ids.fill(&mut secret);
        Self { task, secret }
    }

    pub(crate) fn text(&self) -> String {
        let bytes = [self.task.owner.as_bytes().as_slice(), self.task.id.as_bytes().as_slice(), &self.secret].concat();
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The token with this text; `None` if the text cannot be one.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (owner, rest) = bytes.split_first_chunk::<OWNER_BYTES>()?;
        let (task, secret) = rest.split_first_chunk::<TASK_BYTES>()?;
        let task = TaskKey::new(OwnerId::from_bytes(*owner), TaskId::from_bytes(*task).ok()?);
        Some(Self { task, secret: secret.try_into().ok()? })
    }

    pub(crate) fn hash(&self) -> String {
        derived::digits(derived::hash(&[b"callback", &self.secret]))
    }
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::{SeededIds, given};

    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_handed_out_and_nothing_else_is() {
        let ids = SeededIds::new(1);
        let token = CallbackToken::random(given::task(&ids, given::owner("alice"), given::NOW).key(), &ids);
        let text = token.text();
        assert_eq!(text.len(), 107);
        let read = CallbackToken::read(&text).unwrap();
        assert_eq!((read.task, read.hash()), (token.task, token.hash()));
        assert_ne!(CallbackToken::random(token.task, &ids).hash(), token.hash());
        for wrong in [
            "",
            "x",
            "/",
            &text[1..],
            &format!("{text}A"),
            &format!("{text}="),
            &text.replace(char::is_alphabetic, "%"),
        ] {
            assert!(CallbackToken::read(wrong).is_none(), "{wrong}");
        }
    }
}
