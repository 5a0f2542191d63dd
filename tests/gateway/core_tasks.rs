//! Servers behind a URL that know tasks as revision `2025-11-25` has them, and nothing newer.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::process::{Gateway, Setup, Somewhere, ended, until, words};

/// A gateway in front of the server in these modes.
fn in_front_of(modes: &[&str]) -> (Setup, Somewhere, Gateway) {
    let mut somewhere = None;
    let setup = Setup::config(|setup| {
        let folder = setup.path("");
        let (server, url) = Somewhere::fixture("core-tasks", &[&[folder.as_str()], modes].concat());
        somewhere = Some(server);
        json!({"mcpServers": {"core": {"url": url}}})
    });
    let gateway = setup.start();
    (setup, somewhere.unwrap(), gateway)
}

/// The requests in sessions, as the session with the id, and the method.
fn requests(setup: &Setup) -> Vec<(String, String)> {
    let lines = setup.lines("ids");
    let requests = lines.iter().filter(|line| !line.starts_with(' ')).filter_map(|line| line.rsplit_once(' '));
    requests.map(|(id, method)| (id.to_owned(), method.to_owned())).collect()
}

#[tokio::test]
async fn a_task_is_followed_to_its_end_whether_its_server_keeps_sessions_or_forgets_them() {
    for modes in [&[][..], &["stateless"], &["forgets"]] {
        let (setup, _server, gateway) = in_front_of(modes);
        let caller = gateway.caller();
        let id = caller.call_task("work", json!({})).await;
        until("the server's task", || setup.has_recorded_a_step("task")).await;
        gateway.kill();
        let again = setup.start();
        assert_eq!(words(&ended(&again.caller(), &id).await), "done", "{modes:?}");
        assert_eq!(setup.calls(), ["work"], "{modes:?}");
        let requests = requests(&setup);
        let ids: BTreeSet<_> = requests.iter().map(|(id, _method)| id).collect();
        assert_eq!(ids.len(), requests.len(), "{requests:?}");
    }
}

/// The first question of a task.
fn key(task: &Value) -> Option<String> {
    task["inputRequests"].as_object()?.keys().next().cloned()
}

#[tokio::test]
async fn a_question_is_answered_in_the_session_that_it_was_asked_in() {
    for modes in [&[][..], &["stateless"], &["forgets"]] {
        let (setup, _server, gateway) = in_front_of(modes);
        let caller = gateway.caller();
        let id = caller.call_task("ask", json!({})).await;
        let asked = caller.until(&id, "input_required").await;
        let first = key(&asked).unwrap();
        caller.accept(&id, &first, json!({})).await;
        // A server that has forgotten the session asks again, and gets the answer that the caller gave.
        assert_eq!(words(&ended(&caller, &id).await), "done", "{modes:?}");
        assert_eq!(setup.lines("answers").len(), 1, "{modes:?}");
    }
}

#[tokio::test]
async fn the_session_of_a_cancelled_task_is_ended() {
    let (setup, _server, gateway) = in_front_of(&[]);
    let id = gateway.caller().call_task("never", json!({})).await;
    until("the server's task", || setup.has_recorded_a_step("task")).await;
    let called = requests(&setup).into_iter().find(|(_id, method)| method == "tools/call").unwrap().0;
    let end = format!("end {}", called.split(' ').next().unwrap());
    assert!(!setup.lines("sessions").contains(&end));
    gateway.caller().result("tasks/cancel", json!({"taskId": id})).await;
    until("the end of its session", || setup.lines("sessions").contains(&end)).await;
}
