//! Tools for checking a deployment. Served only if enabled, except for `countdown`.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use futures::future::join_all;
use longhaul::rmcp::handler::server::wrapper::{Json, Parameters};
use longhaul::rmcp::model::{CallToolResult, ContentBlock};
use longhaul::rmcp::{self, ErrorData, tool, tool_router};
use longhaul::{Answer as Given, EndedTask, TaskContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::App;

/// The maximum run time of `fail`, in seconds: a call that hangs fails after it.
pub(crate) const FAIL_RUN_S_MAX: u64 = 45;

/// The exit code of the process that `fail` ends.
const EXIT_CODE: i32 = 70;

/// More bytes than a result may have.
const TOO_MANY_BYTES: usize = 5 * 1024 * 1024;

/// The maximum length of a question, in bytes.
const QUESTION_BYTES_MAX: usize = 2_000;

/// The countdowns of `gather` take 1, 2 and 3 steps in turn, which distinguishes their results.
const STEPS_MAX: u32 = 3;

/// The piece that a large result repeats.
const PIECE: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n";

/// `value`, if it is in this range.
fn within<T: PartialOrd + Display>(name: &str, value: T, range: RangeInclusive<T>) -> Result<T, ErrorData> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (range.start(), range.end());
    Err(ErrorData::invalid_params(format!("`{name}` is {value}: it must be between {least} and {most}"), None))
}

/// The arguments of `countdown`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountdownArgs {
    /// How long to run, in seconds: 0 to 86,400, fractions allowed.
    #[schemars(range(min = 0, max = 86_400))]
    seconds: f64,
    /// The number of steps that the time is divided into, 1 to 4,000; each reports progress.
    #[serde(default = "default_steps")]
    #[schemars(range(min = 1, max = 4_000))]
    steps: u32,
}

const fn default_steps() -> u32 {
    10
}

impl CountdownArgs {
    /// How long each step takes. A step is an entry in the task's journal, which holds 4,096.
    fn step_time(&self) -> Result<Duration, ErrorData> {
        let seconds = within("seconds", self.seconds, 0.0..=86_400.0)?;
        Ok(Duration::from_secs_f64(seconds / f64::from(within("steps", self.steps, 1..=4_000)?)))
    }
}

/// The result of `countdown`.
#[derive(Debug, Serialize, JsonSchema)]
struct CountdownAnswer {
    /// The requested number of seconds.
    seconds: f64,
    /// The number of steps that were run.
    steps: u32,
    /// How many attempts it took: 1, plus one for each time that the work was resumed.
    attempts: u32,
}

/// The arguments of `echo`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EchoArgs {
    /// The text to return.
    text: String,
}

/// A way to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FailureKind {
    /// Return a result that is marked as an error.
    ToolError,
    /// Return a protocol error.
    ProtocolError,
    /// Panic.
    Panic,
    /// End the process at once, as a crash would.
    Exit,
    /// Never return.
    Hang,
    /// Return a result that is larger than allowed.
    TooLarge,
}

/// The arguments of `fail`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FailArgs {
    /// How to fail.
    how: FailureKind,
    /// How many seconds to run before failing: 0 to 30, fractions allowed.
    #[serde(default)]
    #[schemars(range(min = 0, max = 30))]
    after_s: f64,
    /// How many seconds the cleanup takes, after a call that is cancelled or given up: 0 to 30, fractions allowed.
    #[serde(default, alias = "cleaning_s")]
    #[schemars(range(min = 0, max = 30))]
    cleanup_s: f64,
}

impl FailArgs {
    /// How long to run before failing, and how long the cleanup takes.
    fn times(&self) -> Result<[Duration; 2], ErrorData> {
        let times = [within("after_s", self.after_s, 0.0..=30.0)?, within("cleanup_s", self.cleanup_s, 0.0..=30.0)?];
        Ok(times.map(Duration::from_secs_f64))
    }
}

/// The cleanup of a call of `fail`: takes its time, and has nothing to remove.
pub(crate) async fn clean_up(ended: EndedTask) -> Result<(), ErrorData> {
    let [_, cleanup] = ended.arguments::<FailArgs>()?.times()?;
    wait(cleanup).await;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "these tools simulate work that takes time")]
async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The arguments of `ask`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AskArgs {
    /// The questions in order, 1 to 20.
    #[schemars(length(min = 1, max = 20))]
    questions: Vec<String>,
}

