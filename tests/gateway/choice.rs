//! Tools that are chosen, hidden and described in the configuration, and the lock file of such a choice.

use serde_json::{Value, json};

use super::process::Setup;

fn chosen(setup: &Setup, section: &Value) -> Value {
    json!({"mcpServers": {"only": setup.fixture_entry(&[])}, "longhaul": {"servers": {"only": section}}})
}

#[tokio::test]
async fn only_chosen_tools_are_listed_and_called() {
    let section = json!({
        "only": ["count*", "ask"], "hidden": ["count_read_only"],
        "tools": {"count": {"description": "Counts the calls."}}
    });
    let (_setup, gateway, caller) = Setup::config(|setup| chosen(setup, &section)).begun();
    assert_eq!(gateway.tools().await, ["count", "ask"]);
    let listed = caller.result("tools/list", json!({})).await;
    assert_eq!(listed["tools"][0]["description"], "Counts the calls.");
    let error = caller.error("tools/call", json!({"name": "count_read_only", "arguments": {}})).await;
    assert!(error["message"].as_str().unwrap().contains("count_read_only"), "{error}");
    assert_eq!(gateway.ended("count", json!({})).await["status"], "completed");
}

#[tokio::test]
async fn a_choice_that_fits_no_tool_is_refused_with_the_nearest_one() {
    for (section, words) in [
        (
            json!({"only": ["cuont"]}),
            "no tool of `only` is called `cuont`, as `only` of its section says; did you \
            mean `count`?",
        ),
        (json!({"hidden": ["counts_*"]}), "as `hidden` of its section says; "),
        (json!({"only": []}), "/longhaul/servers/only/only: names no tool"),
        (json!({"tools": {"c*": {"description": "x"}}}), "describes one tool"),
        (json!({"tools": {"count": {"description": "x".repeat(9000)}}}), "is longer than 8192 bytes"),
        (json!({"hiden": ["count"]}), "did you mean `hidden`?"),
    ] {
        let said = Setup::config(|setup| chosen(setup, &section)).refusal();
        assert!(said.contains(words), "{words} is not in:\n{said}");
    }
}

#[tokio::test]
async fn a_lock_file_belongs_to_its_choice() {
    let setup = Setup::config(|setup| chosen(setup, &json!({"hidden": ["ask"]})));
    let file = setup.lock();
    let locked = setup.with(&["--lock", &file]);
    assert!(!locked.start().tools().await.contains(&"ask".to_owned()));
    setup.configure(&chosen(&setup, &json!({"hidden": ["ask", "count"]})));
    let said = locked.refusal();
    assert!(said.contains("the lock file was written for other tools of `only`"), "{said}");
}
