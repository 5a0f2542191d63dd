//! Everything that passes through the gateway, in both directions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::process::{Setup, ended, words};

#[tokio::test]
async fn tools_are_listed_as_their_server_lists_them() {
    let (_setup, gateway) = Setup::fixture(&[]).running();
    let listed = gateway.caller().result("tools/list", json!({})).await;
    let count = &listed["tools"][0];
    assert_eq!(
        count,
        &json!({
            "name": "count", "title": "Counts", "inputSchema": {"type": "object", "properties": {}},
            "icons": [{"src": "data:image/png;base64,AA=="}], "_meta": {"x/y": 1}
        })
    );
    assert_eq!(listed["tools"][1]["annotations"], json!({"readOnlyHint": true}));
    let discovered = gateway.caller().result("server/discover", json!({})).await;
    assert_eq!(discovered["instructions"], "Be kind.");
    for capability in ["tools", "prompts", "resources", "completions"] {
        assert!(discovered["capabilities"][capability].is_object(), "{discovered}");
    }
}

#[tokio::test]
async fn results_pass_with_everything_in_them() {
    let setup = Setup::fixture(&[]);
    let task = setup.start().ended("rich", json!({})).await;
    let result = &task["result"];
    assert_eq!(result["structuredContent"], json!({"numbers": [1, 2.5], "nothing": null}));
    let kinds: Vec<&Value> = result["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "image", "resource_link", "resource"]);
    assert_eq!(result["content"][0]["annotations"], json!({"audience": ["user"]}));
    assert_eq!((&result["_meta"]["x/y"], &result["resultType"]), (&json!(1), &json!("complete")));
}

#[tokio::test]
async fn progress_becomes_the_message_of_the_task_and_logs_go_to_the_log() {
    let (_setup, gateway, caller) = Setup::fixture(&[]).begun();
    let id = caller.call_task("progress", json!({})).await;
    let seen = |task: &Value| task["statusMessage"].as_str().is_some_and(|message| message.contains("part 2"));
    let task = caller.until_it(&id, "progress", seen).await;
    assert!(task["statusMessage"].as_str().unwrap().contains("2/4"), "{task}");
    gateway.ended("count", json!({})).await;
    caller.until(&id, "completed").await;
    let log = gateway.log();
    let line = log.lines().find(|line| line.contains("a word for the log")).unwrap();
    assert!(line.contains(&id) && line.contains("\"server\":\"only\""), "{line}");
}

#[tokio::test]
async fn prompts_resources_and_completions_pass() {
    let (setup, _gateway, caller) = Setup::fixture(&[]).begun();
    assert_eq!(caller.result("prompts/list", json!({})).await["prompts"][0]["name"], "greet");
    let prompt = caller.result("prompts/get", json!({"name": "greet", "arguments": {"who": "Ann"}})).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Greet Ann");
    assert_eq!(caller.result("resources/list", json!({})).await["resources"][0]["uri"], "fixture://one");
    let templates = caller.result("resources/templates/list", json!({})).await;
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "fixture://n/{n}");
    for uri in ["fixture://one", "fixture://n/7"] {
        let read = caller.result("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["contents"][0]["text"], format!("the text of {uri}"));
    }
    let reference = json!({"type": "ref/prompt", "name": "greet"});
    let completed = json!({"ref": reference, "argument": {"name": "who", "value": "A"}});
    let completed = caller.result("completion/complete", completed).await;
    assert_eq!(completed["completion"]["values"], json!(["greet-Ann"]));
    setup.until_all_have_ended().await;
}

#[tokio::test]
async fn a_question_of_a_tool_that_may_be_repeated_is_one_of_the_task() {
    let (setup, gateway, caller) = Setup::fixture(&[]).begun();
    let id = caller.call_task("ask_read_only", json!({})).await;
    let asked = caller.until(&id, "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    assert_eq!(asked["inputRequests"][key]["params"]["message"], "Who?", "{asked}");
    // Nothing runs while the user thinks.
    setup.until_all_have_ended().await;
    gateway.kill();
    let again = setup.start();
    again.caller().accept(&id, key, json!({"name": "Ann"})).await;
    assert_eq!(words(&ended(&again.caller(), &id).await), r#"{"name": "Ann"}"#);
    assert_eq!(setup.calls().len(), 2);
}

/// An answer to each question, which says what it answers.
fn answers_that_name(questions: &Value) -> Value {
    let answer = |(key, question): (&String, &Value)| {
        let content = json!({"name": format!("to {}", question["params"]["message"].as_str().unwrap())});
        (key.clone(), json!({"action": "accept", "content": content}))
    };
    questions.as_object().unwrap().iter().map(answer).collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test]
async fn two_questions_in_another_order_get_their_own_answers() {
    for task in ["always", "never"] {
        let setup = Setup::config(|setup| {
            let longhaul = json!({"servers": {"only": {"task": task}}});
            json!({"mcpServers": {"only": setup.fixture_entry(&[])}, "longhaul": longhaul})
        });
        let gateway = setup.start();
        let caller = gateway.caller().declaring(json!({"elicitation": {}}));
        let mut params = json!({"name": "ask_both_read_only", "arguments": {}});
        let mut result = caller.result("tools/call", params.clone()).await;
        while result["resultType"] == "input_required" {
            params["inputResponses"] = answers_that_name(&result["inputRequests"]);
            params["requestState"] = result["requestState"].clone();
            result = caller.result("tools/call", params.clone()).await;
        }
        let said = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(said, r#"{"Who?":"to Who?","Whom?":"to Whom?"}"#, "{task}: {result}");
    }
}

#[tokio::test]
async fn a_question_of_a_tool_that_may_not_be_repeated_is_declined() {
    let setup = Setup::fixture(&[]);
    let task = setup.start().ended("ask", json!({})).await;
    assert!(words(&task).contains("the tool may not be repeated"), "{task}");
    assert_eq!(setup.calls(), ["ask"]);
}

/// The variables that the fixture sees.
fn environment(task: &Value) -> BTreeMap<String, String> {
    serde_json::from_str(&words(task)).unwrap()
}

#[tokio::test]
async fn a_server_sees_no_variables_but_those_that_are_named() {
    let setup = Setup::fixture(&[]);
    let seen = environment(&setup.start().ended("environment", json!({})).await);
    assert!(seen.contains_key("PATH") && seen.contains_key("HOME"), "{seen:?}");
    // The variables of the test itself, of its runner, and of the gateway.
    let leaked = |name: &String| name.starts_with("CARGO") || name.starts_with("NEXTEST") || name.contains("SECRET");
    assert!(!seen.keys().any(leaked), "{seen:?}");
    let setup = Setup::config(|setup| {
        let mut entry = setup.fixture_entry(&[]);
        entry["env"] = json!({"TOKEN": "${SECRET_OF_THE_GATEWAY}", "PORT": 7, "HOST": "${env:NOT_SET:-local}"});
        json!({"mcpServers": {"only": entry}})
    });
    let seen = environment(&setup.start().ended("environment", json!({})).await);
    assert_eq!([&seen["TOKEN"], &seen["PORT"], &seen["HOST"]], ["hidden", "7", "local"]);
    assert!(!seen.keys().any(leaked), "{seen:?}");
}

#[tokio::test]
async fn a_quick_call_has_its_answer_at_once_and_a_slow_one_a_handle() {
    let (_setup, gateway) = Setup::command_of_fixture(&[]).running();
    let quick = gateway.caller().call("count", json!({})).await;
    assert_eq!((&quick["resultType"], &quick["content"][0]["text"]), (&json!("complete"), &json!("done: 1")));
    gateway.caller().call_task("never", json!({})).await;
}

#[tokio::test]
async fn the_era_of_a_server_is_found_out_once() {
    let first = |setup: &Setup| std::fs::read_to_string(setup.path("first")).unwrap();
    let (setup, gateway) = Setup::fixture(&[]).running();
    gateway.ended("count", json!({})).await;
    gateway.ended("count", json!({})).await;
    assert_eq!(first(&setup), "server/discover\ninitialize\ninitialize\n");
    let setup = Setup::config(|setup| {
        let longhaul = json!({"servers": {"only": {"protocol": "2025-11-25"}}});
        json!({"mcpServers": {"only": setup.fixture_entry(&[])}, "longhaul": longhaul})
    });
    setup.start();
    assert_eq!(first(&setup), "initialize\n", "the operator knows");
    let (setup, gateway) = Setup::per_request_fixture().running();
    assert_eq!(words(&gateway.ended("count", json!({})).await), "done: 1");
    assert!(!first(&setup).contains("initialize"), "{}", first(&setup));
}

#[tokio::test]
async fn a_server_of_the_newest_revision_asks_in_rounds() {
    let (setup, _gateway, caller) = Setup::per_request_fixture().begun();
    let id = caller.call_task("ask", json!({})).await;
    for (round, name) in ["Ann", "Bob"].into_iter().enumerate() {
        let key = format!("name-{round}");
        let asked = |task: &Value| task["inputRequests"].get(&key).is_some();
        caller.until_it(&id, "a question", asked).await;
        setup.until_all_have_ended().await;
        caller.accept(&id, &key, json!({"name": name})).await;
    }
    // The tool may not be repeated, and was not: each round was sent once.
    assert_eq!(words(&ended(&caller, &id).await), "Ann and Bob");
    assert_eq!(setup.calls(), ["ask", "ask", "ask"]);
}
