//! The memory that requests cost: short strings that become large trees, and many large requests at once. Some calls
//! have to work all the same.

use std::fmt::Write as _;

use futures::future::join_all;
use harness::caller::{Caller, json_of};
use harness::process::Server;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::Setup;

/// The limit of a server's peak memory.
const PEAK_MIB_MAX: u64 = 128;

/// The most memory that a server ever had, in MiB.
fn peak_mib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

fn setup() -> Setup {
    Setup::with(&["--diagnostics", "--log", "warn"])
}

/// A list of that many `item`s, as JSON text.
fn list(item: &str, length: usize) -> String {
    let mut text = String::with_capacity((item.len() + 1) * length + 2);
    text.push('[');
    for index in 0..length {
        write!(text, "{}{item}", if index == 0 { "" } else { "," }).unwrap();
    }
    text + "]"
}

/// A call with this JSON text among its arguments or in its `_meta`.
fn call(caller: &Caller, tool: &str, place: &str, text: &str) -> reqwest::RequestBuilder {
    let arguments = json!({"seconds": 0.1, "steps": 1, "text": "x"});
    let mut params = json!({"name": tool, "arguments": arguments, "_meta": {"a": 1}});
    params[place]["large"] = json!("@");
    let request = caller.request("tools/call", params);
    let (client, request) = request.build_split();
    let mut request = request.unwrap();
    let body = std::str::from_utf8(request.body().unwrap().as_bytes().unwrap()).unwrap().replace("\"@\"", text);
    *request.body_mut() = Some(body.into());
    reqwest::RequestBuilder::from_parts(client, request)
}

type Answered = (StatusCode, Option<String>, Value);

/// Status, `Retry-After` and body.
async fn sent(request: reqwest::RequestBuilder) -> Answered {
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    let retry_after = headers.get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    (status, retry_after, json_of(&answer.text().await.unwrap()))
}

async fn at_once(requests: Vec<reqwest::RequestBuilder>) -> Vec<Answered> {
    join_all(requests.into_iter().map(sent)).await
}

fn refused(status: StatusCode, answer: &Value) {
    assert_eq!((status.as_u16(), &answer["id"]), (413, &json!(1)), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("as one string"), "{message}");
}

