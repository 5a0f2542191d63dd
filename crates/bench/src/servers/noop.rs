//! The durable server: a tool that does nothing, one that never ends, one of steps, and one with a long result.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use longhaul::serve::{Options, init_logs, serve};
use longhaul::{Server, TaskContext, TaskPolicy};
use longhaul_core::settings::{QueueAt, StoreAt, table};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{ServerHandler, tool, tool_handler, tool_router};

use super::life::{self, Blob, Life};

/// How long ended tasks stay: longer than a run takes.
const RETENTION: Duration = Duration::from_hours(6);

struct Noop;

static ROUTER: LazyLock<ToolRouter<Noop>> = LazyLock::new(Noop::tool_router);

#[tool_router]
impl Noop {
    #[tool(description = "Does nothing")]
    async fn noop(&self) -> String {
        "done".to_owned()
    }

    #[tool(description = "Never ends")]
    async fn hold(&self) -> String {
        std::future::pending().await
    }

    #[tool(description = "Sleeps for a day")]
    async fn nap(&self, task: TaskContext) -> String {
        task.sleep("sleep", Duration::from_hours(24)).await;
        "done".to_owned()
    }

    #[tool(description = "Runs steps, and answers with the sum of their numbers")]
    async fn life(&self, Parameters(life): Parameters<Life>, task: TaskContext) -> String {
        let mut sum = 0;
        for number in 0..life.steps {
            sum += task.step(&format!("step {number}"), || life::step(&life, number)).await;
        }
        sum.to_string()
    }

    #[tool(description = "Answers with a long text")]
    async fn blob(&self, Parameters(blob): Parameters<Blob>) -> String {
        blob.text()
    }
}

#[tool_handler(router = ROUTER)]
impl ServerHandler for Noop {}

/// Serves from a file until it is asked to stop.
pub(crate) fn run(listen: SocketAddr, db: PathBuf) -> anyhow::Result<()> {
    run_with(Options::default().with(&table::LISTEN, listen).with(&table::DB, db))
}

/// The same from a table and a queue, as in a container.
pub(crate) fn run_on_aws(listen: SocketAddr, name: String, queue_url: String) -> anyhow::Result<()> {
    let options = Options::default().with(&table::LISTEN, listen);
    let options = options.with(&table::STORE, StoreAt::Dynamodb(name)).with(&table::QUEUE, QueueAt::Sqs(queue_url));
    run_with(options)
}

fn run_with(options: Options) -> anyhow::Result<()> {
    init_logs(&options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(serve(server(), options))?)
}

fn server() -> Server {
    let policy = TaskPolicy::required().retention(RETENTION);
    // Clients that know no tasks get the plain answer.
    let either = TaskPolicy::optional().retention(RETENTION);
    Server::new(|| Noop)
        .task("noop", policy.clone())
        .task("hold", policy.clone())
        .task("nap", policy.run_at_most(Duration::from_hours(48)))
        .task("life", either.clone())
        .task("blob", either)
}
