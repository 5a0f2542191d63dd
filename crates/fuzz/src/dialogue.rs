//! Whole conversations through the frontend, the router and every protocol version, with a worker behind.
//!
//! An input is a list of blocks, each after a line `%%`. `work` lets the worker work, and `wait MS` lets time pass. All
//! other blocks are requests: sender, method and path on the first line, headers, an empty line, the body. The words in
//! [`Seen::NAMES`] stand for values of the last answer that had one, so that later blocks can use what earlier ones
//! began.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::future::{Either, select};
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use serde_json::{Value, json};

use crate::driver::drive;
use crate::world::{Answer, NOBODY, TOKEN, World};

/// Blocks of one input that are read.
const BLOCKS_MAX: usize = 10;

/// The longest time that an input may let pass at once: a year.
const WAIT_MS_MAX: u64 = 366 * 86_400_000;

/// The content of another caller's task. No answer to other callers may have it.
const SECRET: &str = "carols-secret-argument";

/// The statuses in which the endpoint answers, as `docs/clients.md` has them.
const STATUSES: [u16; 15] = [200, 202, 204, 400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 429, 503];

/// Runs one conversation.
pub(crate) fn run(input: &[u8]) {
    let world = World::new();
    let clock = std::sync::Arc::clone(&world.clock);
    drive(&clock, async {
        let secret_id = carols_task(&world).await;
        let mut seen = Seen::default();
        for block in blocks(input).take(BLOCKS_MAX) {
            take(&world, &mut seen, block, input, &secret_id).await;
        }
        world.work().await;
    });
}