/// Waits for the end of a call that became a task.
async fn accepted_or_busy(caller: &Caller, (status, retry_after, answer): Answered) {
    match status.as_u16() {
        200 => assert_eq!(answer.get("error"), None, "{answer}"),
        503 => assert!(retry_after.is_some(), "{answer}"),
        other => panic!("{other}: {answer}"),
    }
    if let Some(id) = answer["result"]["taskId"].as_str() {
        caller.until(id, "completed").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_texts_that_would_be_large_trees_are_refused_and_cost_little() {
    let setup = setup();
    let server = setup.start();
    let caller = server.caller();
    let items = ["{\"\":0}", "[[]]", "0", "{\"a\":{\"b\":[]}}", "\"\\n\""];
    for item in items {
        let text = list(item, 4_390_000 / (item.len() + 1));
        for (tool, place) in
            [("echo", "arguments"), ("echo", "_meta"), ("countdown", "arguments"), ("countdown", "_meta")]
        {
            let answers = at_once((0..4).map(|_| call(&caller, tool, place, &text)).collect()).await;
            answers.iter().for_each(|(status, _, answer)| refused(*status, answer));
        }
    }
    let peak = peak_mib(&server);
    println!("refused: {peak} MiB");
    assert!(peak < PEAK_MIB_MAX, "{peak} MiB");
    assert_eq!(caller.call("echo", json!({"text": "still here"})).await["resultType"], "complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn legitimate_large_arguments_are_accepted() {
    let setup = setup();
    let server = setup.start();
    let caller = server.caller();
    let echoed = caller.call("echo", json!({"text": "x".repeat(4_000_000)})).await;
    assert_eq!(echoed["content"][0]["text"].as_str().map(str::len), Some(4_000_000));
    let (status, _, answer) = at_once(vec![call(&caller, "echo", "_meta", &list("1.25", 100_000))]).await.remove(0);
    assert_eq!((status.as_u16(), answer.get("error")), (200, None), "{answer}");
    let csv = (0..60_000).fold("id,name\n".to_owned(), |csv, row| csv + &format!("{row},\"name {row}\"\n"));
    assert!(csv.len() > 1_000_000);
    for id in join_all((0..16).map(|_| caller.call_task("profile_dataset", json!({"text": csv})))).await {
        caller.until(&id, "completed").await;
    }
}

/// Just below the limit of one request, in plain calls and in tasks, more of them than there is memory for at a time.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_trees_that_are_accepted_wait_for_one_another() {
    let setup = setup();
    let server = setup.start();
    let caller = server.caller();
    for (item, length) in [("{\"\":0}", 27_500), ("0", 150_000), ("{\"id\":1,\"name\":\"ab\",\"x\":1.5}", 16_500)] {
        let text = list(item, length);
        for tool in ["echo", "countdown"] {
            let answers = at_once((0..4).map(|_| call(&caller, tool, "_meta", &text)).collect()).await;
            join_all(answers.into_iter().map(|answer| accepted_or_busy(&caller, answer))).await;
        }
    }
    let peak = peak_mib(&server);
    println!("accepted: {peak} MiB");
    // The allocator keeps what each thread has freed, so this is more than the budgets.
    assert!(peak < PEAK_MIB_MAX * 5 / 4, "{peak} MiB");
}

/// Four of them use all memory for arguments, and the fifth has a worker to itself: it may not keep it.
#[tokio::test(flavor = "multi_thread")]
async fn large_arguments_to_a_long_tool_do_not_delay_small_calls() {
    let setup = Setup::with(&["--diagnostics", "--log", "warn", "--concurrency", "5", "--owner-concurrency", "5"]);
    let server = setup.start();
    let caller = server.caller();
    let mut large = Vec::new();
    for _ in 0..6 {
        let params = json!({
            "name": "countdown", "arguments": {"seconds": 600, "steps": 600}, "_meta": {"x": "x".repeat(4_000_000)},
        });
        let answer = json_of(&caller.request("tools/call", params).send().await.unwrap().text().await.unwrap());
        large.push(answer["result"]["taskId"].as_str().unwrap().to_owned());
    }
    for _ in 0..5 {
        let answer = caller.call("countdown", json!({"seconds": 0, "steps": 1})).await;
        caller.until(answer["taskId"].as_str().unwrap(), "completed").await;
    }
    for id in large {
        assert_eq!(caller.get(&id).await["status"], "working");
    }
}

/// The head of a large request, and half its body.
async fn half(url: &str) -> TcpStream {
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: 4300000\r\n\r\n\""
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    drop(stream.write_all(&vec![b'x'; 2_150_000]).await);
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_bodies_share_a_budget_and_small_requests_get_through() {
    let setup = setup();
    let server = setup.start();
    let mut held = join_all((0..60).map(|_| half(server.url()))).await;
    assert_eq!(server.caller().call("echo", json!({"text": "hello"})).await["resultType"], "complete");
    let peak = peak_mib(&server);
    println!("unfinished: {peak} MiB");
    assert!(peak < PEAK_MIB_MAX, "{peak} MiB");
    // Requests that did not fit get their answer once they have sent everything.
    let rest = vec![b'x'; 2_149_999];
    let mut answers = String::new();
    for stream in &mut held {
        drop(stream.write_all(&rest).await);
        let mut answer = [0; 512];
        let read = stream.read(&mut answer).await.unwrap_or(0);
        answers += &String::from_utf8_lossy(answer.get(..read).unwrap());
    }
    assert!(answers.contains("503 Service Unavailable") && answers.contains("retry-after: "), "{answers:.2000}");
}
