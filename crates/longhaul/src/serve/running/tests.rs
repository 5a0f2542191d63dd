//! Clients that hold connections without using them: each is closed after its time, and others are served.

#![expect(clippy::disallowed_methods, reason = "a connection is closed when real time is over")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use longhaul_core::settings::table;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{ServerHandler, schemars, tool, tool_handler, tool_router};
use serde_json::{Value, json};

use super::Running;
use crate::serve::Options;
use crate::serve::connections::TimeLimits;
use crate::{Server, TaskPolicy};

/// How long a test waits for a byte, or for the end of a connection, that has to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A time that no test waits for.
const LONG: Duration = Duration::from_secs(600);

/// A short time.
const SHORT: Duration = Duration::from_millis(300);

/// The times of a server that does not wait.
const IMPATIENT: TimeLimits = TimeLimits {
    first_byte: SHORT,
    head: SHORT,
    body: SHORT,
    body_bytes_per_s: 16_384,
    idle: SHORT,
    unread: LONG,
    ping: LONG,
};

/// The times of a server that waits long.
const PATIENT: TimeLimits =
    TimeLimits { first_byte: LONG, head: LONG, body: LONG, body_bytes_per_s: 1, idle: LONG, unread: LONG, ping: LONG };

/// Nothing, ever.
const SILENT: &str = "";
/// The first part of an HTTP/2 connection's opening, which might still become HTTP/1.
const HALF_PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM";
/// The whole of an HTTP/2 connection's opening, and no request.
const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A head that does not end.
const HALF_HEAD: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
/// A head without the body that it publishes.
const HEAD: &str =
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
/// A body of chunks that does not end.
const CHUNKS: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                      Transfer-Encoding: chunked\r\n\r\n5\r\n{\"jso\r\n";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wait {
    ms: u64,
}

#[derive(Clone)]
struct Tools;

#[tool_router]
impl Tools {
    #[tool]
    async fn wait(&self, Parameters(Wait { ms }): Parameters<Wait>) -> String {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        "waited".to_owned()
    }

    #[tool]
    async fn large(&self) -> String {
        "x".repeat(4_000_000)
    }
}

#[tool_handler]
impl ServerHandler for Tools {}

async fn server(times: TimeLimits) -> Running {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = Options::default().with(&table::LISTEN, here).with(&table::INLINE_WAIT_S, 60_u64);
    let mut config = options.config().unwrap();
    config.connections.times = times;
    let server = Server::new(|| Tools).task("wait", TaskPolicy::optional());
    Running::start_on_file(&server, Path::new(":memory:"), &options, config).await.unwrap()
}

/// A connection that has sent `opening`.
fn holding(server: &Running, opening: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A connection that the server has closed already takes nothing.
    drop(stream.write_all(opening.as_bytes()));
    stream
}

/// The bytes that the server sends until it closes the connection.
fn until_closed(mut stream: &TcpStream) -> Vec<u8> {
    let (mut all, mut some) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut some) {
            Ok(0) => return all,
            Ok(read) => all.extend_from_slice(&some[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("the server has not closed the connection: {error}"),
        }
    }
}

/// The status of an answer; empty if there was none.
fn status(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).split(' ').nth(1).map(str::to_owned).unwrap_or_default()
}

/// A request of a client with these extensions.
fn request(server: &Running, method: &str, mut params: Value, extensions: Value) -> reqwest::RequestBuilder {
    let name = params["name"].as_str().map(str::to_owned);
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = reqwest::Client::new()
        .post(format!("http://{}/mcp", server.address()))
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .body(body.to_string());
    name.into_iter().fold(request, |request, name| request.header("mcp-name", name))
}

/// A call by a client that does not know of tasks.
fn call(server: &Running, tool: &str, arguments: Value) -> reqwest::RequestBuilder {
    request(server, "tools/call", json!({"name": tool, "arguments": arguments}), json!({}))
}

async fn text_of(request: reqwest::RequestBuilder) -> String {
    request.send().await.unwrap().text().await.unwrap()
}

