//! Starting: servers that cannot be used, several servers, and configurations with mistakes.

use serde_json::{Value, json};

use super::process::{Setup, words};

#[tokio::test]
async fn a_server_that_dies_at_start_is_named_with_its_last_twenty_lines() {
    let said = Setup::command_of_fixture(&["--die-at-start"]).refusal();
    assert!(said.contains("the server `upstream` cannot be started"), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("line ")).collect();
    assert_eq!((lines.len(), lines[0], lines[19]), (20, "line 10", "line 29"), "{said}");
}

#[tokio::test]
async fn a_server_that_ends_at_an_unknown_first_message_is_greeted_in_the_older_way() {
    let (setup, gateway) = Setup::fixture(&["--die-at-discover"]).running();
    assert_eq!(words(&gateway.ended("count", json!({})).await), "done: 1");
    setup.until_all_have_ended().await;
}

#[tokio::test]
async fn servers_that_cannot_be_used_are_all_named() {
    let setup = Setup::config(|setup| {
        let silent = setup.fixture_entry(&["--no-initialize"]);
        let endless = setup.fixture_entry(&["--many-pages"]);
        let longhaul = json!({"servers": {"silent": {"startAtMost": "1s"}}});
        let missing = json!({"command": "no-such-command"});
        json!({"mcpServers": {"silent": silent, "endless": endless, "missing": missing}, "longhaul": longhaul})
    });
    let said = setup.refusal();
    assert!(said.contains("the server `silent` cannot be started: it did not answer in time"), "{said}");
    assert!(said.contains("`endless` does not list what it has: its list of tools has more than 32 pages"), "{said}");
    assert!(said.contains("`missing` cannot be started: the command `no-such-command` was not found"), "{said}");
    setup.until_all_have_ended().await;
}

fn two(setup: &Setup, longhaul: Value) -> Value {
    json!({"mcpServers": {"one": setup.fixture_entry(&[]), "the other": setup.fixture_entry(&[])}, "longhaul":
        longhaul})
}

#[tokio::test]
async fn names_of_several_servers_begin_with_the_names_of_the_servers() {
    let (_setup, gateway) = Setup::config(|setup| two(setup, json!({"servers": {"one": {"prefix": ""}}}))).running();
    assert_eq!(words(&gateway.ended("count", json!({})).await), "done: 1");
    assert_eq!(words(&gateway.ended("the_other_count", json!({})).await), "done: 2");
    let prompt = json!({"name": "the_other_greet", "arguments": {"who": "Ann"}});
    let prompt = gateway.caller().result("prompts/get", prompt).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Greet Ann");
}

#[tokio::test]
async fn a_clash_of_names_names_both_servers() {
    let setup =
        Setup::config(|setup| two(setup, json!({"servers": {"one": {"prefix": ""}, "the other": {"prefix": ""}}})));
    let said = setup.refusal();
    assert!(said.contains("the tool `count` is in both `one` and `the other`"), "{said}");
}

#[tokio::test]
async fn terms_for_a_tool_that_is_not_there_are_a_mistake() {
    let setup = Setup::config(|setup| {
        let longhaul = json!({"servers": {"only": {"tools": {"cuont": {"repeat": "never"}}}}});
        json!({"mcpServers": {"only": setup.fixture_entry(&[])}, "longhaul": longhaul})
    });
    let said = setup.refusal();
    assert!(said.contains("no tool of `only` is called `cuont`") && said.contains("count"), "{said}");
}

#[tokio::test]
async fn all_mistakes_of_a_configuration_are_told_at_once() {
    let setup = Setup::config(|_| {
        json!({
            "mcpServers": {"a": {"command": "x", "args": [1], "env": {"T": "${NOT_SET_ANYWHERE}"}}, "b": {"type":
                "sse", "url": "x"}},
            "longhaul": {"defualts": {}, "servers": {"c": {}}}
        })
    });
    let said = setup.refusal();
    for pointer in [
        "/mcpServers/a/args/0: ",
        "/mcpServers/a/env/T: ",
        "/mcpServers/b: ",
        "/longhaul/defualts: ",
        "/longhaul/servers/c: ",
    ] {
        assert!(said.contains(pointer), "{pointer} is not in:\n{said}");
    }
}
