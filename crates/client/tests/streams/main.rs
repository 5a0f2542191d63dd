//! The client against servers by hand, which break connections off, forget sessions, and answer what is not JSON.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, and its server runs beside it"
)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use longhaul_client::{Call, Called, Client, Error, Identity, Nobody, Raw, Status, Target};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request, as far as these servers look at it.
struct Asked {
    verb: String,
    session: Option<String>,
    last_event: Option<String>,
    message: Value,
}

impl Asked {
    fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    fn result(&self, result: &Value) -> String {
        json_of("", &json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result}))
    }
}

fn json_of(more: &str, body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\n{more}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn empty(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")
}

/// A stream of events, and as many bytes that do not come.
fn stream(events: &str, missing: usize) -> String {
    let length = events.len() + missing;
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{events}")
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let (mut first, mut headers) = (String::new(), Vec::new());
    stream.read_line(&mut first).await.ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let mut body = vec![0; header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some(Asked {
        verb: first.split(' ').next()?.to_owned(),
        session: header("mcp-session-id"),
        last_event: header("last-event-id"),
        message: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

/// A server that closes each connection after one answer; and what it was asked.
async fn serve(mut answer: impl FnMut(&Asked) -> String + Send + 'static) -> (Target, Arc<Mutex<Vec<Asked>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
    let all = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&all);
    tokio::spawn(async move {
        loop {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            let Some(asked) = read(&mut stream).await else { continue };
            let text = answer(&asked).replacen("\r\n", "\r\nconnection: close\r\n", 1);
            seen.lock().unwrap().push(asked);
            // The client may have left.
            drop(stream.write_all(text.as_bytes()).await);
        }
    });
    (Target::new(url), all)
}

/// How a server goes on with an answer that broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Comes,
    Refused,
    Unsaid,
}

/// A server that breaks off in its answer to a call.
fn breaking_off(rest: Rest, has_session: bool) -> impl FnMut(&Asked) -> String + Send + 'static {
    let mut id = Value::Null;
    move |asked| match (asked.verb.as_str(), asked.method(), asked.last_event.as_deref()) {
        ("POST", "server/discover", _) if has_session => empty("404 Not Found"),
        ("POST", "server/discover", _) => {
            asked.result(&json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}))
        }
        ("POST", "initialize", _) => {
            let info = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
            let answer = json!({"jsonrpc": "2.0", "id": asked.message["id"], "result": info});
            json_of("mcp-session-id: s0\r\n", &answer)
        }
        ("POST", "tools/call", _) => {
            id = asked.message["id"].clone();
            let place = if rest == Rest::Unsaid { "" } else { "id: e0\nretry: 1\n" };
            stream(&format!("{place}data: \n\n"), 1_000)
        }
        // Broken off without a message, then with one, then closed as a server does that has nothing new.
        ("GET", _, Some("e0")) if rest == Rest::Comes => stream("id: e1\ndata: \n\n", 7),
        ("GET", _, Some("e1")) if rest == Rest::Comes => {
            let said = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}});
            stream(&format!("id: e2\ndata: {said}\n\n"), 7)
        }
        ("GET", _, Some("e2")) if rest == Rest::Comes => stream("id: e3\ndata: \n\n", 0),
        ("GET", _, Some("e3")) if rest == Rest::Comes => {
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
            stream(&format!("data: {answer}\n\n"), 0)
        }
        ("GET", ..) => empty("405 Method Not Allowed"),
        _ => empty("202 Accepted"),
    }
}

fn count(all: &Mutex<Vec<Asked>>, wanted: impl Fn(&Asked) -> bool) -> usize {
    all.lock().unwrap().iter().filter(|asked| wanted(asked)).count()
}

#[tokio::test]
async fn an_answer_is_read_on_wherever_its_stream_broke_off() {
    for has_session in [false, true] {
        let (target, all) = serve(breaking_off(Rest::Comes, has_session)).await;
        let client = Client::connect(target, None).await.unwrap();
        let called = client.call(&Call::new("t", Map::new()), &mut Nobody).await.unwrap();
        assert!(matches!(called, Called::Result(result) if result == json!({"content": []})));
        assert_eq!(count(&all, |asked| asked.method() == "tools/call"), 1);
        let session = Some("s0").filter(|_| has_session);
        assert_eq!(count(&all, |asked| asked.verb == "GET" && asked.session.as_deref() == session), 4);
    }
}

