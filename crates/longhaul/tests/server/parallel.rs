//! Calls of other tools with their types, and branches with a limit and a rule for their end.

use longhaul::rmcp::handler::server::wrapper::{Json, Parameters};
use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::testing::{self, Call};
use longhaul::{Parallel, Retry, Server, TaskContext, TaskPolicy};
use serde_json::{Value, json};

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Region {
    region: String,
}

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Sales {
    sold: u64,
}

#[derive(Clone)]
struct Reports;

#[tool_router]
impl Reports {
    #[tool]
    async fn sales(&self, Parameters(Region { region }): Parameters<Region>) -> Result<Json<Sales>, ErrorData> {
        match region.as_str() {
            "nowhere" => Err(ErrorData::internal_error("there is no such region", None)),
            _ => Ok(Json(Sales { sold: u64::try_from(region.len()).unwrap_or(0) })),
        }
    }

    #[tool]
    async fn name(&self) -> String {
        "the company".to_owned()
    }

    #[tool]
    async fn total(&self, task: TaskContext) -> Result<String, ErrorData> {
        let name: String = task.call_tool("name", "name", &json!({})).await?;
        let regions = ["north", "south", "east", "nowhere"];
        let calls = regions.map(|region| {
            let task = task.clone();
            async move {
                let arguments = Region { region: region.to_owned() };
                task.call_tool::<Sales>(&format!("sales of {region}"), "sales", &arguments).await
            }
        });
        let sales = task.parallel("sales", Parallel::all().limit(2), calls).await;
        let (mut sold, mut failed) = (0, Vec::new());
        for outcome in sales.each().into_iter().flatten() {
            match outcome {
                Ok(sales) => sold += sales.sold,
                Err(error) => failed.push(error.message),
            }
        }
        Ok(format!("{name} {sold} {failed:?}"))
    }

    #[tool]
    async fn wrong(&self, task: TaskContext) -> Result<String, ErrorData> {
        let sales: Sales = task.call_tool("name", "name", &json!({})).await?;
        Ok(sales.sold.to_string())
    }
}

#[tool_handler]
impl ServerHandler for Reports {}

fn call(tool: &str) -> Call {
    let server = ["sales", "name", "total", "wrong"]
        .into_iter()
        .fold(Server::new(|| Reports), |server, tool| server.task(tool, TaskPolicy::optional()));
    testing::of(&server).call(tool, json!({}))
}

#[tokio::test]
async fn calls_of_other_tools_have_types_and_their_errors_names() {
    call("total").to_end().await.unwrap().assert_text("the company 14 [\"there is no such region\"]");
    let run = call("wrong").expect_failure().to_end().await.unwrap();
    run.assert_error("the result of the call `name` of `name` is not what the tool expects");
}

/// Five branches, of which the second fails for good.
async fn branches(task: TaskContext, parallel: Parallel) -> Value {
    let branches = (1..=5).map(|number: u32| {
        let task = task.clone();
        async move {
            let work = async || if number == 2 { Err(format!("no {number}")) } else { Ok(number) };
            task.try_step(&format!("branch {number}"), work).retry(Retry::never()).await
        }
    });
    let outcomes = task.parallel("branches", parallel.limit(1), branches).await.each();
    task.step("after", async || ()).await;
    json!(outcomes.into_iter().map(|outcome| outcome.map(|one| one.unwrap_or(0))).collect::<Vec<_>>())
}

fn run(parallel: Parallel) -> Call {
    testing::tool(move |task| async move { branches(task, parallel).await.to_string() })
}

#[tokio::test]
async fn the_branches_that_count_are_the_same_after_every_crash() {
    for (parallel, expected, entries) in [
        (Parallel::all(), "[1,0,3,4,5]", 6),
        (Parallel::until_first_error(), "[1,0,null,null,null]", 4),
        (Parallel::at_least(2), "[1,0,3,null,null]", 5),
        (Parallel::at_least(5), "[1,0,null,null,null]", 4),
    ] {
        let result = run(parallel).to_end().await.unwrap();
        result.assert_text(expected);
        assert_eq!(result.journal().len(), entries, "{}", result.report());
        run(parallel).crash_everywhere().await.unwrap();
    }
}
