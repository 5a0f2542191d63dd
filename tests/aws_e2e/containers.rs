//! Functions and containers on one table and one queue: what one of them wrote, the other one reads.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::caller::{Caller, structured};
use crate::ground::Resources;
use crate::runtime_host::front_door::Mode;

/// A `local` process on the table and the queue of the functions. Killed when dropped.
struct Container {
    child: Child,
    url: String,
}

impl Container {
    fn start(resources: &Resources, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_local"));
        // The settings of the functions are read by other names here.
        command.envs(resources.env(None)).args(["--listen", "127.0.0.1:0"]);
        command.args(["--store", &format!("dynamodb:{}", resources.table)]);
        command.args(["--queue", &format!("sqs:{}", resources.queue_url)]).args(flags);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let words = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let url = lines.by_ref().flat_map(words).find(|word| word.starts_with("http://")).expect("it prints its URL");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    fn caller(&self) -> Caller {
        Caller::new(&self.url)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test]
async fn functions_and_containers_on_one_table_continue_each_others_tasks() {
    let resources = Resources::new().await;
    let frontend = resources.frontend(Mode::Buffered).await;
    let function = Caller::new(frontend.url());

    // Accepted by the function, run by the container.
    let id = function.call_task("countdown", json!({"seconds": 0.4, "steps": 2})).await;
    let container = Container::start(&resources, &["--diagnostics"]);
    let done = container.caller().until(&id, "completed").await;
    assert_eq!(structured(&done["result"])["attempts"], 1, "{done}");
    assert_eq!(function.get(&id).await["result"], done["result"]);

    // Accepted by the container, run by the worker function.
    drop(container);
    let container = Container::start(&resources, &["--diagnostics", "--role", "http"]);
    let _worker = resources.worker(None);
    let id = container.caller().call_task("countdown", json!({"seconds": 0.4, "steps": 2})).await;
    let done = function.until(&id, "completed").await;
    assert_eq!(structured(&done["result"])["steps"], 2, "{done}");
    assert_eq!(container.caller().get(&id).await["result"], done["result"]);
}
