//! Tools that start, show and stop a job, as one tool.

use serde_json::{Value, json};

use super::process::{Setup, Somewhere, ended, until, why, words};

/// A job of the fixture, as the configuration combines its tools.
pub(super) fn scan() -> Value {
    json!({
        "name": "scan", "start": "start_scan", "status": "get_scan", "stop": "stop_scan",
        "id": "/job/scanId", "state": "/status", "done": ["done"], "failed": ["error"], "every": "200ms",
        "progress": "/done", "total": "/parts", "message": "/phase",
    })
}

fn with(change: Value) -> Value {
    let mut scan = scan();
    scan.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    scan
}

/// A gateway in front of the fixture as a process, with these combined tools, of which `never` may not run for long.
fn with_little_time(folds: Value) -> Setup {
    Setup::config(|setup| {
        let entry = setup.server("jobs", &["stdio"]);
        let server = json!({"fold": folds, "tools": {"never": {"runAtMost": "2s"}}});
        json!({"mcpServers": {"jobs": entry}, "longhaul": {"servers": {"jobs": server}}})
    })
}

/// A gateway in front of the fixture as a process, with these combined tools.
pub(super) fn in_front(folds: Value) -> Setup {
    Setup::config(|setup| {
        let entry = setup.server("jobs", &["stdio"]);
        json!({"mcpServers": {"jobs": entry}, "longhaul": {"servers": {"jobs": {"fold": folds}}}})
    })
}

/// A gateway in front of the fixture behind a URL.
fn over_http() -> (Setup, Somewhere) {
    let mut somewhere = None;
    let setup = Setup::config(|setup| {
        let (server, url) = Somewhere::fixture("jobs", &[&setup.path(""), "http"]);
        somewhere = Some(server);
        json!({"mcpServers": {"jobs": {"url": url}}, "longhaul": {"servers": {"jobs": {"fold": [scan()]}}}})
    });
    (setup, somewhere.unwrap())
}

fn times(setup: &Setup, tool: &str) -> usize {
    setup.calls().iter().filter(|call| *call == tool).count()
}

#[tokio::test]
async fn clients_see_one_tool_instead_of_the_ones_that_it_is_made_of() {
    let (setup, _gateway, caller) = in_front(json!([scan()])).begun();
    let list = caller.result("tools/list", json!({})).await;
    let tools = list["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["start_scan_again", "get_report", "count", "scan"]);
    assert_eq!(tools[3]["description"], "Scans a host");
    assert!(tools[3]["inputSchema"]["properties"]["parts"].is_object(), "{}", tools[3]);
    for hidden in ["start_scan", "get_scan", "stop_scan"] {
        caller.error("tools/call", json!({"name": hidden, "arguments": {}})).await;
    }
    assert!(setup.calls().is_empty());
}

#[tokio::test]
async fn a_job_is_started_once_and_looked_at_until_it_is_done() {
    let (over_http, _server) = over_http();
    for setup in [in_front(json!([scan()])), over_http] {
        let gateway = setup.start();
        let task = gateway.ended("scan", json!({"parts": 3})).await;
        let done = json!({"status": "done", "done": 3, "parts": 3, "phase": "looking at ports"});
        assert_eq!(task["result"]["structuredContent"], done, "{task}");
        assert_eq!(setup.calls(), ["start_scan", "get_scan", "get_scan", "get_scan"]);
    }
}

#[tokio::test]
async fn a_job_is_polled_however_much_its_server_logs() {
    let setup = in_front(json!([scan()]));
    std::fs::write(setup.path("chatty"), "").unwrap();
    let task = setup.start().ended("scan", json!({"parts": 2})).await;
    assert_eq!(task["result"]["structuredContent"]["status"], "done", "{task}");
    assert_eq!(times(&setup, "get_scan"), 2);
}

#[tokio::test]
async fn a_job_says_how_far_it_is() {
    let (_setup, _gateway, caller) = in_front(json!([scan()])).begun();
    let id = caller.call_task("scan", json!({"parts": 7})).await;
    let seen =
        |task: &Value| task["statusMessage"].as_str().is_some_and(|words| words.ends_with("/7 looking at ports"));
    caller.until_it(&id, "progress", seen).await;
    assert_eq!(ended(&caller, &id).await["status"], "completed");
}

#[tokio::test]
async fn a_job_may_have_its_result_elsewhere() {
    let (_setup, gateway) = in_front(json!([with(json!({"result": "get_report"}))])).running();
    assert_eq!(words(&gateway.ended("scan", json!({"parts": 1})).await), "\"the report of scan-0\"");
    gateway.caller().error("tools/call", json!({"name": "get_report", "arguments": {}})).await;
}

#[tokio::test]
async fn a_job_that_failed_is_a_result_that_says_so() {
    let setup = in_front(json!([scan()]));
    let task = setup.start().ended("scan", json!({"parts": 1, "how": "error"})).await;
    assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(true)), "{task}");
    assert_eq!(task["result"]["structuredContent"]["status"], "error");
}

#[tokio::test]
async fn a_job_that_is_not_started_is_not_looked_at() {
    let setup = in_front(json!([scan()]));
    let task = setup.start().ended("scan", json!({"how": "refused"})).await;
    assert_eq!(task["result"]["isError"], true, "{task}");
    assert_eq!(setup.calls(), ["start_scan"]);
}

