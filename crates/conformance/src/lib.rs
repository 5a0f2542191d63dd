//! The server that the MCP conformance suite calls: the same fixtures in one process, or as two Lambda functions. For
//! tests only; it is never deployed to AWS. Some tools and the schedules are for tests of other things, which need a
//! server of their own as processes and functions, too.

#![expect(deprecated, reason = "the suite also tests what newer revisions have deprecated")]

mod fixtures;

use std::time::Duration;

use longhaul::{Overlap, Schedule, Server, TaskPolicy};
use serde_json::{Value, json};

use fixtures::Fixtures;
pub use fixtures::ListChanges;

/// The fixtures, and which of their tools may or must become tasks.
pub fn server(list_changes: ListChanges) -> Server {
    // Clones share their subscriptions.
    let fixtures = Fixtures::new(list_changes);
    // The suite waits ten seconds for a task.
    let optional = TaskPolicy::optional().poll_every(Duration::from_millis(200));
    let required = TaskPolicy::required().poll_every(Duration::from_millis(200));
    Server::new(move || fixtures.clone())
        .task("slow_compute", optional.clone())
        .task("failing_job", required.clone())
        .task("protocol_error_job", optional.clone())
        .task("confirm_delete", optional.clone())
        .task("multi_input", optional.clone())
        .task("test_tool_with_task", required.after_input())
        .task("approval", optional.clone())
        .task("eager", optional.clone())
        .task("patient", optional)
}

/// The same server, which calls three of its tools every minute: one that ends at once, and two that wait.
pub fn with_schedules(server: Server) -> Server {
    let each_minute = |name: &str, tool: &str| Schedule::new(name, "* * * * *", tool, json!({}));
    server
        .schedule(each_minute("quick", "slow_compute"))
        .schedule(each_minute("eager", "eager").overlap(Overlap::Allow))
        .schedule(each_minute("patient", "patient"))
}

/// The same server, which runs one call of `slow_compute` at a time for each label.
pub fn with_flow_control(server: Server) -> Server {
    let by_label = |arguments: &Value| arguments["label"].to_string();
    server.task("slow_compute", TaskPolicy::optional().concurrency(1).concurrency_key(by_label))
}
