//! How much memory requests and attempts may use for what was sent to them.
//!
//! Requests and attempts have a share each, so that neither has to wait for the other. A request that costs little
//! takes nothing, so that polls are answered while large calls wait.
//!
//! A short text can make a large tree: `{"":0},` has 7 bytes and costs more than 600 as a map in a list. So every body
//! is weighed before it is parsed, in one pass that allocates nothing and validates nothing: of a text that is not
//! JSON, some number comes out, and the parser says what is wrong.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures::future::poll_fn;
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use longhaul_core::{Clock, limits};
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, RequestId};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Body;
use crate::shared::reply::{self, holding};

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

impl Held {
    const NOTHING: Self = Self(None);

    fn shrink_to(&mut self, bytes: usize) {
        let Some(permit) = &mut self.0 else { return };
        let spare = permit.num_permits().saturating_sub(kib(bytes) as usize);
        drop(permit.split(spare));
    }
}

/// What a request may use, and what it will use after it was read.
pub(crate) struct Admitted {
    held: Held,
    kept: usize,
}

impl Memory {
    /// Waits until there is memory to read `body`. Fails with the answer to a request that would use too much, or for
    /// which there is no memory within a few seconds.
    pub(crate) async fn admit(&self, body: &[u8], clock: &dyn Clock) -> Result<Admitted, Response<Body>> {
        let weight = Weight::of(body);
        if weight.depth > DEPTH_MAX {
            let message = format!("the request's JSON is nested deeper than {DEPTH_MAX} levels");
            return Err(refuse(StatusCode::BAD_REQUEST, &ErrorData::parse_error(message, None), body));
        }
        if weight.peak > REQUEST_BYTES_MAX {
            let message = format!(
                "reading the request's JSON would take {} MiB of memory, and at most {} are allowed: it has too many \
                 values. \
                 Send large data as one string (such as CSV or JSON text), as a URL, or in several calls",
                weight.peak.div_ceil(1024 * 1024),
                REQUEST_BYTES_MAX / (1024 * 1024)
            );
            return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &ErrorData::invalid_request(message, None), body));
        }
        if weight.peak <= FREE_BYTES_MAX {
            return Ok(Admitted { held: Held::NOTHING, kept: 0 });
        }
        let permit = Arc::clone(&self.requests).acquire_many_owned(kib(weight.peak));
        tokio::select! {
            biased;
            // The semaphore is never closed.
            permit = permit => Ok(Admitted { held: Held(permit.ok()), kept: weight.kept }),
            () = clock.sleep_ms(WAIT_MS) => Err(busy(body)),
        }
    }

    /// Waits until there is memory for an attempt with these arguments, for as long as it takes: the attempt is counted
    /// from then on.
    pub(crate) async fn for_attempt(&self, request: &str) -> Held {
        let bytes = Weight::of(request.as_bytes()).kept;
        if bytes <= FREE_BYTES_MAX {
            return Held::NOTHING;
        }
        let permits = kib(bytes.min(ATTEMPTS_BYTES_MAX));
        Held(Arc::clone(&self.attempts).acquire_many_owned(permits).await.ok())
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

impl Admitted {
    /// Answers a request: it is read when `answer` is first polled, and what only reading needs is given back after
    /// that; the rest when the body of the answer has ended.
    pub(crate) async fn during(mut self, mut answer: Pin<Box<impl Future<Output = Response<Body>>>>) -> Response<Body> {
        let first = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
        self.held.shrink_to(self.kept);
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => answer.await,
        };
        if self.held.0.is_none() {
            return answer;
        }
        let held = self.held;
        answer.map(|body| holding(body, held))
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
fn refuse(status: StatusCode, error: &ErrorData, body: &[u8]) -> Response<Body> {
    let id = serde_json::from_slice::<Named<'_>>(body).ok().and_then(|named| named.id);
    let id = id.filter(|id| id.get().len() <= ID_BYTES_MAX);
    let id = id.and_then(|id| serde_json::from_str::<RequestId>(id.get()).ok());
    tracing::info!(%status, "a request was refused: {}", error.message);
    reply::error_with(status, id.as_ref(), error)
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// The deepest nesting that is read: the parser has the same limit.
const DEPTH_MAX: usize = 127;

// These numbers are upper bounds; the tests compare them with what the allocator counts.

/// What the allocator adds to an allocation, with what it rounds up.
const ALLOCATION: usize = 24;

/// A value in a list, which may have reserved room for twice as many.
const ELEMENT: Cost = Cost { tree: 2 * size_of::<Value>(), passing: 192 };

/// A list with its first value: the shortest list has room for four.
const LIST: Cost = Cost { tree: 6 * size_of::<Value>() + ALLOCATION, passing: 448 };

/// A map that is not empty, without its members.
const MAP: Cost = Cost { tree: 512, passing: 192 };

/// A member of a map: with its map, enough for the first node, which has room for 11 members, and for further nodes,
/// which are half full if members arrive in the order of their names.
const MEMBER: Cost = Cost { tree: 128, passing: 352 };

/// How many intermediate copies are made of a string with an escape in it. Other strings are not copied.
const ESCAPED_COPIES: usize = 6;

/// Copies of the whole text: as it is stored, and on its way to the store.
const TEXT_COPIES: usize = 2;

/// What a JSON text costs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// The tree of values, as long as it exists; with copies of the text.
    pub(crate) kept: usize,
    /// At its peak: before `rmcp` knows what kind of message it reads, it makes intermediate trees, which exist at the
    /// same time as the last one.
    pub(crate) peak: usize,
    /// How many levels of lists and maps there are.
    pub(crate) depth: usize,
}

/// What one part of a text costs: in the tree, and in intermediate ones.
#[derive(Clone, Copy)]
struct Cost {
    tree: usize,
    passing: usize,
}

impl Weight {
    pub(crate) fn of(json: &[u8]) -> Self {
        let mut weight = Self::default();
        weight.add(Cost { tree: json.len().saturating_mul(TEXT_COPIES), passing: 0 });
        // The bit of a level says whether it is a map. What is deeper than the limit is refused.
        let (mut depth, mut maps, mut rest) = (0_usize, 0_u128, json);
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'"' => rest = weight.string(after),
                b'{' | b'[' => {
                    depth += 1;
                    weight.depth = weight.depth.max(depth);
                    let is_map = *byte == b'{';
                    maps = (maps & !level(depth)) | (u128::from(is_map) * level(depth));
                    weight.begin(is_map, after);
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b':' => weight.add(MEMBER),
                b',' if maps & level(depth) == 0 => weight.add(ELEMENT),
                _ => {}
            }
        }
        weight
    }

    const fn add(&mut self, cost: Cost) {
        self.kept = self.kept.saturating_add(cost.tree);
        self.peak = self.peak.saturating_add(cost.tree).saturating_add(cost.passing);
    }

    /// Weighs a map or a list with what comes after its first bracket, unless it is empty.
    fn begin(&mut self, is_map: bool, after: &[u8]) {
        let (cost, end) = if is_map { (MAP, b'}') } else { (LIST, b']') };
        if after.first() != Some(&end) {
            self.add(cost);
        }
    }

    /// Weighs a string whose first quote was read. Returns what comes after it.
    fn string<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let (mut length, mut is_escaped, mut rest) = (0, false, text);
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    rest = after.get(1..).unwrap_or_default();
                }
                _ => {}
            }
            length += 1;
        }
        let tree = length + ALLOCATION;
        self.add(Cost { tree, passing: if is_escaped { tree * ESCAPED_COPIES } else { 0 } });
        rest
    }
}

