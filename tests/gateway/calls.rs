//! Servers that answer as they should not.

use serde_json::json;

use super::process::{Setup, ended, why, words};

#[tokio::test]
async fn noise_between_messages_is_ignored() {
    let (_setup, gateway) = Setup::fixture(&["--noise"]).running();
    assert_eq!(words(&gateway.ended("count", json!({})).await), "done: 1");
}

#[tokio::test]
async fn of_two_answers_the_first_one_counts_and_answers_to_nobody_are_ignored() {
    let setup = Setup::fixture(&[]);
    assert_eq!(words(&setup.start().ended("twice", json!({})).await), "first");
}

#[tokio::test]
async fn a_line_that_is_too_long_ends_the_call() {
    let (setup, gateway) = Setup::fixture(&[]).running();
    let why = why(&gateway.ended("huge", json!({})).await);
    assert!(why.contains("more than 16 MiB"), "{why}");
    setup.until_all_have_ended().await;
    assert_eq!(words(&gateway.ended("count", json!({})).await), "done: 4");
}

#[tokio::test]
async fn an_answer_that_is_not_json_ends_its_call() {
    let (setup, gateway) = Setup::fixture(&["--not-json"]).running();
    for tool in ["count", "count_read_only"] {
        let why = why(&gateway.ended(tool, json!({})).await);
        assert!(why.contains("cannot be read"), "{why}");
    }
    assert_eq!(setup.calls(), ["count", "count_read_only"]);
    setup.until_all_have_ended().await;
}

#[tokio::test]
async fn an_answer_that_is_an_error_is_no_crash() {
    let (setup, gateway) = Setup::fixture(&[]).running();
    let refused = gateway.ended("refuse", json!({})).await;
    assert_eq!(refused["error"], json!({"code": -32050, "message": "no", "data": {"why": "because"}}), "{refused}");
    let failed = gateway.ended("fail", json!({})).await;
    assert_eq!((&failed["status"], &failed["result"]["isError"]), (&json!("completed"), &json!(true)), "{failed}");
    assert_eq!(setup.calls(), ["refuse", "fail"]);
}

#[tokio::test]
async fn a_call_that_killed_its_server_is_made_again_only_if_it_may_be() {
    let (setup, gateway) = Setup::fixture(&[]).running();
    let why = why(&gateway.ended("die", json!({})).await);
    assert!(why.starts_with("the call may have been carried out; it was not repeated"), "{why}");
    assert!(why.ends_with("about to die"), "{why}");
    assert_eq!(setup.calls(), ["die"]);
}

#[tokio::test]
async fn a_call_of_a_tool_that_only_reads_is_made_three_times_at_most() {
    let setup = Setup::fixture(&[]);
    let why = why(&setup.start().ended("die_read_only", json!({})).await);
    assert!(why.contains("was called 3 times"), "{why}");
    assert_eq!(setup.calls().len(), 3);
}

#[tokio::test]
async fn a_server_that_died_once_answers_the_second_time() {
    let setup = Setup::fixture(&[]);
    assert_eq!(words(&setup.start().ended("die_once_read_only", json!({})).await), "done: 2");
}

#[tokio::test]
async fn the_word_of_the_operator_counts_more_than_the_hints_of_the_server() {
    let setup = Setup::config(|setup| {
        let tools = json!({"die": {"repeat": "always"}, "*_read_only": {"repeat": "never"}});
        let longhaul = json!({"servers": {"only": {"tools": tools}}});
        json!({"mcpServers": {"only": setup.fixture_entry(&[])}, "longhaul": longhaul})
    });
    let gateway = setup.start();
    assert!(why(&gateway.ended("die", json!({})).await).contains("was called 3 times"));
    assert!(why(&gateway.ended("die_read_only", json!({})).await).contains("it was not repeated"));
    assert_eq!(setup.calls(), ["die", "die", "die", "die_read_only"]);
}

#[tokio::test]
async fn a_server_whose_child_keeps_the_output_open_is_gone_all_the_same() {
    let setup = Setup::fixture(&[]);
    let why = why(&setup.start().ended("fork", json!({})).await);
    assert!(why.contains("was called 3 times: the server `only` ended"), "{why}");
}

#[tokio::test]
async fn a_call_has_its_longest_run() {
    let setup = Setup::config(|setup| {
        let longhaul = json!({"servers": {"only": {"tools": {"never": {"runAtMost": "1s"}}}}});
        json!({"mcpServers": {"only": setup.fixture_entry(&[])}, "longhaul": longhaul})
    });
    let gateway = setup.start();
    assert!(why(&gateway.ended("never", json!({})).await).contains("did not end within"));
    setup.until_all_have_ended().await;
}

#[tokio::test]
async fn calls_of_a_tool_wait_for_each_other_where_their_number_is_limited() {
    let setup = Setup::config(|setup| {
        let longhaul = json!({"servers": {"only": {"tools": {"slow": {"concurrency": 1}}}}});
        json!({"mcpServers": {"only": setup.fixture_entry(&[])}, "longhaul": longhaul})
    });
    let (_gateway, caller) = setup.started();
    let first = caller.call_task("slow", json!({})).await;
    let second = caller.call_task("slow", json!({})).await;
    // Each says how many calls there were when it was done.
    let mut words = [words(&ended(&caller, &first).await), words(&ended(&caller, &second).await)];
    words.sort();
    assert_eq!(words, ["done: 1", "done: 2"]);
}
