//! Tools that say themselves that their calls may become tasks.

use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
use longhaul::testing::{self, TestError};
use longhaul::{Server, TaskContext, TaskPolicy, task_support};
use serde_json::json;

#[derive(Clone)]
struct Reports;

#[tool_router]
impl Reports {
    #[tool(meta = task_support::optional())]
    async fn sales(&self, task: TaskContext) -> String {
        task.step("add up", async || "1,000 sold".to_owned()).await
    }

    #[tool(meta = task_support::required())]
    async fn stock(&self, task: TaskContext) -> String {
        task.step("count", async || "17 left".to_owned()).await
    }

    #[tool]
    async fn version(&self) -> String {
        "1".to_owned()
    }
}

#[tool_handler]
impl ServerHandler for Reports {}

#[tokio::test]
async fn a_tool_that_declares_itself_needs_no_name_in_the_server() {
    let server = testing::of(&Server::new(|| Reports));
    let run = server.call("sales", json!({})).crash_after("add up").to_end().await.unwrap();
    run.assert_text("1,000 sold");
    assert_eq!((run.attempts(), run.times("add up")), (2, 1));
    server.call("stock", json!({})).to_end().await.unwrap().assert_text("17 left");
    let plain = server.call("version", json!({})).to_end().await;
    assert!(matches!(plain, Err(TestError::NotATask { tool }) if tool == "version"));
}

#[tokio::test]
async fn a_policy_refines_what_a_tool_declares_and_a_misspelled_one_is_refused() {
    let one_failure = TaskPolicy::optional().consecutive_failures_max(1);
    let server = testing::of(&Server::new(|| Reports).task("sales", one_failure));
    let run = server.call("sales", json!({})).crash_before("add up").expect_failure().to_end().await.unwrap();
    assert_eq!(run.attempts(), 1);
    server.call("stock", json!({})).crash_before("count").to_end().await.unwrap().assert_text("17 left");
    let misspelled = Server::new(|| Reports).task("sails", TaskPolicy::optional()).check().await.unwrap_err();
    assert_eq!(misspelled.to_string(), "there is no tool `sails`; did you mean `sales`?");
}

/// A function decides about all tools that are not named: that of a gateway, about tools of other servers.
#[tokio::test]
async fn a_function_decides_instead_of_the_tools() {
    let server = testing::of(&Server::new(|| Reports).policies(|tool| (tool == "stock").then(TaskPolicy::optional)));
    server.call("stock", json!({})).to_end().await.unwrap().assert_text("17 left");
    let plain = server.call("sales", json!({})).to_end().await;
    assert!(matches!(plain, Err(TestError::NotATask { tool }) if tool == "sales"));
}

#[tokio::test]
async fn a_tool_that_declares_something_else_is_refused_at_start() {
    #[derive(Clone)]
    struct Wrong;

    #[tool_router]
    impl Wrong {
        #[tool(meta = rmcp::model::MetaObject(rmcp::model::JsonObject::from_iter([(
            "dev.longhaul/taskSupport".to_owned(),
            json!("sometimes"),
        )])))]
        async fn sales(&self) -> String {
            String::new()
        }
    }

    #[tool_handler]
    impl ServerHandler for Wrong {}

    let refused = Server::new(|| Wrong).check().await.unwrap_err().to_string();
    assert!(refused.contains("`sales`") && refused.contains("\"optional\" or \"required\""), "{refused}");
}
