//! Functions and containers on one table and one queue: what one of them wrote, the other one reads.

use harness::caller::{Caller, structured};
use harness::process::Server;
use harness::runtime_host::front_door::Mode;
use serde_json::json;

use super::ground::Resources;

/// A container on the table and the queue of the functions.
fn container(resources: &Resources, flags: &[&str]) -> Server {
    let mut command = harness::demo();
    // The settings of the functions are read by other names here.
    command.envs(resources.env(None)).args(["--listen", "127.0.0.1:0"]);
    command.args(["--store", &format!("dynamodb:{}", resources.table)]);
    command.args(["--queue", &format!("sqs:{}", resources.queue_url)]).args(flags);
    Server::start(&mut command, None)
}

#[tokio::test]
async fn functions_and_containers_on_one_table_continue_each_others_tasks() {
    let resources = Resources::new().await;
    let frontend = resources.frontend(Mode::Buffered).await;
    let function = Caller::new(frontend.url());

    // Accepted by the function, run by the container.
    let id = function.call_task("countdown", json!({"seconds": 0.4, "steps": 2})).await;
    let running = container(&resources, &["--diagnostics"]);
    let done = running.caller().until(&id, "completed").await;
    assert_eq!(structured(&done["result"])["attempts"], 1, "{done}");
    assert_eq!(function.get(&id).await["result"], done["result"]);

    // Accepted by the container, run by the worker function.
    drop(running);
    let running = container(&resources, &["--diagnostics", "--role", "http"]);
    let _worker = resources.worker(None);
    let id = running.caller().call_task("countdown", json!({"seconds": 0.4, "steps": 2})).await;
    let done = function.until(&id, "completed").await;
    assert_eq!(structured(&done["result"])["steps"], 2, "{done}");
    assert_eq!(running.caller().get(&id).await["result"], done["result"]);
}
