//! A task that a test takes through its life.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::{Clock, Failure, FailureKind, Progress, State as TaskState, TaskId, TaskKey, strict_json};
use serde_json::{Map, Value, json};

use super::TestError;
use super::error::unexpected;
use super::failures::{self, Times};
use super::run::{End, JournalEntry, Run, steps, texts};
use super::world::World;

/// Attempts of one task, and times to which the clock jumps.
const TURNS_MAX: usize = 10_000;

/// A task that a test takes through its life: nothing happens between two calls of its methods, and no time passes.
///
/// ```
/// use std::time::Duration;
/// use longhaul::testing::{self, State};
/// use longhaul::TaskContext;
///
/// async fn remind(task: TaskContext) -> String {
///     task.sleep("an hour", Duration::from_secs(3_600)).await;
///     "it is time".to_owned()
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), testing::TestError> {
/// let mut task = testing::tool(remind).begin().await?;
/// assert_eq!(task.work().await?, State::Working);
/// task.pass(Duration::from_secs(3_599));
/// assert_eq!(task.work().await?, State::Working);
/// task.pass(Duration::from_secs(1));
/// assert_eq!(task.work().await?, State::Completed);
/// assert!(task.state().await?.is_end());
/// assert_eq!(task.to_end().await?.text(), "it is time");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing runs before `work` or `to_end`"]
pub struct Running {
    pub(super) world: World,
    pub(super) key: TaskKey,
    /// The user's answers.
    answers: BTreeMap<String, Value>,
    /// How the task has to end.
    end: End,
    /// The steps that the test lets fail.
    failing: Vec<String>,
    /// The questions to the user, in the order in which they were seen.
    asked: Vec<String>,
}

/// How a task is, as its client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It runs, sleeps, or waits for a worker.
    Working,
    /// It asks these questions.
    Asks(Vec<Question>),
    /// It has a result, which may be an error of the tool.
    Completed,
    /// It has an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl State {
    /// Whether the task has ended.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        match self {
            Self::Working | Self::Asks(_) => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }
}

/// A question of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Question {
    /// The key, as the tool chose it.
    pub key: String,
    /// The request that the client gets: its `method` and `params`.
    pub request: Value,
}

impl Running {
    /// Lets these steps fail, as if an attempt before had tried them.
    pub(super) async fn fail_steps(&mut self, failures: &[(String, Times, Value)]) -> Result<(), TestError> {
        if failures.is_empty() {
            return Ok(());
        }
        self.failing = failures.iter().map(|(step, ..)| step.clone()).collect();
        self.world.seed(&self.key, &failures::recorded(failures, self.world.clock.now())).await
    }

    pub(super) async fn begin(
        world: World,
        tool: &str,
        arguments: Value,
        answers: BTreeMap<String, Value>,
        end: End,
    ) -> Result<Self, TestError> {
        let call = json!({"name": tool, "arguments": arguments});
        let answer = world.client.request("tools/call", tool, call).await?;
        let Some(id) = answer.get("taskId").and_then(Value::as_str) else { return Err(not_a_task(tool, &answer)) };
        let id: TaskId =
            id.parse().map_err(|error| TestError::Unexpected(format!("`{id}` is not a task's id: {error}")))?;
        let key = TaskKey::new(world.client.caller.owner, id);
        Ok(Self { world, key, answers, end, failing: Vec::new(), asked: Vec::new() })
    }

    /// Works until there is nothing more to do at this time.
    pub async fn work(&mut self) -> Result<State, TestError> {
        for _ in 0..TURNS_MAX {
            if !self.world.work_once(&self.key).await? {
                return self.state().await;
            }
        }
        Err(TestError::NeverEnds { attempts: TURNS_MAX })
    }