/// Fails the test unless new clients are answered.
async fn is_served(server: &Running) {
    let answer = text_of(call(server, "wait", json!({"ms": 0}))).await;
    assert!(answer.contains("waited"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_sends_no_request_is_closed() {
    let server = server(IMPATIENT).await;
    for opening in [SILENT, HALF_PREFACE, HALF_HEAD] {
        assert_eq!(until_closed(&holding(&server, opening)), b"", "{opening:?}");
    }
    // An HTTP/2 server sends its settings first.
    until_closed(&holding(&server, PREFACE));
    is_served(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_comes_byte_by_byte_is_cut_off() {
    let server = server(IMPATIENT).await;
    let stream = holding(&server, HALF_HEAD);
    trickle(&stream);
    assert_eq!(until_closed(&stream), b"");
    is_served(&server).await;
}

/// Sends a byte again and again until the server has closed the connection.
fn trickle(stream: &TcpStream) {
    let mut stream = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_refused_and_its_connection_closed() {
    let server = server(IMPATIENT).await;
    for opening in [HEAD, CHUNKS] {
        let answer = until_closed(&holding(&server, opening));
        assert_eq!(status(&answer), "408", "{}", String::from_utf8_lossy(&answer));
        assert!(String::from_utf8_lossy(&answer).contains("comes too slowly"));
    }
    is_served(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_comes_byte_by_byte_is_refused() {
    // It sends fifty bytes a second: that alone is no reason to wait longer for it.
    let server = server(TimeLimits { body_bytes_per_s: 1_000, ..IMPATIENT }).await;
    let stream = holding(&server, HEAD);
    trickle(&stream);
    let answer = until_closed(&stream);
    // Bytes that were under way when the connection was closed may have reset it before the answer was read.
    assert!(["", "408"].contains(&status(&answer).as_str()), "{}", String::from_utf8_lossy(&answer));
    is_served(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_sent_fast_enough_may_take_longer() {
    let server = server(TimeLimits { body_bytes_per_s: 10, ..IMPATIENT }).await;
    // Each part is worth a second; together they take longer than a body may.
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "padding": "x".repeat(980)}).to_string();
    let mut stream = holding(&server, &HEAD.replace("1000", &body.len().to_string()));
    for part in body.as_bytes().chunks(200) {
        stream.write_all(part).unwrap();
        std::thread::sleep(Duration::from_millis(150));
    }
    let answer = until_closed(&stream);
    assert!(!["", "408"].contains(&status(&answer).as_str()), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed_after_its_answer() {
    let server = server(IMPATIENT).await;
    let stream = holding(&server, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(status(&until_closed(&stream)), "200");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_streams_outlive_the_limits_of_idle_connections() {
    let server = server(IMPATIENT).await;
    let arguments = json!({"ms": 1_500});
    let answer = text_of(call(&server, "wait", arguments.clone())).await;
    assert!(answer.contains("waited"), "{answer}");

    let tasks = || json!({"io.modelcontextprotocol/tasks": {}});
    let params = json!({"name": "wait", "arguments": arguments});
    let created = text_of(request(&server, "tools/call", params, tasks())).await;
    let (_, id) = created.split_once("\"taskId\":\"").unwrap();
    let (id, _) = id.split_once('"').unwrap();
    let params = json!({"notifications": {"taskIds": [id]}});
    let text = text_of(request(&server, "subscriptions/listen", params, tasks())).await;
    assert!(text.contains("completed"), "the stream was open until the task ended: {text}");
}

/// One HTTP/2 frame on stream 1.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A header of HTTP/2, written out in full.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_2_client_that_does_not_answer_pings_is_closed_in_the_middle_of_its_call() {
    let server = server(TimeLimits { ping: SHORT, ..PATIENT }).await;
    let request = call(&server, "wait", json!({"ms": 50_000})).build().unwrap();
    let mut headers: Vec<u8> =
        [(":method", "POST"), (":scheme", "http"), (":path", "/mcp"), (":authority", "localhost")]
            .iter()
            .flat_map(|(name, value)| literal(name, value))
            .collect();
    for (name, value) in request.headers() {
        headers.extend(literal(name.as_str(), value.to_str().unwrap()));
    }
    let body = request.body().and_then(reqwest::Body::as_bytes).unwrap();
    let mut stream = holding(&server, PREFACE);
    let (headers, data) = (frame(1, 4, 1, &headers), frame(0, 1, 1, body));
    stream.write_all(&[headers, data].concat()).unwrap();
    let sent = until_closed(&stream);
    let kinds = frames(&sent);
    assert!(kinds.contains(&(6, 0)), "the server sent no ping: {kinds:?}");
    assert!(kinds.iter().all(|(kind, stream)| *stream == 0 || *kind == 8), "the call was answered: {kinds:?}");
    is_served(&server).await;
}

/// The kinds and streams of HTTP/2 frames.
fn frames(mut sent: &[u8]) -> Vec<(u8, u8)> {
    let mut all = Vec::new();
    while let Some((head, rest)) = sent.split_at_checked(9) {
        all.push((head[3], head[8]));
        let length = usize::from(head[1]) * 256 + usize::from(head[2]);
        sent = rest.get(length..).unwrap_or_default();
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_read_is_given_up() {
    let server = server(TimeLimits { unread: SHORT, ..PATIENT }).await;
    let request = call(&server, "large", json!({})).build().unwrap();
    let body = request.body().and_then(reqwest::Body::as_bytes).unwrap();
    let mut head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in request.headers() {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    let mut stream = holding(&server, "");
    // More answers than the socket's buffers take.
    for _ in 0..4 {
        stream.write_all(&[format!("{head}\r\n").as_bytes(), body].concat()).unwrap();
    }
    // The first answer has begun, and that is all that is read.
    stream.read_exact(&mut [0; 12]).unwrap();
    let begun = Instant::now();
    // A closed connection takes nothing more.
    while stream.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < PATIENCE, "the connection is open");
        std::thread::sleep(Duration::from_millis(20));
    }
    is_served(&server).await;
}
