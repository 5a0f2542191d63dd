//! Clients that hold connections without using them: others are served meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

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
/// A head that does not end.
const HALF_HEAD: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
/// A head without the body that it announces.
const HEAD: &str =
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
/// A body of chunks that does not end.
const CHUNKS: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                      Transfer-Encoding: chunked\r\n\r\n5\r\n{\"jso\r\n";

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

/// Everything that the server sends until it closes the connection.
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

#[tokio::test]
async fn a_client_is_served_beside_700_connections_that_are_held() {
    many_descriptors();
    for opening in [SILENT, HALF_PREFACE, HALF_HEAD, HEAD, CHUNKS] {
        let setup = Setup::with(&["--diagnostics"]).descriptors(DESCRIPTORS);
        let server = setup.start();
        let earlier = server.caller();
        assert_eq!(earlier.call("echo", json!({"text": "before"})).await["resultType"], "complete");
        let held: Vec<_> = (0..HELD).map(|_| holding(&server, opening)).collect();
        is_served(&server).await;
        assert_eq!(earlier.call("echo", json!({"text": "after"})).await["resultType"], "complete");
        assert!(server.terminate().success(), "an orderly stop beside {opening:?}");
        drop(held);
    }
}

#[tokio::test]
async fn a_refused_body_is_read_for_five_seconds_at_most() {
    let setup = Setup::with(&["--diagnostics"]);
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
    // The server learns a short time later that one of them has left.
    let health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    while status(&until_closed(&holding(&server, health))) != "200" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    is_served(&server).await;
    drop(first);
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
