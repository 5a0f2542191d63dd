//! Batches: several messages in one request, which only MCP `2025-03-26` has. Each message is handled as if it had come
//! alone; this module takes batches apart, and puts the answers together.
//!
//! The answer is one array, unless one of the answers is a stream. Then it is one stream of all of them, each sent as
//! soon as it is there. Nothing is spawned: dropping the answer drops the handling of all messages.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use longhaul_core::{limits, strict_json};
use rmcp::ErrorData;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::Body;
use crate::reply::sse::{self, Frames};
use crate::reply::{self, json};

/// The only revision that has batches.
pub(super) const REVISION: &str = "2025-03-26";

pub(super) const MESSAGES_MAX: usize = 50;

/// Bytes of an event that has not ended, at most: the longest result, and what is around it.
const EVENT_BYTES_MAX: usize = 2 * limits::BODY_BYTES_MAX;

pub(super) fn is_batch(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'[')
}

/// The messages of a batch, each as its own bytes. Fails with `-32700` for a body that is not JSON, `-32600` for an
/// empty batch and one that is too long.
pub(super) fn messages(body: &Bytes) -> Result<Vec<Bytes>, ErrorData> {
    let First { messages, are_more } =
        strict_json::from_slice(body).map_err(|error| ErrorData::parse_error(format!("not JSON: {error}"), None))?;
    if are_more {
        let message = format!("a batch may have at most {MESSAGES_MAX} messages; send the others in another one");
        return Err(ErrorData::invalid_request(message, None));
    }
    if messages.is_empty() {
        return Err(ErrorData::invalid_request("a batch must have at least one message", None));
    }
    Ok(messages.into_iter().map(|message| body.slice_ref(message.get().as_bytes())).collect())
}

/// The first messages of a batch. The rest is read, and not kept.
struct First<'a> {
    messages: Vec<&'a RawValue>,
    are_more: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for First<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Messages)
    }
}

struct Messages;

impl<'de> Visitor<'de> for Messages {
    type Value = First<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<First<'de>, A::Error> {
        let mut messages = Vec::new();
        while messages.len() < MESSAGES_MAX {
            match array.next_element()? {
                Some(message) => messages.push(message),
                None => return Ok(First { messages, are_more: false }),
            }
        }
        let mut are_more = false;
        while array.next_element::<IgnoredAny>()?.is_some() {
            are_more = true;
        }
        Ok(First { messages, are_more })
    }
}

pub(super) struct Answering {
    pub(super) answer: BoxFuture<'static, Response<Body>>,
    pub(super) kind: Kind,
}

/// Whether a message wants an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    /// A notification, an answer to a request of the server, or something that cannot be read.
    Other,
}

/// The answer to a batch: to its requests in their order, and to the messages that were refused.
pub(super) async fn answer(answering: Vec<Answering>) -> Response<Body> {
    let has_requests = answering.iter().any(|one| one.kind == Kind::Request);
    let numbered = answering.into_iter().enumerate();
    let mut pending: Pending = numbered
        .map(|(number, one)| -> BoxFuture<'static, _> { Box::pin(async move { (number, one.answer.await) }) })
        .collect();
    let mut texts = BTreeMap::new();
    while let Some((number, answer)) = pending.next().await {
        if sse::is_stream(&answer) {
            let open = vec![Open::new(answer.into_body())];
            return sse::stream(None, Merged { pending, open, queue: texts.into_values().map(sse::event).collect() });
        }
        let text = reply::read(answer.into_body()).await;
        if !text.is_empty() {
            texts.insert(number, text);
        }
    }
    if texts.is_empty() {
        return reply::accepted();
    }
    let texts: Vec<Bytes> = texts.into_values().collect();
    let all = [b"[".as_slice(), &texts.join(b",".as_slice()), b"]"].concat();
    json(if has_requests { StatusCode::OK } else { StatusCode::BAD_REQUEST }, all)
}

type Pending = FuturesUnordered<BoxFuture<'static, (usize, Response<Body>)>>;

struct Merged {
    pending: Pending,
    open: Vec<Open>,
    queue: VecDeque<Bytes>,
}

/// A stream that is part of another one.
struct Open {
    body: Body,
    /// The beginning of an event whose end has not come yet.
    begun: Vec<u8>,
}

impl Open {
    const fn new(body: Body) -> Self {
        Self { body, begun: Vec::new() }
    }

    /// The next whole events; `None` after the last one.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let frame = match self.body.frame().await? {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                Err(never) => match never {},
            };
            self.begun.extend_from_slice(&frame);
            let end = self.begun.windows(2).rposition(|pair| pair == b"\n\n").map(|start| start + 2);
            if let Some(end) = end {
                let rest = self.begun.split_off(end);
                return Some(std::mem::replace(&mut self.begun, rest).into());
            }
            if self.begun.len() > EVENT_BYTES_MAX {
                return None;
            }
        }
    }
}

impl Frames for Merged {
    /// The next events, of whichever answer has some; `None` when all answers have ended.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.queue.pop_front() {
                return Some(frame);
            }
            if self.open.is_empty() && self.pending.is_empty() {
                return None;
            }
            tokio::select! {
                Some((_, answer)) = self.pending.next() => self.take(answer).await,
                (number, events) = first_of(&mut self.open), if !self.open.is_empty() => match events {
                    Some(events) => return Some(events),
                    None => drop(self.open.swap_remove(number)),
                },
            }
        }
    }
}

impl Merged {
    async fn take(&mut self, answer: Response<Body>) {
        if sse::is_stream(&answer) {
            self.open.push(Open::new(answer.into_body()));
            return;
        }
        let text = reply::read(answer.into_body()).await;
        if !text.is_empty() {
            self.queue.push_back(sse::event(text));
        }
    }
}

/// The next events of the stream that is the first to have some, and its number.
async fn first_of(open: &mut [Open]) -> (usize, Option<Bytes>) {
    let next = open.iter_mut().enumerate().map(|(number, open)| Box::pin(async move { (number, open.next().await) }));
    futures::future::select_all(next).await.0
}
