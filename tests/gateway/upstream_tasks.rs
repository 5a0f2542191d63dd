//! Servers that offer tasks themselves, behind a URL: another gateway, which speaks all revisions.

use serde_json::{Value, json};

use super::older::Older;
use super::process::{Gateway, Setup, ended, until, why, words};

/// How a server speaks of tasks: by the Tasks extension, or as revision `2025-11-25` does.
const PROTOCOLS: [&str; 2] = ["2026-07-28", "2025-11-25"];

/// A gateway in front of another one, which is in front of the fixture.
struct Two {
    // In the order in which they end: a gateway before its folder.
    gateway: Gateway,
    setup: Setup,
    inner: Gateway,
    behind: Setup,
}

impl Two {
    /// Both of them, which speak of tasks in this way.
    fn start(protocol: &str) -> Self {
        let behind = Setup::fixture(&[]);
        let inner = behind.start();
        let setup = Setup::config(|_| {
            let server = json!({"protocol": protocol, "tools": {"never": {"runAtMost": "3s"}}});
            json!({"mcpServers": {"inner": {"url": inner.url()}}, "longhaul": {"servers": {"inner": server}}})
        });
        let gateway = setup.start();
        Self { gateway, setup, inner, behind }
    }

    /// Calls a tool, and waits until the server has made a task of it.
    async fn following(&self, tool: &str) -> String {
        let id = self.gateway.caller().call_task(tool, json!({})).await;
        until("the server's task", || self.setup.has_recorded_a_step("task")).await;
        id
    }
}

#[tokio::test]
async fn a_call_becomes_one_task_of_the_server_and_goes_on_after_kills_of_the_gateway() {
    for protocol in PROTOCOLS {
        let two = Two::start(protocol);
        // It may not be repeated, and need not be: the server's task continues.
        let id = two.following("slow").await;
        two.gateway.kill();
        let again = two.setup.start();
        assert_eq!(words(&ended(&again.caller(), &id).await), "done: 1", "{protocol}");
        assert_eq!(two.behind.calls(), ["slow"], "{protocol}");
    }
}

#[tokio::test]
async fn results_and_errors_of_the_server_s_task_are_those_of_ours() {
    for protocol in PROTOCOLS {
        let two = Two::start(protocol);
        let refused = two.gateway.ended("refuse", json!({})).await;
        assert_eq!(refused["error"], json!({"code": -32050, "message": "no", "data": {"why": "because"}}), "{refused}");
        let failed = two.gateway.ended("fail", json!({})).await;
        assert_eq!((&failed["status"], &failed["result"]["isError"]), (&json!("completed"), &json!(true)), "{failed}");
        let rich = two.gateway.ended("rich", json!({})).await;
        assert_eq!(rich["result"]["structuredContent"], json!({"numbers": [1, 2.5], "nothing": null}), "{rich}");
        assert_eq!(two.behind.calls(), ["refuse", "fail", "rich"], "{protocol}");
    }
}

#[tokio::test]
async fn questions_of_the_server_s_task_are_ours() {
    for protocol in PROTOCOLS {
        let two = Two::start(protocol);
        let id = two.gateway.caller().call_task("ask_read_only", json!({})).await;
        let asked = two.gateway.caller().until(&id, "input_required").await;
        let requests = asked["inputRequests"].as_object().unwrap().clone();
        assert_eq!(requests.values().next().unwrap()["params"]["message"], "Who?", "{asked}");
        two.gateway.kill();
        let again = two.setup.start();
        let caller = again.caller();
        caller.accept(&id, requests.keys().next().unwrap(), json!({"name": "Ann"})).await;
        assert_eq!(words(&ended(&caller, &id).await), r#"{"name": "Ann"}"#, "{protocol}");
    }
}

#[tokio::test]
async fn progress_of_the_server_s_task_is_ours() {
    for protocol in PROTOCOLS {
        let two = Two::start(protocol);
        let caller = two.gateway.caller();
        let id = caller.call_task("progress", json!({})).await;
        let seen = |task: &Value| task["statusMessage"] == "2/4 part 2";
        caller.until_it(&id, "progress", seen).await;
        // It waits for another call.
        two.gateway.ended("count", json!({})).await;
        assert_eq!(words(&ended(&caller, &id).await), "done: 2", "{protocol}");
    }
}

#[tokio::test]
async fn a_server_that_is_away_for_a_while_is_looked_at_again() {
    for protocol in PROTOCOLS {
        let two = Two::start(protocol);
        let address = two.inner.address();
        let id = two.following("slow_read_only").await;
        two.behind.until_called(1).await;
        two.inner.kill();
        until("a look in vain", || two.gateway.log().contains("the next one will tell")).await;
        let _inner = two.behind.start_at(&address);
        assert_eq!(words(&ended(&two.gateway.caller(), &id).await), "done: 2", "{protocol}");
    }
}

#[tokio::test]
async fn a_task_that_the_server_does_not_know_any_more_fails_ours() {
    for protocol in PROTOCOLS {
        let two = Two::start(protocol);
        let address = two.inner.address();
        let id = two.following("never").await;
        two.inner.kill();
        for file in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
            std::fs::remove_file(two.behind.path(file)).unwrap_or_default();
        }
        let _inner = two.behind.start_at(&address);
        let why = why(&ended(&two.gateway.caller(), &id).await);
        assert!(why.contains("does not answer for its task any more") || why.contains("did not end within"), "{why}");
    }
}

