//! `dev.longhaul/tasks/resume`: a new task continues a failed one, for its owner.

use serde_json::json;

use crate::world::{Sent, World, bob, no_tasks};

const METHOD: &str = "dev.longhaul/tasks/resume";

fn resume(id: &str) -> Sent {
    Sent::new(METHOD, json!({"taskId": id}))
}

/// A task that failed after its step `number`.
async fn after_failing() -> (World, String) {
    let (world, id) = World::with_task("misreads").await;
    world.work_until(&id, "input_required").await;
    world.update(&id, json!({"go_on": {"action": "accept", "content": {"value": "yes"}}})).await;
    world.work_until(&id, "failed").await;
    (world, id)
}

#[tokio::test]
async fn a_failed_task_is_resumed_with_its_steps_and_names_the_failed_one() {
    let (world, id) = after_failing().await;
    let created = world.result(&resume(&id)).await;
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    let new = created["taskId"].as_str().unwrap();
    assert_ne!(new, id);
    let inspect = |id: &str| Sent::new("dev.longhaul/tasks/inspect", json!({"taskId": id}));
    let (failed, resumed) = (world.result(&inspect(&id)).await, world.result(&inspect(new)).await);
    assert_eq!(resumed["resumes"], json!({"taskId": id, "by": null}));
    assert_eq!(resumed["journal"], failed["journal"]);
    assert_eq!((&resumed["tool"], &resumed["arguments"]), (&failed["tool"], &failed["arguments"]));
}

#[tokio::test]
async fn a_key_makes_one_task_and_belongs_to_one_request() {
    let (world, id) = after_failing().await;
    let keyed = |sent: Sent| sent.with_header("idempotency-key", "k");
    let first = world.result(&keyed(resume(&id))).await;
    assert_eq!(world.result(&keyed(resume(&id))).await["taskId"], first["taskId"]);
    assert_ne!(world.result(&resume(&id)).await["taskId"], first["taskId"]);
    let other = world.send(&keyed(resume(&id).with_param("from", json!("number")))).await;
    let reused = "this idempotency key was used for another request; use a new key for a new request";
    assert_eq!(other.error(), (200, -32602, reused.to_owned()));
}

#[tokio::test]
async fn each_refusal_says_why() {
    let (world, id) = after_failing().await;
    let working = world.start("sleeps", json!({"ms": 60_000})).await;
    let refusals: [(Sent, u16, i64, &str); 6] = [
        (resume(&working), 200, -32602, "the task is `working`; only a task that is `failed` can be resumed"),
        (resume("none"), 200, -32602, "task not found"),
        (resume(&id).of(bob()), 200, -32602, "task not found"),
        (
            resume(&id).with_param("from", json!("odd")),
            200,
            -32602,
            "the task has recorded no step `odd`; its journal has the names of its steps",
        ),
        (
            resume(&id).with_param("from", json!(7)),
            200,
            -32602,
            "the params of dev.longhaul/tasks/resume are malformed",
        ),
        (Sent::new(METHOD, json!({})), 200, -32602, "the params of dev.longhaul/tasks/resume are malformed"),
    ];
    for (sent, status, code, message) in refusals {
        assert_eq!(world.send(&sent).await.error(), (status, code, message.to_owned()));
    }
    let undeclared = world.send(&resume(&id).declaring(no_tasks())).await.error();
    assert_eq!((undeclared.0, undeclared.1), (400, -32021));
}