    /// Lets time pass. Work that is due then is done by the next [`work`](Self::work).
    pub fn pass(&mut self, time: Duration) {
        self.world.clock.advance_ms(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    }

    /// How the task is now, as a poll of its client shows it.
    pub async fn state(&mut self) -> Result<State, TestError> {
        let view = self.poll().await?;
        let state = match view.get("status").and_then(Value::as_str) {
            Some("working") => State::Working,
            Some("input_required") => State::Asks(questions(&view)),
            Some("completed") => State::Completed,
            Some("failed") => State::Failed,
            Some("cancelled") => State::Cancelled,
            other => return Err(TestError::Unexpected(format!("a task with the status {other:?}"))),
        };
        if let State::Asks(questions) = &state {
            let new = questions.iter().map(|question| &question.key).filter(|key| !self.asked.contains(key));
            let new: Vec<String> = new.cloned().collect();
            self.asked.extend(new);
        }
        Ok(state)
    }

    /// The user fills in the form of the question `key` with this object.
    ///
    /// # Errors
    /// [`TestError::NotAsked`] if the task does not ask this now.
    pub async fn answer(&mut self, key: &str, form: Value) -> Result<(), TestError> {
        self.respond(key, json!({"action": "accept", "content": form})).await
    }

    /// The user says no to the question `key`.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub async fn decline(&mut self, key: &str) -> Result<(), TestError> {
        self.respond(key, json!({"action": "decline"})).await
    }