fn level(depth: usize) -> u128 {
    1 << depth.min(DEPTH_MAX)
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolRequestParams, ClientJsonRpcMessage};
    use serde::de::DeserializeOwned;

    use super::*;

    /// The most bytes that were allocated while `text` was read, whether or not it is what it should be.
    fn peak<T: DeserializeOwned>(text: &str) -> usize {
        let mut read = None;
        let allocated = allocation_counter::measure(|| read = Some(serde_json::from_slice::<T>(text.as_bytes())));
        drop(read);
        usize::try_from(allocated.bytes_max).unwrap()
    }

    fn list(item: &str, length: usize) -> String {
        format!("[{}]", vec![item; length].join(","))
    }

    fn map(length: usize) -> String {
        let members: Vec<_> = (0..length).map(|number| format!("\"{number:06}\":0")).collect();
        format!("{{{}}}", members.join(","))
    }

    fn shapes() -> Vec<String> {
        vec![
            list("1", 100_000),
            list("-1.5e-7", 60_000),
            list("null", 131_072),
            list("[]", 100_000),
            list("{}", 100_000),
            list("[1]", 50_000),
            list("[1,1,1,1,1]", 30_000),
            list("[1,1,1,1,1,1,1,1,1]", 30_000),
            list("[[[[[[[[]]]]]]]]", 20_000),
            list("{\"\":0}", 50_000),
            list("{\"id\":1,\"name\":\"ab\",\"x\":1.5}", 20_000),
            list("{\"a\":{\"a\":{\"a\":0}}}", 20_000),
            list("{\"a\":[{\"a\":[]}]}", 20_000),
            list(&map(5), 10_000),
            list(&map(12), 10_000),
            list(&map(40), 3_000),
            map(50_000),
            list("\"\"", 100_000),
            list("\"ab\"", 100_000),
            list("\"\\n\"", 100_000),
            list("\"\\n01234567890123456789\"", 50_000),
            list("\"\\u0001\"", 50_000),
            format!("\"{}\"", "x".repeat(1_000_000)),
            format!("\"{}\"", "line\\n".repeat(200_000)),
            format!("\"{}\"", "\\\\".repeat(500_000)),
        ]
    }

    #[test]
    fn reading_a_message_costs_at_most_what_was_estimated_and_not_many_times_less() {
        for shape in shapes() {
            for (text, max) in [
                (
                    format!(
                        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"a":{shape}}}}}}}"#
                    ),
                    4,
                ),
                (
                    format!(
                        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","_meta":{{"a":{shape}}}}}}}"#
                    ),
                    4,
                ),
                (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"t","params":{{"a":{shape}}}}}"#), 4),
                (format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":{shape}}}}}"#), 4),
                (format!(r#"{{"jsonrpc":"2.0","id":{shape},"method":"tools/call","params":{{}}}}"#), 9),
            ] {
                let (cost, weight) = (peak::<ClientJsonRpcMessage>(&text), Weight::of(text.as_bytes()));
                assert!(cost <= weight.peak, "{cost} > {weight:?}: {text:.120}");
                assert!(weight.peak <= max * cost, "{weight:?} is much more than {cost}: {text:.120}");
            }
        }
    }

    /// A list that is about to outgrow its room exists twice, but the new room is not used yet.
    #[test]
    fn a_tree_costs_at_most_what_was_estimated() {
        for shape in shapes() {
            let text = format!(r#"{{"name":"t","arguments":{{"a":{shape}}}}}"#);
            let (cost, weight) = (peak::<CallToolRequestParams>(&text), Weight::of(text.as_bytes()));
            assert!(cost <= weight.kept, "{cost} > {weight:?}: {text:.120}");
        }
    }

    #[test]
    fn what_is_inside_a_string_is_text() {
        let [text, other] = [r#"{"a":"[[{{\"::,,"}"#, r#"{"a":"xxxx\"xxxx"}"#].map(|text| Weight::of(text.as_bytes()));
        assert_eq!((text.depth, text.peak), (1, other.peak));
    }

    #[test]
    fn depth_is_counted_to_any_depth() {
        assert_eq!(Weight::of("[".repeat(100_000).as_bytes()).depth, 100_000);
        assert_eq!(Weight::of(b"[[],[[{}]],[]]").depth, 4);
        assert_eq!(Weight::of(b"]]]}[").depth, 1);
    }

    /// What is not JSON has some weight too.
    #[test]
    fn garbage_is_weighed() {
        for text in ["", "\"", "\"\\", "{", "}", "\u{0}", ",,,,", "\"\\\"", ":::"] {
            assert!(Weight::of(text.as_bytes()).peak < 2_000, "{text}");
        }
    }
}