impl AskArgs {
    /// Checks whether these questions can be asked. An error counts them from 1.
    fn check(&self) -> Result<(), ErrorData> {
        within("number of questions", self.questions.len(), 1..=20)?;
        for (number, question) in (1..).zip(&self.questions) {
            if question.trim().is_empty() {
                return Err(ErrorData::invalid_params(format!("question {number} is empty"), None));
            }
            within(&format!("bytes of question {number}"), question.len(), 1..=QUESTION_BYTES_MAX)?;
        }
        Ok(())
    }
}

/// The form that the user fills in for each question.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Answer {
    /// The answer to the question.
    answer: String,
}

/// The outcome of one question.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AnswerAction {
    /// It was answered.
    Accept,
    /// The user declined to answer.
    Decline,
    /// The user closed the form.
    Cancel,
}

/// A question with its answer.
#[derive(Debug, Serialize, JsonSchema)]
struct AnsweredQuestion {
    /// The question.
    question: String,
    /// The outcome.
    action: AnswerAction,
    /// The answer, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

/// The result of `ask`.
#[derive(Debug, Serialize, JsonSchema)]
struct AskAnswer {
    /// One for each question, in order.
    answers: Vec<AnsweredQuestion>,
}

/// The arguments of `gather`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GatherArgs {
    /// How many countdowns to call, 1 to 1,000.
    #[schemars(range(min = 1, max = 1_000))]
    calls: u32,
    /// How long each of them runs, in seconds: 0 to 86,400, fractions allowed.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400))]
    seconds: f64,
    /// How many tasks stand between this one and the countdowns, each of which calls the next, 0 to 8. With 8, the
    /// calls are refused, because they would be too deep.
    #[serde(default)]
    #[schemars(range(min = 0, max = 8))]
    levels: u32,
}

impl GatherArgs {
    /// The tool to call, and the arguments of each call. A call takes two of the 4,096 entries of the task's journal.
    fn calls(&self) -> Result<(&'static str, Vec<Value>), ErrorData> {
        let calls = within("calls", self.calls, 1..=1_000)?;
        if let Some(levels) = within("levels", self.levels, 0..=8)?.checked_sub(1) {
            return Ok(("gather", vec![json!({"calls": calls, "seconds": self.seconds, "levels": levels})]));
        }
        let countdown = |number| json!({"seconds": self.seconds, "steps": number % STEPS_MAX + 1});
        Ok(("countdown", (0..calls).map(countdown).collect()))
    }
}

/// The result of `gather`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct GatherAnswer {
    /// How many steps each countdown took, in the order of the calls; 0 for one that failed.
    steps: Vec<u64>,
    /// The first error of a call, if one failed.
    error: Option<String>,
}

impl GatherAnswer {
    /// Adds what a countdown has answered, or a task that has called some.
    fn add(&mut self, called: Result<Value, String>) {
        let further = match called {
            Ok(answer) => serde_json::from_value(answer.clone()).unwrap_or_else(|_of_countdown| Self {
                steps: vec![answer.get("steps").and_then(Value::as_u64).unwrap_or_default()],
                error: None,
            }),
            Err(why) => Self { steps: vec![0], error: Some(why) },
        };
        self.steps.extend(further.steps);
        self.error = self.error.take().or(further.error);
    }
}

/// The arguments of `large_result`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LargeResultArgs {
    /// The length of the text in bytes, 0 to 67,108,864.
    #[schemars(with = "u64", range(min = 0, max = 67_108_864))]
    bytes: usize,
}

/// A text of exactly this many bytes, the same each time. The maximum is far above what a result may hold, so that the
/// limit can be tested.
fn large_text(bytes: usize) -> Result<String, ErrorData> {
    let bytes = within("bytes", bytes, 0..=64 * 1024 * 1024)?;
    let mut text = PIECE.repeat(bytes.div_ceil(PIECE.len()));
    text.truncate(bytes);
    Ok(text)
}

/// The arguments of `tool_env`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ToolEnvArgs {
    /// The name of a setting or a secret.
    name: String,
}

/// The result of `tool_env`.
#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// How many bytes the value has, which may be a secret and is not shown.
    bytes: usize,
}

