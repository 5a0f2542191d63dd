//! The messages of servers and callers, compared as bytes: the order of members and the digits of numbers.

use harness::caller::Caller;
use serde_json::{Value, json};

use super::process::{Gateway, Setup, Somewhere, ended};

/// The output of the fixture `verbatim`, as a client that is connected to it directly gets it.
const SCHEMA: &str = r#""inputSchema":{"type":"object","properties":{"zeta":{"type":"integer","maximum":18446744073709551617},"alpha":{"type":"number","multipleOf":0.10,"default":0.80},"mid":{"enum":["z","a"],"type":"string"}},"required":["zeta"],"x-order":{"b":1,"a":2}}"#;
const STRUCTURED: &str = r#""structuredContent":{"z":18446744073709551616,"a":{"y":0.1000000000000000055,"b":[1e-07,1.50,-0,100.0,123456789012345678901234567890]},"id":9007199254740993}"#;
const META: &str = r#""_meta":{"z/z":0.80,"a/a":{"b":1,"a":2}"#;

/// The arguments of a call.
const ARGUMENTS: &str =
    r#"{"zeta":18446744073709551617,"alpha":0.30,"other":{"z":[1.10,-0,1e-07],"a":null},"b":9007199254740993}"#;

/// Keys that only the caller uses.
const CALLERS_META: &str = r#""traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"z=1,a=2","baggage":"user=ann","com.example/tenant":{"z":18446744073709551616,"a":1}"#;

fn params() -> Value {
    let text =
        format!(r#"{{"name":"verbatim","arguments":{ARGUMENTS},"_meta":{{{CALLERS_META},"dev.longhaul/x":1}}}}"#);
    serde_json::from_str(&text).unwrap()
}

async fn text(caller: &Caller, method: &str, params: Value) -> String {
    caller.request(method, params).send().await.unwrap().text().await.unwrap()
}

fn assert_contains(text: &str, expected: &str) {
    assert!(text.contains(expected), "{expected}\nis not in\n{text}");
}

/// Calls the tool, and compares all that passes.
async fn passes(setup: &Setup, gateway: &Gateway) -> String {
    let caller = gateway.caller();
    assert_contains(&text(&caller, "tools/list", json!({})).await, SCHEMA);
    let created = caller.result("tools/call", params()).await;
    let id = created["taskId"].as_str().unwrap().to_owned();
    assert_eq!(ended(&caller, &id).await["status"], "completed");
    result_is_there(&caller, &id).await;
    let received = setup.lines("received").pop().unwrap();
    assert_contains(&received, &format!(r#""arguments":{ARGUMENTS}"#));
    for member in CALLERS_META.split(",\"") {
        assert_contains(&received, member.trim_start_matches('"'));
    }
    assert!(!received.contains("dev.longhaul/x"), "{received}");
    id
}

async fn result_is_there(caller: &Caller, id: &str) {
    let task = text(caller, "tasks/get", json!({"taskId": id})).await;
    assert_contains(&task, STRUCTURED);
    assert_contains(&task, META);
}

#[tokio::test]
async fn members_keep_their_order_and_numbers_their_digits_also_after_a_restart() {
    let (setup, gateway) = Setup::config(|setup| json!({"mcpServers": {"v": setup.server("verbatim", &[])}})).running();
    let id = passes(&setup, &gateway).await;
    gateway.terminate();
    result_is_there(&setup.start().caller(), &id).await;
}

#[tokio::test]
async fn they_do_behind_a_url_and_in_a_task_of_the_server() {
    for modes in [&["http"][..], &["events"], &["http", "tasks"]] {
        let mut server = None;
        let setup = Setup::config(|setup| {
            let (started, url) = Somewhere::fixture("verbatim", &[&[setup.path("").as_str()], modes].concat());
            server = Some(started);
            json!({"mcpServers": {"v": {"type": "http", "url": url}}})
        });
        let gateway = setup.start();
        passes(&setup, &gateway).await;
    }
}

#[tokio::test]
async fn they_do_in_a_task_of_a_process_and_for_callers_without_tasks() {
    let (setup, gateway) =
        Setup::config(|setup| json!({"mcpServers": {"v": setup.server("verbatim", &["tasks"])}})).running();
    passes(&setup, &gateway).await;
    let config = |setup: &Setup| {
        let longhaul = json!({"servers": {"v": {"task": "never"}}});
        json!({"mcpServers": {"v": setup.server("verbatim", &[])}, "longhaul": longhaul})
    };
    let (setup, gateway) = Setup::config(config).running();
    let answer = text(&gateway.caller(), "tools/call", params()).await;
    assert_contains(&answer, STRUCTURED);
    assert_contains(&answer, META);
    assert_contains(&setup.lines("received").pop().unwrap(), &format!(r#""arguments":{ARGUMENTS}"#));
}

#[test]
fn the_lock_file_has_the_order_and_the_digits_of_the_server() {
    let setup = Setup::config(|setup| json!({"mcpServers": {"v": setup.server("verbatim", &[])}}));
    let mut command = std::process::Command::new(harness::program("longhaul"));
    let done = command.args(["gateway", "lock", "--config", &setup.path("mcp.json")]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let written = std::fs::read_to_string(setup.path("mcp.lock.json")).unwrap();
    let compact: String = written.lines().map(str::trim_start).collect::<String>().replace("\": ", "\":");
    assert_contains(&compact, SCHEMA);
}

/// Arguments are checked by their digits.
#[tokio::test]
async fn a_long_number_is_compared_with_the_bound_of_its_schema_exactly() {
    let (setup, gateway) = Setup::config(|setup| json!({"mcpServers": {"v": setup.server("verbatim", &[])}})).running();
    let call = |zeta: &str| {
        let arguments = format!(r#"{{"name":"verbatim","arguments":{{"zeta":{zeta}}}}}"#);
        serde_json::from_str::<Value>(&arguments).unwrap()
    };
    let refused = gateway.caller().result("tools/call", call("18446744073709551618")).await;
    let said = refused["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("at most 18446744073709551617, not 18446744073709551618"), "{refused}");
    assert!(setup.lines("received").is_empty());
}

/// The command prints results as the server wrote them.
#[tokio::test]
async fn the_command_passes_arguments_and_results_as_they_are() {
    let (setup, gateway) = Setup::config(|setup| json!({"mcpServers": {"v": setup.server("verbatim", &[])}})).running();
    let url = gateway.url().to_owned();
    let run = move || {
        let mut command = std::process::Command::new(harness::program("longhaul"));
        command.args(["--server", &url, "--json", "call", "verbatim", "-"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), ARGUMENTS.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let done = tokio::task::spawn_blocking(run).await.unwrap();
    let printed = String::from_utf8(done.stdout).unwrap();
    let compact: String = printed.lines().map(str::trim_start).collect::<String>().replace("\": ", "\":");
    assert_contains(&compact, STRUCTURED);
    assert_contains(&setup.lines("received").pop().unwrap(), &format!(r#""arguments":{ARGUMENTS}"#));
}
