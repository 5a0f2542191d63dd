//! How much memory requests and attempts may use for their input.
//!
//! Requests and attempts have a share each, so that neither has to wait for the other. A request that costs little
//! takes nothing, so that polls are answered while large calls wait.
//!
//! A short text can make a large tree: `{"":0},` has 7 bytes and costs more than 600 as a map in a list. So every body
//! is weighed before it is parsed, in one pass that allocates nothing and validates nothing. For a text that is not
//! JSON, the weight is some number, and the parser reports the error.

use std::sync::Arc;

use http::header::{HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use longhaul_core::{Clock, limits, strict_json};
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Body;
use crate::admission::weight::{DEPTH_MAX, Weight};
use crate::reply::{self, holding};

const REQUESTS_BYTES_MAX: usize = 48 * 1024 * 1024;

/// Bytes that one request may use. A permit of the semaphore is a KiB.
const REQUEST_BYTES_MAX: usize = limits::REQUEST_MEMORY_BYTES_MAX;

/// Bytes that all attempts together may use for their arguments.
const ATTEMPTS_BYTES_MAX: usize = 48 * 1024 * 1024;

/// A request that costs no more is not counted.
const FREE_BYTES_MAX: usize = 64 * 1024;

const WAIT_MS: u64 = 5_000;

/// When a client should try again.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("2");

/// The code of JSON-RPC for errors of the server's own.
const BUSY: ErrorCode = ErrorCode(-32_000);

/// The longest id that a refusal repeats.
const ID_BYTES_MAX: usize = 256;

pub(crate) struct Memory {
    requests: Arc<Semaphore>,
    attempts: Arc<Semaphore>,
    journals: Arc<Semaphore>,
}

impl Default for Memory {
    fn default() -> Self {
        let share = |bytes: usize| Arc::new(Semaphore::new(bytes / 1024));
        Self { requests: share(REQUESTS_BYTES_MAX), attempts: share(ATTEMPTS_BYTES_MAX), journals: share(1024) }
    }
}

/// Memory that a request or an attempt may use until this is dropped.
pub(crate) struct Held(Option<OwnedSemaphorePermit>);

impl Memory {
    /// Waits until there is memory to read `body`. Fails with the answer to a request that would use too much, or for
    /// which there is no memory within a few seconds.
    pub(crate) async fn admit(&self, body: &[u8], clock: &dyn Clock) -> Result<Held, Response<Body>> {
        let weight = Weight::of(body);
        if weight.depth > DEPTH_MAX {
            let message = format!("the request's JSON is nested deeper than {DEPTH_MAX} levels");
            return Err(refuse(StatusCode::BAD_REQUEST, &ErrorData::parse_error(message, None), body));
        }
        let cost = weight.cost();
        if cost > REQUEST_BYTES_MAX {
            let message = format!(
                "reading the request's JSON would take {} MiB of memory, and at most {} are allowed: it has too many \
                 values. Send large data as one string (such as CSV or JSON text), as a URL, or in several calls",
                cost.div_ceil(1024 * 1024),
                REQUEST_BYTES_MAX / (1024 * 1024)
            );
            return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &ErrorData::invalid_request(message, None), body));
        }
        if cost <= FREE_BYTES_MAX {
            return Ok(Held::NOTHING);
        }
        let permit = Arc::clone(&self.requests).acquire_many_owned(kib(cost));
        tokio::select! {
            biased;
            // The semaphore is never closed.
            permit = permit => Ok(Held(permit.ok())),
            () = clock.sleep_ms(WAIT_MS) => Err(busy(body)),
        }
    }

    /// Memory for an attempt with these arguments; `None` if others use it now. An attempt does not wait for it: it
    /// would hold its worker, and what waits behind it.
    pub(crate) fn for_attempt(&self, request: &str) -> Option<Held> {
        let bytes = Weight::of(request.as_bytes()).cost();
        if bytes <= FREE_BYTES_MAX {
            return Some(Held::NOTHING);
        }
        let permits = kib(bytes.min(ATTEMPTS_BYTES_MAX));
        Arc::clone(&self.attempts).try_acquire_many_owned(permits).ok().map(|permit| Held(Some(permit)))
    }

    /// Waits until no other request reads a journal, which may take [`limits::ENTRIES_MAX`] times
    /// [`limits::ENTRY_INLINE_BYTES_MAX`]; `None` if that takes too long.
    pub(crate) async fn for_journal(&self, clock: &dyn Clock) -> Option<Held> {
        tokio::select! {
            biased;
            permit = Arc::clone(&self.journals).acquire_owned() => Some(Held(permit.ok())),
            () = clock.sleep_ms(WAIT_MS) => None,
        }
    }
}

impl Held {
    const NOTHING: Self = Self(None);

    /// The same answer, which holds this until its body has ended.
    pub(crate) fn until_end_of(self, answer: Response<Body>) -> Response<Body> {
        if self.0.is_none() {
            return answer;
        }
        answer.map(|body| holding(body, self))
    }
}

fn busy(body: &[u8]) -> Response<Body> {
    let message = "the server has no memory left for a request of this size; send it again in a few seconds";
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, &ErrorData::new(BUSY, message, None), body);
    response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_S);
    response
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// A refusal with the request's id, if it can be found without building anything from the rest.
pub(crate) fn refuse(status: StatusCode, error: &ErrorData, body: &[u8]) -> Response<Body> {
    let id = strict_json::from_slice::<Named<'_>>(body).ok().and_then(|named| named.id);
    let id = id.filter(|id| id.get().len() <= ID_BYTES_MAX);
    let id = id.and_then(|id| strict_json::from_str::<RequestId>(id.get()).ok());
    tracing::info!(%status, "a request was refused: {}", error.message);
    reply::error_with(status, id.as_ref(), error)
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}
