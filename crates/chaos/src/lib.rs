//! The server that `chaos` runs. Its tools note their work in files, which show from outside how often each part was
//! done. `LEDGER` in the environment of its tools names the folder.

#![expect(clippy::disallowed_methods, reason = "the tools of a test take some time")]

mod outside;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use longhaul::rmcp::handler::server::wrapper::{Json, Parameters};
use longhaul::rmcp::model::CallToolResult;
use longhaul::rmcp::{self, ErrorData, ServerHandler, tool, tool_handler, tool_router};
use longhaul::{Answer, EndedTask, Server, TaskContext, TaskPolicy, ToolEnv};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::outside::{Kind, Systems, Work};

/// How long a step takes.
const STEP_MS: u64 = 30;
const STEP: Duration = Duration::from_millis(STEP_MS);

/// How many attempts of a task may be killed in a row before it fails.
const LOST_ATTEMPTS_MAX: u32 = 20;

/// How long a callback is waited for.
const CALLBACK: Duration = Duration::from_secs(600);

/// How long `late` may take, waits included.
pub const DEADLINE: Duration = Duration::from_secs(4);

/// How many steps `late` takes, if nothing stops it: a hundred seconds.
const LATE_STEPS: u32 = 3_000;

/// How many steps each call of `family` takes.
pub const CHILD_STEPS: u32 = 2;

/// Which of the calls of `family` fails.
pub const CHILD_FAILS: u32 = 1;

/// The file in which the runs of the schedule are noted.
pub const TICKS: &str = "ticks";