#[tokio::test]
async fn a_job_that_never_ends_is_left_when_its_time_is_over() {
    let setup = with_little_time(json!([with(json!({"name": "never"}))]));
    let task = setup.start().ended("never", json!({"how": "never"})).await;
    assert!(why(&task).contains("did not end within"), "{task}");
}

#[tokio::test]
async fn a_job_goes_on_after_kills_of_the_gateway() {
    let (over_http, _server) = over_http();
    for setup in [in_front(json!([scan()])), over_http] {
        std::fs::write(setup.path("hold"), "").unwrap();
        let gateway = setup.start();
        let id = gateway.caller().call_task("scan", json!({"parts": 2})).await;
        until("a look", || times(&setup, "get_scan") >= 1).await;
        gateway.kill();
        let looks = times(&setup, "get_scan");
        let again = setup.start();
        until("another look", || times(&setup, "get_scan") > looks).await;
        again.kill();
        std::fs::remove_file(setup.path("hold")).unwrap();
        let again = setup.start();
        let task = ended(&again.caller(), &id).await;
        assert_eq!(task["result"]["structuredContent"]["status"], "done", "{task}");
        assert_eq!(times(&setup, "start_scan"), 1);
    }
}

#[tokio::test]
async fn a_server_that_is_away_for_a_while_is_looked_at_again() {
    let (setup, server) = over_http();
    std::fs::write(setup.path("hold"), "").unwrap();
    let (gateway, caller) = setup.started();
    let id = caller.call_task("scan", json!({"parts": 2})).await;
    until("a look", || times(&setup, "get_scan") >= 1).await;
    let port = server.port();
    drop(server);
    until("a look in vain", || gateway.log().contains("the next one will tell")).await;
    std::fs::remove_file(setup.path("hold")).unwrap();
    let _again = Somewhere::fixture("jobs", &[&setup.path(""), "http", &port]);
    assert_eq!(ended(&caller, &id).await["result"]["structuredContent"]["status"], "done");
    assert_eq!(times(&setup, "start_scan"), 1);
}

#[tokio::test]
async fn mistakes_in_a_fold_are_named_when_the_gateway_starts() {
    let wrong =
        with(json!({"start": "start_skan", "status": "get_scans", "idArgument": "scanID", "stop": "get_report"}));
    let said = in_front(json!([wrong, with(json!({"name": "count"}))])).refusal();
    for part in [
        "/longhaul/servers/jobs/fold/0/start: `start_skan` is not known; did you mean `start_scan`?",
        "/longhaul/servers/jobs/fold/0/status: `get_scans` is not known; did you mean `get_scan`?",
        "/longhaul/servers/jobs/fold/0/idArgument: the argument `scanID` of `get_report` is not known; did you mean \
         `scanId`?",
        "/longhaul/servers/jobs/fold/1/name: `count` is another tool of `jobs`: choose another name",
    ] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
}

#[tokio::test]
async fn an_answer_without_an_id_or_a_state_ends_the_call() {
    let setup = in_front(json!([
        with(json!({"id": "/none", "idArgument": "scanId"})),
        with(json!({"name": "other", "start": "start_scan_again", "state": "/none"})),
    ]));
    let gateway = setup.start();
    assert!(why(&gateway.ended("scan", json!({})).await).contains("has no id at /none"));
    assert!(why(&gateway.ended("other", json!({})).await).contains("has no state at /none"));
}

fn status_of_the_job(setup: &Setup) -> Value {
    let jobs = std::fs::read_to_string(setup.path("jobs")).unwrap_or_default();
    serde_json::from_str::<Value>(&jobs).map(|jobs| jobs["scan-0"]["status"].clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_job_whose_task_is_cancelled_or_times_out_is_stopped() {
    let (setup, gateway, caller) =
        with_little_time(json!([with(json!({"name": "never"})), with(json!({"start": "start_scan_again"}))])).begun();
    assert!(why(&gateway.ended("never", json!({"how": "never"})).await).contains("did not end within"));
    until("the job's stop", || status_of_the_job(&setup) == "stopped").await;
    let looks = times(&setup, "get_scan");
    let id = caller.call_task("scan", json!({"how": "never"})).await;
    until("a look", || times(&setup, "get_scan") > looks).await;
    caller.result("tasks/cancel", json!({"taskId": id})).await;
    until("the other stop", || times(&setup, "stop_scan") == 2).await;
}

/// A connection holds 64 messages that the gateway does not take from it.
#[tokio::test]
async fn a_tool_that_logs_much_while_it_is_polled_is_answered_all_the_same() {
    let setup = Setup::config(|setup| {
        let entry = setup.server("jobs", &["stdio", "--loud"]);
        json!({"mcpServers": {"jobs": entry}, "longhaul": {"servers": {"jobs": {"fold": [scan()]}}}})
    });
    let task = setup.start().ended("scan", json!({"parts": 2})).await;
    assert_eq!(task["result"]["structuredContent"]["done"], 2, "{task}");
    assert_eq!(setup.calls(), ["start_scan", "get_scan", "get_scan"]);
}