#[tokio::test]
async fn what_is_not_read_on_is_lost_and_not_sent_again() {
    for (rest, asked_for) in [(Rest::Refused, 1), (Rest::Unsaid, 0)] {
        let (target, all) = serve(breaking_off(rest, true)).await;
        let client = Client::connect(target, None).await.unwrap();
        let called = client.call(&Call::new("t", Map::new()), &mut Nobody).await;
        assert!(matches!(called, Err(Error::Lost(_))), "{rest:?}");
        assert_eq!(count(&all, |asked| asked.method() == "tools/call"), 1, "{rest:?}");
        assert_eq!(count(&all, |asked| asked.verb == "GET"), asked_for, "{rest:?}");
    }
}

/// A server of `2025-11-25` with one task, which asks something in each session; and which has forgotten `s0`.
fn forgetful() -> impl FnMut(&Asked) -> String + Send + 'static {
    let mut begun = 0;
    move |asked| match (asked.verb.as_str(), asked.method()) {
        ("POST", "initialize") => {
            begun += 1;
            let info = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
            let answer = json!({"jsonrpc": "2.0", "id": asked.message["id"], "result": info});
            json_of(&format!("mcp-session-id: s{begun}\r\n"), &answer)
        }
        _ if asked.session.as_deref() == Some("s0") => empty("404 Not Found"),
        ("POST", "tasks/get") => asked.result(&json!({"taskId": "t", "status": "input_required"})),
        ("POST", "tasks/result") => {
            let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
            let question = json!({"jsonrpc": "2.0", "id": 8, "method": "elicitation/create", "params": {}});
            stream(&format!("data: {ping}\n\ndata: {question}\n\n"), 0)
        }
        ("POST", "tools/list") => stream("data: {\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": {\"x\": NaN}}\n\n", 0),
        _ => empty("202 Accepted"),
    }
}

#[tokio::test]
async fn a_session_that_was_forgotten_is_replaced_and_the_new_one_is_ended() {
    let (target, all) = serve(forgetful()).await;
    let client = Client::resume(Raw::new(target).unwrap(), Identity::default(), Some("s0"));
    let task = client.task("t").await.unwrap();
    assert_eq!((task.status, client.session().as_deref()), (Status::InputRequired, Some("s1")));
    let question = task.questions.first().unwrap();
    assert_eq!((question.key.as_str(), question.method.as_str()), ("8", "elicitation/create"));
    client.answer("t", question, json!({"action": "decline"})).await.unwrap();
    client.close().await;
    let pong = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
    assert_eq!(count(&all, |asked| asked.message == pong && asked.session.as_deref() == Some("s1")), 1);
    assert_eq!(count(&all, |asked| asked.message["result"] == json!({"action": "decline"})), 1);
    assert_eq!(count(&all, |asked| asked.verb == "DELETE" && asked.session.as_deref() == Some("s1")), 1);
}

#[tokio::test]
async fn a_session_of_another_client_is_ended_only_if_it_is_released() {
    let (target, all) = serve(forgetful()).await;
    let raw = Raw::new(target).unwrap();
    for (is_released, ended) in [(false, 0), (true, 1)] {
        let client = Client::resume(raw.clone(), Identity::default(), Some("s9"));
        if is_released {
            client.release();
        }
        client.close().await;
        assert_eq!(count(&all, |asked| asked.verb == "DELETE"), ended);
    }
}

#[tokio::test]
async fn no_id_is_used_twice_whichever_client_asks() {
    let (target, all) = serve(forgetful()).await;
    let raw = Raw::new(target).unwrap();
    for _ in 0..3 {
        let client = Client::resume(raw.clone(), Identity::default(), Some("s9"));
        client.task("t").await.unwrap();
    }
    let all = all.lock().unwrap();
    let ids: Vec<String> =
        all.iter().filter(|asked| !asked.method().is_empty()).map(|asked| asked.message["id"].to_string()).collect();
    assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (6, 6), "{ids:?}");
}

#[tokio::test]
async fn an_answer_that_is_not_json_is_not_waited_for() {
    let (target, _all) = serve(forgetful()).await;
    let client = Client::resume(Raw::new(target).unwrap(), Identity::default(), Some("s9"));
    assert!(matches!(client.tools().await, Err(Error::Unexpected(_))));
}