#[tokio::test]
async fn a_cancel_is_passed_on_to_the_server() {
    for protocol in PROTOCOLS {
        let two = Two::start(protocol);
        let id = two.following("never").await;
        two.gateway.caller().result("tasks/cancel", json!({"taskId": id})).await;
        until("the server's cancel", || two.behind.has_a_task_that_is("cancelled")).await;
    }
}

/// A server that refuses to call its tools for clients that know no tasks: another gateway, which is configured so.
#[tokio::test]
async fn a_tool_that_requires_tasks_is_served_so_unless_the_operator_says_otherwise() {
    let behind = Setup::config(|setup| {
        json!({"mcpServers": {"only": setup.fixture_entry(&[])}, "longhaul": {"defaults": {"task":
            "required"}}})
    });
    let inner = behind.start();
    // It speaks both lifecycles, and the older one says it in the list.
    for protocol in [json!({}), json!({"protocol": "2025-11-25"})] {
        let setup = Setup::config(|_| {
            let mut server = protocol.clone();
            server["tools"] = json!({"count_read_only": {"task": "always"}});
            json!({"mcpServers": {"inner": {"url": inner.url()}}, "longhaul": {"servers": {"inner": server}}})
        });
        let gateway = setup.start();
        let no_tasks = gateway.caller().declaring(json!({}));
        let call = |tool: &str| json!({"name": tool, "arguments": {}});
        let refused = no_tasks.error("tools/call", call("count")).await;
        assert_eq!(refused["code"], -32021, "{refused}");
        assert!(refused["data"]["requiredCapabilities"]["extensions"].is_object(), "{refused}");
        let served = no_tasks.result("tools/call", call("count_read_only")).await;
        assert!(served["content"][0]["text"].as_str().unwrap().starts_with("done"), "{served}");
        assert!(words(&gateway.ended("count", json!({})).await).starts_with("done"));
        // A client of a revision without tasks, too.
        let older = Older::begin(&gateway).await;
        let message = older.messages("tools/call", &call("count")).await.remove(0);
        assert!(message["error"]["message"].as_str().is_some_and(|why| why.contains("runs only as")), "{message}");
    }
}

#[tokio::test]
async fn what_a_server_asks_before_there_is_a_task_is_the_answer_to_the_call() {
    let setup = Setup::config(|setup| {
        let longhaul = json!({"defaults": {"handleAfter": "30s"}});
        json!({"mcpServers": {"only": setup.server("per-request", &[])}, "longhaul": longhaul})
    });
    let gateway = setup.start();
    let (caller, mut params) = (gateway.caller(), json!({"name": "ask", "arguments": {}}));
    for name in ["Ann", "Bob"] {
        let asked = caller.result("tools/call", params.clone()).await;
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        params["inputResponses"] = json!({key: {"action": "accept", "content": {"name": name}}});
        params["requestState"] = asked["requestState"].clone();
    }
    let answer = caller.result("tools/call", params).await;
    assert_eq!(answer["content"][0]["text"], "Ann and Bob", "{answer}");
}
