//! Clients that hold connections without using them: each is closed after its limit, and meanwhile others are served.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use harness::caller::structured;
use harness::process::Server;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use serde_json::json;

use super::process::Setup;

/// How long a test waits for a byte, or for the end of a connection, that has to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// The connections of an attack: more than the server has file descriptors.
const HELD: usize = 700;

/// The file descriptors of a server under attack.
const DESCRIPTORS: u32 = 512;

/// Nothing, ever.
const SILENT: &str = "";
/// The first part of an HTTP/2 connection's opening, which might still become HTTP/1.
const HALF_PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM";
/// The whole of an HTTP/2 connection's opening, and no request.
const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A head that does not end.
const HALF_HEAD: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
/// A head without the body that it announces.
const HEAD: &str =
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
/// A body of chunks that does not end.
const CHUNKS: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                      Transfer-Encoding: chunked\r\n\r\n5\r\n{\"jso\r\n";

/// A server whose limits are short.
fn impatient(more: &[&str]) -> Setup {
    let flags = ["--diagnostics", "--first-byte-ms-max", "300", "--head-ms-max", "300", "--idle-ms-max", "300"];
    Setup::with(&[&flags[..], &["--body-ms-max", "300"], more].concat())
}

fn connect(server: &Server) -> TcpStream {
    let address = server.url().trim_start_matches("http://").trim_end_matches("/mcp");
    let stream = TcpStream::connect(address).expect("the server's socket takes connections");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A connection that has sent `opening`.
pub(crate) fn holding(server: &Server, opening: &str) -> TcpStream {
    let mut stream = connect(server);
    // A connection that the server has closed already takes nothing.
    drop(stream.write_all(opening.as_bytes()));
    stream
}

/// What the server sends until it closes the connection.
pub(crate) fn until_closed(mut stream: &TcpStream) -> Vec<u8> {
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
pub(crate) fn status(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).split(' ').nth(1).map(str::to_owned).unwrap_or_default()
}

/// Fails the test unless new clients are answered.
async fn is_served(server: &Server) {
    for _ in 0..3 {
        let answer = server.caller().call("echo", json!({"text": "still here"})).await;
        assert_eq!(answer["resultType"], "complete", "{answer}");
    }
}

/// Lets this process hold as many connections as the attacks need.
fn many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(4_096, |hard| hard.min(4_096));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }).unwrap();
}

async fn a_client_is_served_beside(opening: &str) {
    many_descriptors();
    // None of them is closed because its time is over.
    let patient = ["--first-byte-ms-max", "600000", "--head-ms-max", "600000", "--body-ms-max", "600000"];
    let setup = Setup::with(&[&["--diagnostics"], &patient[..]].concat()).descriptors(DESCRIPTORS);
    let server = setup.start();
    let earlier = server.caller();
    assert_eq!(earlier.call("echo", json!({"text": "before"})).await["resultType"], "complete");
    let held: Vec<_> = (0..HELD).map(|_| holding(&server, opening)).collect();
    is_served(&server).await;
    assert_eq!(earlier.call("echo", json!({"text": "after"})).await["resultType"], "complete");
    assert!(server.terminate().success(), "held connections do not keep the server from an orderly stop");
    drop(held);
}

#[tokio::test]
async fn a_client_is_served_beside_700_silent_connections() {
    a_client_is_served_beside(SILENT).await;
}

#[tokio::test]
async fn a_client_is_served_beside_700_halves_of_an_http_2_preface() {
    a_client_is_served_beside(HALF_PREFACE).await;
}

#[tokio::test]
async fn a_client_is_served_beside_700_halves_of_a_head() {
    a_client_is_served_beside(HALF_HEAD).await;
}

#[tokio::test]
async fn a_client_is_served_beside_700_heads_without_their_body() {
    a_client_is_served_beside(HEAD).await;
}

#[tokio::test]
async fn a_client_is_served_beside_700_unfinished_chunks() {
    a_client_is_served_beside(CHUNKS).await;
}

