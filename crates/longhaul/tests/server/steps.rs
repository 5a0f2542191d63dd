//! Steps that fail: they are tried again, their last error is recorded, and what follows from it survives a crash.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use longhaul::rmcp::{self, ErrorData, ServerHandler, tool, tool_handler, tool_router};
use longhaul::serve::{self, Options};
use longhaul::testing::{self, Call, Run};
use longhaul::{Retry, Server, StepContext, StepError, TaskContext, TaskPolicy};
use longhaul_core::settings::table;
use longhaul_core::{EntryKind, Status};
use serde::{Deserialize, Serialize};

const SECOND: Duration = Duration::from_secs(1);

/// A bank that refuses so many payments, and the count of payments that it was asked for.
#[derive(Clone)]
struct Bank {
    asked: Arc<AtomicU32>,
    refuses: u32,
}

impl Bank {
    fn refusing(refuses: u32) -> Self {
        Self { asked: Arc::default(), refuses }
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }

    async fn pay(&self) -> Result<String, ErrorData> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if number > self.refuses {
            return Ok(format!("payment {number}"));
        }
        Err(ErrorData::internal_error(format!("refused, {number}"), None))
    }
}

async fn book(bank: &Bank, task: &TaskContext) -> Result<String, ErrorData> {
    task.step("flight", async || ()).await;
    let retry = Retry::exponential(2 * SECOND, 60 * SECOND).tries(5);
    match task.try_step("pay", || bank.pay()).retry(retry).await {
        Ok(payment) => Ok(payment),
        Err(error) => {
            task.step("undo flight", async || ()).await;
            Err(error)
        }
    }
}

/// A booking whose payment is refused so often.
fn booking(bank: &Bank) -> Call {
    let bank = bank.clone();
    testing::tool(move |task: TaskContext| {
        let bank = bank.clone();
        async move { book(&bank, &task).await }
    })
}

#[tokio::test]
async fn a_step_is_tried_as_often_as_its_policy_says_although_each_pause_ends_the_attempt() {
    let bank = Bank::refusing(4);
    let run = booking(&bank).to_end().await.unwrap();
    assert_eq!((run.text().as_str(), bank.asked(), run.attempts()), ("payment 5", 5, 5));
    assert!(run.elapsed() >= 15 * SECOND, "pauses of up to 2, 4, 8 and 16 s, of which chance takes at most a half");
    let bank = Bank::refusing(5);
    let run = booking(&bank).expect_failure().to_end().await.unwrap();
    assert_eq!((run.status(), run.text().as_str(), bank.asked()), (Status::Failed, "refused, 5", 5));
}

#[tokio::test]
async fn a_compensation_is_not_taken_back_by_a_crash_after_which_the_step_would_succeed() {
    let moments: [fn(Call) -> Call; 4] = [
        |call| call.crash_after("pay"),
        |call| call.crash_before("undo flight"),
        |call| call.crash_after("undo flight"),
        Call::crash_at_end,
    ];
    for crash in moments {
        // It would take the sixth payment.
        let bank = Bank::refusing(5);
        let run = crash(booking(&bank)).expect_failure().to_end().await.unwrap();
        assert_eq!((run.text().as_str(), bank.asked()), ("refused, 5", 5));
        assert_eq!(run.steps(), ["flight", "pay", "undo flight"]);
    }
    testing::tool(always_refused).crash_everywhere().await.unwrap();
}