    /// The client responds with this to the request `key`.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub async fn respond(&mut self, key: &str, response: Value) -> Result<(), TestError> {
        let open: Vec<String> = match self.state().await? {
            State::Asks(questions) => questions.into_iter().map(|question| question.key).collect(),
            State::Working | State::Completed | State::Failed | State::Cancelled => Vec::new(),
        };
        if !open.iter().any(|asked| asked == key) {
            return Err(TestError::NotAsked { question: key.to_owned(), open });
        }
        self.send_response(key, response).await
    }

    async fn send_response(&self, key: &str, response: Value) -> Result<(), TestError> {
        let id = self.key.id.to_string();
        let update = json!({"taskId": id, "inputResponses": {key: response}});
        self.world.client.request("tasks/update", &id, update).await.map(drop)
    }

    /// The client cancels the task.
    pub async fn cancel(&mut self) -> Result<(), TestError> {
        let id = self.key.id.to_string();
        self.world.client.request("tasks/cancel", &id, json!({"taskId": id})).await.map(drop)
    }

    /// The recorded progress: the last report of each attempt, and others in between.
    pub async fn progress(&self) -> Result<Option<Progress>, TestError> {
        let found = self.world.engine.poll(&self.key).await;
        found.map(|task| task.progress.clone()).map_err(unexpected)
    }

    /// The recorded entries, in the order in which they were recorded.
    pub async fn journal(&self) -> Result<Vec<JournalEntry>, TestError> {
        let entries = self.world.store().journal(&self.key).await.map_err(unexpected)?;
        let mut journal = Vec::new();
        for entry in entries {
            let text = self.world.engine.load(&self.key, &entry.value).await.map_err(unexpected)?;
            // What a tool returns as a state between rounds of questions is any text.
            let value = strict_json::from_str(&text).unwrap_or(Value::String(text));
            journal.push(JournalEntry { kind: entry.kind, name: entry.name, value, recording: entry.recording });
        }
        let order = self.world.script.recorded();
        let position =
            |entry: &JournalEntry| order.iter().position(|(kind, name)| (*kind, name) == (entry.kind, &entry.name));
        journal.sort_by_key(|entry| position(entry).unwrap_or(usize::MAX));
        Ok(journal)
    }

    /// Runs the task to its end: time passes, crashed attempts are repeated, questions are answered as the call says.
    ///
    /// # Errors
    /// [`TestError`], including a task that does not end as it [was expected to](super::Call::expect_failure), and an
    /// answer to a question that the tool never asked.
    pub async fn to_end(self) -> Result<Run, TestError> {
        let (expected, answered) = (self.end, self.answers.keys().cloned().collect::<Vec<_>>());
        let run = self.run_to_an_end().await?;
        run.check_end(expected)?;
        run.check_asked(answered)?;
        Ok(run)
    }

    /// The same, for every end.
    pub(super) async fn run_to_an_end(mut self) -> Result<Run, TestError> {
        for _ in 0..TURNS_MAX {
            match self.work().await? {
                State::Working => self.pass_until_something_happens().await?,
                State::Asks(questions) => self.answer_or_wait(&questions).await?,
                State::Completed | State::Failed | State::Cancelled => return self.ended().await,
            }
        }
        Err(TestError::NeverEnds { attempts: TURNS_MAX })
    }

    async fn answer_or_wait(&mut self, questions: &[Question]) -> Result<(), TestError> {
        let mut is_answered = false;
        for question in questions {
            if let Some(response) = self.answers.get(&question.key).cloned() {
                self.send_response(&question.key, response).await?;
                is_answered = true;
            }
        }
        if is_answered {
            return Ok(());
        }
        // A question may race with a sleep, at whose end the tool goes on.
        let task = self.world.engine.poll(&self.key).await.map_err(unexpected)?;
        if matches!(task.state, longhaul_core::State::InputRequired { until: None, .. }) {
            let questions = questions.iter().map(|question| question.key.clone()).collect();
            return Err(TestError::Unanswered { questions });
        }
        self.pass_until_something_happens().await
    }

    /// Never past the task's deadline at once: there the client sees that the task has failed, and why. Much later it
    /// would not find it.
    async fn pass_until_something_happens(&self) -> Result<(), TestError> {
        let World { clock, engine, .. } = &self.world;
        // A message that was lost with its process is sent again by a poll.
        let resent = clock.now().plus_ms(engine.settings().resend_ms);
        let next = self.world.next_at().unwrap_or(resent);
        let task = engine.poll(&self.key).await.map_err(unexpected)?;
        clock.advance_to(next.min(task.deadline()));
        Ok(())
    }

    async fn poll(&self) -> Result<Map<String, Value>, TestError> {
        let id = self.key.id.to_string();
        self.world.client.request("tasks/get", &id, json!({"taskId": id})).await
    }

    async fn ended(mut self) -> Result<Run, TestError> {
        let mut view = self.poll().await?;
        let task = self.world.engine.poll(&self.key).await.map_err(unexpected)?;
        let elapsed = self.world.elapsed();
        let variables = match &task.variables {
            None => Map::new(),
            Some(payload) => {
                let text = self.world.engine.load(&self.key, payload).await.map_err(unexpected)?;
                strict_json::from_str(&text).map_err(unexpected)?
            }
        };
        Box::pin(self.clean_up()).await?;
        // Compensations are recorded too.
        let journal = self.journal().await?;
        let (script, status) = (Arc::clone(&self.world.script), task.status());
        let mut left = script.left();
        let attempts = script.attempts();
        let came = |step: &String| attempts.iter().flatten().any(|seen| seen.step() == step);
        left.extend(self.failing.iter().filter(|step| !came(step)).map(|step| format!("a failure of step `{step}`")));
        if !left.is_empty() {
            let (moments, status) = (left.join(", "), status.as_str().to_owned());
            return Err(TestError::NeverReached { moments, status, steps: steps(&journal) });
        }
        let timed_out = |failure: &Failure| failure.kind == FailureKind::TimedOut;
        Ok(Run {
            status,
            has_timed_out: matches!(&task.state, TaskState::Failed { failure } if timed_out(failure)),
            result: view.remove("result"),
            error: view.remove("error"),
            journal,
            variables,
            asked: self.asked,
            progress: task.progress.clone(),
            // The one that has left the failures ran no tool.
            attempts: task.attempt - u32::from(!self.failing.is_empty()),
            elapsed,
            cleanups: self.world.cleanups(),
            script,
        })
    }

    /// Works, and lets time pass, until there is nothing to clean up the task.
    async fn clean_up(&mut self) -> Result<(), TestError> {
        for _ in 0..TURNS_MAX {
            let found = self.world.store().get(&self.key, self.world.clock.now()).await;
            let found = found.map_err(unexpected)?;
            let Some(task) = found.filter(|task| task.needs_cleanup()) else { return Ok(()) };
            if !self.world.work_once(&task.key()).await? {
                let World { clock, engine, .. } = &self.world;
                let resent = clock.now().plus_ms(engine.settings().resend_ms);
                clock.advance_to(self.world.next_at().unwrap_or(resent));
                // A message that was lost with its process is sent again.
                engine.poll(&self.key).await.map_err(unexpected)?;
            }
        }
        Err(TestError::NeverEnds { attempts: TURNS_MAX })
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("task", &self.key.id).finish_non_exhaustive()
    }
}

/// Why a call was answered at once: its arguments are not valid, or it is not one that becomes a task.
fn not_a_task(tool: &str, answer: &Map<String, Value>) -> TestError {
    if answer.get("isError") == Some(&Value::Bool(true)) {
        return TestError::Refused { request: "tools/call", message: texts(answer) };
    }
    TestError::NotATask { tool: tool.to_owned() }
}

fn questions(view: &Map<String, Value>) -> Vec<Question> {
    let requests = view.get("inputRequests").and_then(Value::as_object);
    let question = |(key, request): (&String, &Value)| Question { key: key.clone(), request: request.clone() };
    requests.into_iter().flatten().map(question).collect()
}