/// The task of a caller who does not take part.
async fn carols_task(world: &World) -> String {
    let block = call_block("carol", "steps", &json!({"note": SECRET}));
    let answer = world.send(request(block.as_bytes()).unwrap().1).await;
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    let id = answer["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    world.work().await;
    id
}

/// The body of a request as a client of 2026-07-28 with these capabilities sends it.
pub(crate) fn body_of(method: &str, mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// The body of a call by a client that knows tasks.
pub(crate) fn call_of(tool: &str, arguments: &Value) -> Value {
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    body_of("tools/call", json!({"name": tool, "arguments": arguments}), &tasks)
}

/// The block of such a call.
pub(crate) fn call_block(caller: &str, tool: &str, arguments: &Value) -> String {
    let body = call_of(tool, arguments);
    format!(
        "{caller} POST /mcp\ncontent-type: application/json\naccept: application/json, \
         text/event-stream\nmcp-protocol-version: 2026-07-28\nmcp-method: tools/call\nmcp-name: {tool}\n\n{body}"
    )
}

pub(crate) fn blocks(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(input);
    std::iter::from_fn(move || {
        let text = rest?;
        match find(text, b"\n%%\n") {
            Some(at) => {
                rest = Some(&text[at + 4..]);
                Some(&text[..at])
            }
            None => rest.take(),
        }
    })
}

pub(crate) fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

async fn take(world: &World, seen: &mut Seen, block: &[u8], input: &[u8], secret_id: &str) {
    if block.trim_ascii() == b"work" {
        return world.work().await;
    }
    if let Some(ms) = block.strip_prefix(b"wait ") {
        let ms = std::str::from_utf8(ms).ok().and_then(|ms| ms.trim().parse().ok()).unwrap_or(1_u64);
        return world.clock.advance_ms(ms.min(WAIT_MS_MAX));
    }
    let Some((caller, request)) = request(&seen.fill(block)) else { return };
    let before = world.tasks().await;
    let is_served = block.split(|byte| *byte == b'\n').next().is_some_and(|line| line.ends_with(b" served"));
    let answer = if is_served { served(world, request).await } else { world.send(request).await };
    let messages = check(&answer);
    if answer.status.is_client_error() {
        let key = |task: &longhaul_core::Task| task.key();
        let after = world.tasks().await;
        let (before, after): (Vec<_>, Vec<_>) = (before.iter().map(key).collect(), after.iter().map(key).collect());
        assert!(
            after.iter().all(|task| before.contains(task)),
            "a request that was refused with {} left a task",
            answer.status
        );
    }
    if caller != "carol" {
        for secret in [SECRET, secret_id] {
            let is_known = find(input, secret.as_bytes()).is_some();
            assert!(is_known || find(&answer.body, secret.as_bytes()).is_none(), "{caller} was told a secret of carol");
        }
    }
    let token = format!("{TOKEN}{caller}");
    let is_told = find(&answer.body, token.as_bytes()).is_some()
        || answer.headers.values().any(|value| find(value.as_bytes(), token.as_bytes()).is_some());
    assert!(!is_told || find(input, token.as_bytes()).is_some(), "an answer has the token of {caller}");
    seen.note(&answer, &messages);
}

/// The answer, while a worker works.
async fn served(world: &World, request: Request<Bytes>) -> Answer {
    let worker = Box::pin(async {
        loop {
            world.work().await;
            tokio::task::yield_now().await;
        }
    });
    match select(Box::pin(world.send(request)), worker).await {
        Either::Left((answer, _)) => answer,
        Either::Right((never, _)) => never,
    }
}

/// The messages of an answer, which has one of the documented forms.
pub(crate) fn check(answer: &Answer) -> Vec<Value> {
    let status = answer.status.as_u16();
    let text = || String::from_utf8_lossy(&answer.body);
    assert!(STATUSES.contains(&status), "{status} {}", text());
    let Some(kind) = answer.headers.get("content-type") else {
        assert!(answer.body.is_empty(), "{status} without a type: {}", text());
        assert!(matches!(status, 202 | 204), "{status} without a body");
        return Vec::new();
    };
    let messages = match kind.to_str().unwrap().split(';').next().unwrap().trim() {
        "application/json" => {
            let whole = serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", text()));
            match whole {
                Value::Array(messages) => messages,
                message => vec![message],
            }
        }
        "text/event-stream" => {
            let text = std::str::from_utf8(&answer.body).unwrap();
            let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
            data.filter(|data| !data.is_empty())
                .map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")))
                .collect()
        }
        other => panic!("an answer has the type {other}"),
    };
    for message in &messages {
        let is_health = status == 200 && message["status"] == "ok";
        assert!(is_health || message["jsonrpc"] == "2.0", "{message}");
        let is_error = message.get("error").is_some();
        assert!(is_error || status < 400, "{status} without an error: {message}");
        assert!(!is_error || message["error"]["code"].is_i64() && message["error"]["message"].is_string(), "{message}");
        assert_ne!(message["error"]["message"], "the server could not answer", "{message}");
    }
    messages
}

/// The request in a block, and who sends it; `None` if HTTP cannot carry it.
pub(crate) fn request(block: &[u8]) -> Option<(String, Request<Bytes>)> {
    let (head, body) = match find(block, b"\n\n") {
        Some(at) => (&block[..at], &block[at + 2..]),
        None => (block, &b""[..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next()?).into_owned();
    let mut words = first.split(' ');
    let caller = words.next()?.to_owned();
    let method = Method::from_bytes(words.next().unwrap_or("POST").as_bytes()).ok()?;
    let uri: Uri = words.next().unwrap_or("/mcp").parse().ok()?;
    let mut request = Request::builder().method(method).uri(uri).body(Bytes::copy_from_slice(body)).ok()?;
    let headers = request.headers_mut();
    for line in lines {
        let at = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..at]).ok()?;
        headers.append(name, HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?);
    }
    if !headers.contains_key("host") {
        headers.append("host", HeaderValue::from_static("localhost"));
    }
    if caller != NOBODY && !headers.contains_key("authorization") {
        headers.append("authorization", HeaderValue::from_str(&format!("Bearer {TOKEN}{caller}")).ok()?);
    }
    Some((caller, request))
}

/// The content of the answers.
#[derive(Default)]
pub(crate) struct Seen(pub(crate) BTreeMap<&'static str, String>);

impl Seen {
    /// The words, in inputs, that stand for values of answers.
    const NAMES: [&'static str; 6] = ["{task}", "{session}", "{cursor}", "{state}", "{ask}", "{event}"];

    /// The block, with the values of answers instead of the words for them.
    pub(crate) fn fill(&self, block: &[u8]) -> Vec<u8> {
        let mut filled = block.to_vec();
        for name in Self::NAMES {
            let value = self.0.get(name).map_or("", String::as_str);
            while let Some(at) = find(&filled, name.as_bytes()) {
                filled.splice(at..at + name.len(), value.bytes());
            }
        }
        filled
    }

    /// Notes what an answer says.
    pub(crate) fn note(&mut self, answer: &Answer, messages: &[Value]) {
        let session = answer.headers.get("mcp-session-id").and_then(|session| session.to_str().ok());
        self.keep("{session}", session);
        let text = String::from_utf8_lossy(&answer.body);
        self.keep("{event}", text.lines().rev().find_map(|line| line.strip_prefix("id:")).map(str::trim));
        for message in messages {
            let result = &message["result"];
            let ids = [&result["taskId"], &result["task"]["taskId"], &result["structuredContent"]["jobId"]];
            ids.into_iter().for_each(|id| self.keep("{task}", id.as_str()));
            self.keep("{cursor}", result["nextCursor"].as_str());
            self.keep("{state}", result["requestState"].as_str());
            if message["method"].is_string() {
                self.keep("{ask}", message["id"].as_str());
            }
        }
    }

    fn keep(&mut self, name: &'static str, value: Option<&str>) {
        // A word that stands for itself would be filled in forever.
        if let Some(value) = value.filter(|value| !value.contains('{')) {
            self.0.insert(name, value.to_owned());
        }
    }
}