async fn always_refused(task: TaskContext) -> Result<String, ErrorData> {
    let refused = async || Err::<String, _>(ErrorData::internal_error("refused", None));
    match task.try_step("pay", refused).retry(Retry::fixed(60 * SECOND).tries(3)).await {
        Ok(payment) => Ok(payment),
        Err(error) => task.try_step("pay later", async || Ok::<_, ErrorData>(error.message.to_string())).await,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum NotPaid {
    NoMoney { missing: u64 },
    Step(StepError),
}

impl From<StepError> for NotPaid {
    fn from(error: StepError) -> Self {
        Self::Step(error)
    }
}

#[tokio::test]
async fn an_error_has_its_own_type_after_a_crash() {
    async fn pay(task: TaskContext) -> Result<String, ErrorData> {
        let broke = async || Err::<(), _>(NotPaid::NoMoney { missing: u64::MAX });
        let error = task.try_step("pay", broke).retry(Retry::never()).await.unwrap_err();
        task.step("then", async || ()).await;
        assert_eq!(error, NotPaid::NoMoney { missing: u64::MAX });
        Ok("not paid".to_owned())
    }
    let run = testing::tool(pay).crash_after("pay").to_end().await.unwrap();
    assert_eq!((run.text().as_str(), run.times("pay")), ("not paid", 1));
    testing::tool(pay).crash_everywhere().await.unwrap();
}

/// How often the step of a tool ran that returns this error.
async fn tries(error: ErrorData, decide: fn(&StepContext, ErrorData) -> ErrorData) -> (u32, String) {
    let run = testing::tool(move |task: TaskContext| {
        let error = error.clone();
        async move {
            let work = |step: StepContext| std::future::ready(Err::<(), _>(decide(&step, error.clone())));
            task.try_step("work", work).await.map(|()| String::new())
        }
    });
    let run = run.expect_failure().to_end().await.unwrap();
    (run.times("work"), run.text())
}

#[tokio::test]
async fn only_errors_that_may_pass_are_tried_again() {
    let unchanged = |_step: &StepContext, error| error;
    assert_eq!(tries(ErrorData::internal_error("busy", None), unchanged).await, (3, "busy".to_owned()));
    assert_eq!(tries(ErrorData::invalid_params("wrong", None), unchanged).await, (1, "wrong".to_owned()));
    let terminal = |step: &StepContext, error| step.terminal(error);
    assert_eq!(tries(ErrorData::internal_error("gone", None), terminal).await, (1, "gone".to_owned()));
    let at_the_second = |step: &StepContext, error| if step.attempt() == 2 { step.terminal(error) } else { error };
    assert_eq!(tries(ErrorData::internal_error("gone", None), at_the_second).await, (2, "gone".to_owned()));
}

#[tokio::test]
async fn an_author_decides_which_errors_are_tried_again() {
    async fn work(task: TaskContext) -> Result<(), String> {
        let counted = |step: StepContext| async move { Err::<(), _>(format!("error {}", step.attempt())) };
        let retry = Retry::fixed(SECOND).tries(9);
        task.try_step("work", counted).retry(retry).retry_if(|error: &String| error != "error 4").await
    }
    let run = testing::tool(|task| async move { work(task).await.unwrap_err() }).to_end().await.unwrap();
    assert_eq!((run.text().as_str(), run.times("work")), ("error 4", 4));
}

/// The key of a step, in its third try.
fn third_key(step: &StepContext) -> Result<String, ErrorData> {
    let is_third = step.attempt() == 3;
    is_third.then(|| step.idempotency_key()).ok_or_else(|| ErrorData::internal_error("no", None))
}

#[tokio::test]
async fn every_try_of_a_step_has_its_key_and_no_other_step_has_it() {
    async fn keys(task: TaskContext) -> Result<String, ErrorData> {
        let mut keys = Vec::new();
        for name in ["a", "b"] {
            keys.push(task.try_step(name, |step: StepContext| std::future::ready(third_key(&step))).await?);
        }
        Ok(keys.join(" "))
    }
    let text = testing::tool(keys).to_end().await.unwrap().text();
    let (first, second) = text.split_once(' ').unwrap();
    assert_ne!(first, second);
    assert!(text.split(' ').all(|key| key.len() == 32 && key.chars().all(|digit| digit.is_ascii_hexdigit())), "{text}");
}

async fn pays_once(task: TaskContext) -> Result<String, ErrorData> {
    match task.try_step("pay", async || Ok::<_, ErrorData>("paid".to_owned())).at_most_once().await {
        Err(error) => match StepError::of(&error) {
            Some(StepError::MayHaveRun { step }) => Ok(task.step("ask the bank", async || format!("{step}?")).await),
            _ => Err(error),
        },
        paid => paid,
    }
}

fn outcome(run: &Run) -> (String, u32) {
    (run.text(), run.times("pay"))
}

#[tokio::test]
async fn work_that_runs_at_most_once_is_not_run_again() {
    let call = || testing::tool(pays_once);
    assert_eq!(outcome(&call().to_end().await.unwrap()), ("paid".to_owned(), 1));
    assert_eq!(outcome(&call().crash_before_record("pay").to_end().await.unwrap()), ("pay?".to_owned(), 1));
    let twice = call().crash_before_record("pay").crash_after("pay").to_end().await.unwrap();
    assert_eq!(outcome(&twice), ("pay?".to_owned(), 1));
    assert_eq!(outcome(&call().crash_after("pay").to_end().await.unwrap()), ("paid".to_owned(), 1));
    assert_eq!(outcome(&call().crash_at_begin().to_end().await.unwrap()), ("paid".to_owned(), 1));
    call().crash_everywhere().await.unwrap();
}

#[tokio::test]
async fn at_most_once_and_a_retry_contradict_each_other() {
    async fn both(task: TaskContext) -> Result<(), ErrorData> {
        task.try_step("pay", async || Ok::<_, ErrorData>(())).at_most_once().retry(Retry::default()).await
    }
    let tool = |task| async move { both(task).await.map(|()| String::new()) };
    let run = testing::tool(tool).expect_failure().to_end().await.unwrap();
    assert_eq!(run.status(), Status::Failed);
    assert_eq!(run.text(), "step `pay` has both `at_most_once` and `retry`; take one of them away");
}

#[tokio::test]
async fn failed_tries_are_in_the_journal_and_a_value_that_came_at_once_has_none() {
    let run = booking(&Bank::refusing(2)).to_end().await.unwrap();
    let tries: Vec<_> = run.journal().iter().filter(|entry| entry.kind == EntryKind::Try).collect();
    assert_eq!(tries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["pay#1", "pay#2"]);
    assert!(tries[0].value["error"]["message"] == "refused, 1", "{:?}", tries[0].value);
    let run = booking(&Bank::refusing(0)).to_end().await.unwrap();
    assert!(run.journal().iter().all(|entry| entry.kind == EntryKind::Step), "{:?}", run.journal());
}

#[derive(Clone)]
struct Slow;

#[tool_router]
impl Slow {
    #[tool]
    async fn wait(&self, task: TaskContext) -> Result<String, ErrorData> {
        let never = || std::future::pending::<Result<String, ErrorData>>();
        task.try_step("wait", never).timeout(Duration::from_millis(10)).retry(Retry::never()).await
    }
}

#[tool_handler]
impl ServerHandler for Slow {}

#[tokio::test]
async fn a_try_that_takes_too_long_is_dropped() {
    for server in [Server::new(|| Slow), Server::new(|| Slow).task("wait", TaskPolicy::optional())] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::default().with(&table::LISTEN, SocketAddr::from(([127, 0, 0, 1], 0)));
        let running = serve::start(&server, &options.with(&table::DB, folder.path().join("tasks.db"))).await.unwrap();
        let answer = super::call_of("wait", &running).send().await.unwrap().text().await.unwrap();
        assert!(answer.contains("step `wait` took longer than 10 ms"), "{answer}");
        running.stop().await;
    }
}