#[tokio::test]
async fn a_connection_that_sends_no_request_is_closed() {
    let setup = impatient(&[]);
    let server = setup.start();
    for opening in [SILENT, HALF_PREFACE, HALF_HEAD] {
        assert_eq!(until_closed(&holding(&server, opening)), b"", "{opening:?}");
    }
    // An HTTP/2 server sends its settings first.
    until_closed(&holding(&server, PREFACE));
    is_served(&server).await;
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_cut_off() {
    let setup = impatient(&[]);
    let server = setup.start();
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

#[tokio::test]
async fn a_body_that_does_not_come_is_refused_and_its_connection_closed() {
    let setup = impatient(&[]);
    let server = setup.start();
    for opening in [HEAD, CHUNKS] {
        let answer = until_closed(&holding(&server, opening));
        assert_eq!(status(&answer), "408", "{}", String::from_utf8_lossy(&answer));
        assert!(String::from_utf8_lossy(&answer).contains("comes too slowly"));
    }
    is_served(&server).await;
}

#[tokio::test]
async fn a_body_that_comes_byte_by_byte_is_refused() {
    // It sends fifty bytes a second: that alone is no reason to wait longer for it.
    let setup = impatient(&["--body-bytes-per-s-min", "1000"]);
    let server = setup.start();
    let stream = holding(&server, HEAD);
    trickle(&stream);
    let answer = until_closed(&stream);
    // Bytes that were under way when the connection was closed may have reset it before the answer was read.
    assert!(["", "408"].contains(&status(&answer).as_str()), "{}", String::from_utf8_lossy(&answer));
    is_served(&server).await;
}

#[tokio::test]
async fn a_body_that_is_sent_fast_enough_may_take_longer() {
    let setup = impatient(&["--body-bytes-per-s-min", "10"]);
    let server = setup.start();
    // Each part is worth a second; together they take longer than `body-ms-max`.
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "padding": "x".repeat(980)}).to_string();
    let length = body.len();
    let mut stream = holding(
        &server,
        &format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        ),
    );
    for part in body.as_bytes().chunks(200) {
        stream.write_all(part).unwrap();
        std::thread::sleep(Duration::from_millis(150));
    }
    let answer = until_closed(&stream);
    assert!(!["", "408"].contains(&status(&answer).as_str()), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn a_refused_body_is_read_for_five_seconds_at_most() {
    let setup = Setup::with(&["--diagnostics", "--body-ms-max", "600000"]);
    let server = setup.start();
    let mut stream = holding(
        &server,
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000000\r\n\r\n",
    );
    stream.write_all(&vec![b' '; 5_000_000]).unwrap();
    // The rest does not come.
    let answer = until_closed(&stream);
    assert_eq!(status(&answer), "413", "{}", String::from_utf8_lossy(&answer));
    is_served(&server).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_answer() {
    let setup = impatient(&[]);
    let server = setup.start();
    let stream = holding(&server, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(status(&until_closed(&stream)), "200");
}

#[tokio::test]
async fn calls_and_streams_outlive_the_limits_of_idle_connections() {
    let setup = impatient(&["--inline-wait-s", "60"]);
    let server = setup.start();
    let caller = server.caller();
    let plain = caller.declaring(json!({}));
    let arguments = json!({"seconds": 1.5, "steps": 2});
    let answer = plain.call("countdown", arguments.clone()).await;
    assert_eq!(structured(&answer)["attempts"], 1, "{answer}");

    let id = caller.call_task("countdown", arguments).await;
    let params = json!({"notifications": {"taskIds": [id]}});
    let text = caller.request("subscriptions/listen", params).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("completed"), "the stream was open until the task ended: {text}");
}

#[tokio::test]
async fn a_client_is_told_when_all_connections_are_busy() {
    let flags = ["--diagnostics", "--connections-max", "2", "--connections-per-address-max", "2"];
    let setup = Setup::with(&flags);
    let server = setup.start();
    let caller = server.caller();
    let id = caller.call_task("countdown", json!({"seconds": 300, "steps": 1})).await;
    let params = json!({"notifications": {"taskIds": [id]}});
    let first = caller.request("subscriptions/listen", params.clone()).send().await.unwrap();
    let second = server.caller().request("subscriptions/listen", params).send().await.unwrap();
    assert!(first.status().is_success() && second.status().is_success());

    let refused = until_closed(&holding(&server, SILENT));
    let text = String::from_utf8_lossy(&refused);
    assert_eq!(status(&refused), "503", "{text}");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Retry-After") && head.contains(&format!("Content-Length: {}", body.len())), "{text}");

    drop(second);
    // The server learns a moment later that one of them has left.
    let health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    while status(&until_closed(&holding(&server, health))) != "200" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    is_served(&server).await;
    drop(first);
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

#[tokio::test]
async fn an_http_2_client_that_does_not_answer_pings_is_closed_in_the_middle_of_its_call() {
    let setup = Setup::with(&["--diagnostics", "--inline-wait-s", "60", "--http2-ping-ms", "300"]);
    let server = setup.start();
    let caller = server.caller().declaring(json!({}));
    let request = caller.request("tools/call", json!({"name": "countdown", "arguments": {"seconds": 50, "steps": 1}}));
    let request = request.build().unwrap();
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

#[tokio::test]
async fn an_answer_that_is_not_read_is_given_up() {
    let setup = Setup::with(&["--diagnostics", "--unread-ms-max", "300"]);
    let server = setup.start();
    let caller = server.caller();
    let params = json!({"name": "large_result", "arguments": {"bytes": 4_000_000}});
    let request = caller.declaring(json!({})).request("tools/call", params).build().unwrap();
    let body = request.body().and_then(reqwest::Body::as_bytes).unwrap();
    let mut head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in request.headers() {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    let sockets = || {
        let links = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
        links.filter(|link| is_socket(&link.as_ref().unwrap().path())).count()
    };
    let before = sockets();
    let mut stream = holding(&server, "");
    // More answers than the socket's buffers take.
    for _ in 0..4 {
        stream.write_all(&[format!("{head}\r\n").as_bytes(), body].concat()).unwrap();
    }
    // The first answer has begun, and that is all that is read.
    stream.read_exact(&mut [0; 12]).unwrap();
    let begun = std::time::Instant::now();
    while sockets() > before {
        assert!(begun.elapsed() < PATIENCE, "{} sockets are open, {before} were", sockets());
        std::thread::sleep(Duration::from_millis(50));
    }
    is_served(&server).await;
    drop(stream);
}

fn is_socket(link: &std::path::Path) -> bool {
    std::fs::read_link(link).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
}

#[tokio::test]
async fn a_server_without_descriptors_waits_for_some_and_says_so_once() {
    let setup = Setup::with(&["--diagnostics"]).descriptors(DESCRIPTORS);
    let server = setup.start();
    is_served(&server).await;
    let limit = |soft| {
        let limit = Rlimit { current: Some(soft), maximum: Some(u64::from(DESCRIPTORS)) };
        prlimit(Pid::from_raw(server.pid()), Resource::Nofile, limit).unwrap();
    };
    limit(5);
    let waiting: Vec<_> = (0..20).map(|_| holding(&server, SILENT)).collect();
    let said = || server.log().matches("Too many open files").count();
    while said() == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Time for many tries.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(said(), 1, "{}", server.log());
    limit(u64::from(DESCRIPTORS));
    is_served(&server).await;
    for stream in waiting {
        drop(stream.shutdown(Shutdown::Both));
    }
}