#[derive(Clone)]
struct Noting {
    env: Arc<ToolEnv>,
    systems: Arc<Result<Systems, String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Steps {
    /// Which file.
    name: String,
    /// How many steps.
    steps: u32,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Family {
    /// The beginning of the names of its calls, and the file of its own.
    name: String,
    /// How many other tools it calls.
    children: u32,
    /// How many steps each of them takes.
    steps: u32,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nap {
    /// Which file.
    name: String,
    /// How long.
    ms: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Text {
    /// Which file.
    name: String,
    /// The files to keep.
    text: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Named {
    /// Which file.
    name: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Reply {
    answer: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Done {
    /// Whose result it is.
    name: String,
    /// The action, or the answer.
    done: String,
}

impl Noting {
    fn note(&self, name: &str, line: &str) -> Result<(), ErrorData> {
        let file = PathBuf::from(self.env.get("LEDGER")?).join(name);
        let written = OpenOptions::new().create(true).append(true).open(&file).and_then(|mut file| {
            // In one write, so that a kill leaves all of the line or nothing.
            file.write_all(format!("{line}\n").as_bytes())
        });
        written.map_err(|error| ErrorData::internal_error(format!("{}: {error}", file.display()), None))
    }

    /// Notes which task this is, in each of its attempts.
    fn note_task(&self, name: &str, task: &TaskContext) -> Result<(), ErrorData> {
        task.task_key().map_or(Ok(()), |key| self.note(name, &format!("task {}", key.id)))
    }

    async fn step(&self, task: &TaskContext, name: &str, line: &str) -> Result<(), ErrorData> {
        self.step_with(task, name, line, || ()).await
    }

    /// The same for a step with a value, which is made when it begins.
    async fn step_with<T: Serialize + DeserializeOwned + Send>(
        &self,
        task: &TaskContext,
        name: &str,
        line: &str,
        value: impl Fn() -> T + Send + Sync,
    ) -> Result<T, ErrorData> {
        let noted = || async {
            let value = value();
            self.note(name, line)?;
            tokio::time::sleep(STEP).await;
            Ok::<_, ErrorData>(value)
        };
        task.try_step(line, noted).await
    }
}

#[tool_router]
impl Noting {
    #[tool(description = "Notes each of its steps")]
    async fn steps(&self, Parameters(args): Parameters<Steps>, task: TaskContext) -> Result<Json<Done>, ErrorData> {
        self.note_task(&args.name, &task)?;
        for number in 1..=args.steps {
            self.step(&task, &args.name, &number.to_string()).await?;
            task.progress(number).of(args.steps).await;
        }
        Ok(Json(Done { name: args.name, done: args.steps.to_string() }))
    }

    #[tool(description = "Does something, sleeps, and does something else")]
    async fn nap(&self, Parameters(args): Parameters<Nap>, task: TaskContext) -> Result<Json<Done>, ErrorData> {
        let before_ms = self.step_with(&task, &args.name, "before", now_ms).await?;
        task.sleep("sleep", Duration::from_millis(args.ms)).await;
        let after_ms = self.step_with(&task, &args.name, "after", now_ms).await?;
        let slept_ms = after_ms.saturating_sub(before_ms);
        let done = if slept_ms >= args.ms + STEP_MS { "slept".to_owned() } else { format!("slept {slept_ms} ms") };
        Ok(Json(Done { name: args.name, done }))
    }

    #[tool(description = "Asks, and returns the answer")]
    async fn ask(&self, Parameters(args): Parameters<Named>, task: TaskContext) -> Result<Json<Done>, ErrorData> {
        self.step(&task, &args.name, "asked").await?;
        let done = match task.ask::<Reply>("which", "Which one?").await? {
            Answer::Accepted(Reply { answer }) => answer,
            _ => "none".to_owned(),
        };
        Ok(Json(Done { name: args.name, done }))
    }

    #[tool(description = "Calls other tools, one of which fails, and waits for all of them")]
    async fn family(&self, Parameters(args): Parameters<Family>, task: TaskContext) -> Result<Json<Done>, ErrorData> {
        self.note_task(&args.name, &task)?;
        let calls = (0..args.children).map(|number| {
            let (task, name) = (task.clone(), format!("{}.{number}", args.name));
            let tool = if number == CHILD_FAILS { "fail" } else { "steps" };
            let arguments = json!({"name": name, "steps": args.steps});
            async move { task.call(&name, tool, arguments).await }
        });
        let ends = join_all(calls).await.into_iter().map(|called| match called {
            Ok(result) => result.structured_content.unwrap_or_default().to_string(),
            Err(error) => error.message.into_owned(),
        });
        Ok(Json(Done { name: args.name, done: ends.collect::<Vec<_>>().join("\n") }))
    }

    #[tool(description = "Hands out a token, and returns what comes back with it")]
    async fn wait(&self, Parameters(args): Parameters<Named>, task: TaskContext) -> Result<Json<Done>, ErrorData> {
        let file = format!("{}.token", args.name);
        let hand_out = |token: String| async move { self.note(&file, &token) };
        let brought: Option<String> = task.callback("news", CALLBACK, hand_out).await?;
        Ok(Json(Done { name: args.name, done: brought.unwrap_or_else(|| "nothing".to_owned()) }))
    }

    #[tool(description = "Records a text, and returns the recorded one")]
    async fn keep(&self, Parameters(args): Parameters<Text>, task: TaskContext) -> Result<Json<Done>, ErrorData> {
        self.note_task(&args.name, &task)?;
        let kept = self.step_with(&task, &args.name, "kept", || args.text.clone()).await?;
        self.step(&task, &args.name, "after").await?;
        Ok(Json(Done { name: args.name, done: kept }))
    }

    #[tool(description = "Continues until it is stopped at its deadline")]
    async fn late(&self, Parameters(args): Parameters<Named>, task: TaskContext) -> Result<Json<Done>, ErrorData> {
        self.note_task(&args.name, &task)?;
        for number in 1..=LATE_STEPS {
            self.step(&task, &args.name, &number.to_string()).await?;
        }
        Ok(Json(Done { name: args.name, done: "not stopped".to_owned() }))
    }

    #[tool(description = "Is called every minute")]
    async fn tick(&self, task: TaskContext) -> Result<Json<Done>, ErrorData> {
        self.note_task(TICKS, &task)?;
        Ok(Json(Done { name: TICKS.to_owned(), done: String::new() }))
    }

    #[tool(description = "Has a job done by a system that recognises a repeated start")]
    async fn job_repeatable(&self, work: Parameters<Work>, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        systems(&self.systems)?.run(Kind::Repeatable, &task, &work.0).await
    }

    #[tool(description = "Has a job done by a system that does not")]
    async fn job_once(&self, work: Parameters<Work>, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        systems(&self.systems)?.run(Kind::Once, &task, &work.0).await
    }

    #[tool(description = "Has an execution of a state machine")]
    async fn job_execution(&self, work: Parameters<Work>, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        systems(&self.systems)?.run(Kind::Execution, &task, &work.0).await
    }

    #[tool(description = "Has a job done by a system that sends its result")]
    async fn job_calls_back(&self, work: Parameters<Work>, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        let brought = systems(&self.systems)?.run_and_be_called(&task, &work.0).await?;
        Ok(CallToolResult::structured(brought.unwrap_or_else(|| json!("nothing"))))
    }

    #[tool(description = "Does something, and fails")]
    async fn fail(&self, Parameters(args): Parameters<Named>, task: TaskContext) -> Result<Json<Done>, ErrorData> {
        self.step(&task, &args.name, "tried").await?;
        Err(ErrorData::invalid_params(format!("{} fails, as it should", args.name), None))
    }
}

#[tool_handler]
impl ServerHandler for Noting {}

fn systems(systems: &Result<Systems, String>) -> Result<&Systems, ErrorData> {
    systems.as_ref().map_err(|why| ErrorData::internal_error(why.clone(), None))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Workers are killed so often that a task may lose more attempts in a row than tasks usually may.
fn policy() -> TaskPolicy {
    TaskPolicy::optional().consecutive_failures_max(LOST_ATTEMPTS_MAX)
}

/// The server, with tools that read this environment.
#[must_use]
pub fn server(env: ToolEnv) -> Server {
    let systems = Arc::new(Systems::of(&env));
    let tools = Noting { env: Arc::new(env), systems: Arc::clone(&systems) };
    let jobs = [("job_repeatable", Kind::Repeatable), ("job_once", Kind::Once), ("job_execution", Kind::Execution)];
    let server = ["steps", "nap", "ask", "family", "wait", "keep", "tick", "fail", "job_calls_back"]
        .into_iter()
        .fold(Server::new(move || tools.clone()), |server, tool| server.task(tool, policy()))
        .task("late", policy().run_at_most(DEADLINE));
    jobs.into_iter()
        .fold(server, |server, (tool, kind)| {
            let systems = Arc::clone(&systems);
            server.task(tool, policy()).clean_up(tool, move |ended: EndedTask| {
                let systems = Arc::clone(&systems);
                async move { self::systems(&systems)?.clean_up(kind, &ended).await }
            })
        })
        .every("each minute", "* * * * *", "tick", json!({}))
}