#[tool_router(router = countdown_tool, vis = "pub(crate)")]
impl App {
    #[tool(
        description = "Runs for the given number of seconds, in equal steps, with a progress report after each. For \
                          checking a deployment."
    )]
    async fn countdown(
        &self,
        Parameters(args): Parameters<CountdownArgs>,
        task: TaskContext,
    ) -> Result<Json<CountdownAnswer>, ErrorData> {
        let step_time = args.step_time()?;
        for step in 1..=args.steps {
            task.step(&format!("step {step}"), || wait(step_time)).await;
            task.progress(step).of(args.steps).await;
        }
        Ok(Json(CountdownAnswer { seconds: args.seconds, steps: args.steps, attempts: task.attempt() }))
    }
}

#[tool_router(router = diagnostic_tools, vis = "pub(crate)")]
impl App {
    #[tool(description = "Returns the given text at once. For checking a deployment.")]
    async fn echo(&self, Parameters(EchoArgs { text }): Parameters<EchoArgs>) -> String {
        text
    }

    #[tool(description = "Fails in the given way, after the given number of seconds. `hang` ends when the tool's \
                          maximum run time of 45 seconds has elapsed; `exit` ends the server process. For checking a \
                          deployment.")]
    #[expect(clippy::panic, reason = "the caller asked for it")]
    async fn fail(
        &self,
        Parameters(args): Parameters<FailArgs>,
        task: TaskContext,
    ) -> Result<CallToolResult, ErrorData> {
        let [after, _] = args.times()?;
        task.step("wait", || wait(after)).await;
        match args.how {
            FailureKind::ToolError => Ok(CallToolResult::error(vec![ContentBlock::text("failed, as asked")])),
            FailureKind::ProtocolError => Err(ErrorData::internal_error("failed, as asked", None)),
            FailureKind::Panic => panic!("failed, as asked"),
            FailureKind::Exit => std::process::exit(EXIT_CODE),
            FailureKind::Hang => std::future::pending().await,
            FailureKind::TooLarge => Ok(CallToolResult::success(vec![ContentBlock::text("x".repeat(TOO_MANY_BYTES))])),
        }
    }

    #[tool(description = "Asks the user the given questions, one after the other, and returns all answers. For \
                          checking a deployment.")]
    async fn ask(
        &self,
        Parameters(args): Parameters<AskArgs>,
        task: TaskContext,
    ) -> Result<Json<AskAnswer>, ErrorData> {
        args.check()?;
        let mut answers = Vec::with_capacity(args.questions.len());
        for (number, question) in (1..).zip(args.questions) {
            // Keys stay the same when the call is run again.
            let (action, answer) = match task.ask::<Answer>(&format!("question-{number}"), question.as_str()).await? {
                Given::Accepted(Answer { answer }) => (AnswerAction::Accept, Some(answer)),
                Given::Declined => (AnswerAction::Decline, None),
                // Cancelled, or a kind of answer that a later version adds.
                _ => (AnswerAction::Cancel, None),
            };
            answers.push(AnsweredQuestion { question, action, answer });
        }
        Ok(Json(AskAnswer { answers }))
    }

    #[tool(
        description = "Calls `countdown` many times at once, each as a task of its own, and waits for all of them. \
                          For checking a deployment."
    )]
    async fn gather(
        &self,
        Parameters(args): Parameters<GatherArgs>,
        task: TaskContext,
    ) -> Result<Json<GatherAnswer>, ErrorData> {
        let (tool, calls) = args.calls()?;
        let calls = calls.into_iter().enumerate().map(|(number, arguments)| {
            let task = task.clone();
            async move { task.call(&format!("call {number}"), tool, arguments).await }
        });
        let mut answer = GatherAnswer::default();
        for called in join_all(calls).await {
            let called = called.map(|result| result.structured_content.unwrap_or_default());
            answer.add(called.map_err(|error| error.message.into_owned()));
        }
        Ok(Json(answer))
    }

    #[tool(description = "Returns a text of the given number of bytes. For checking a deployment and its limits.")]
    async fn large_result(&self, Parameters(args): Parameters<LargeResultArgs>) -> Result<String, ErrorData> {
        large_text(args.bytes)
    }

    #[tool(
        description = "Says how many bytes a setting or a secret of the tools has, and fails if it is not set. For \
                          checking a deployment."
    )]
    async fn tool_env(&self, Parameters(args): Parameters<ToolEnvArgs>) -> Result<Json<Found>, ErrorData> {
        Ok(Json(Found { bytes: self.env().get(&args.name)?.len() }))
    }
}

#[cfg(test)]
mod tests;
