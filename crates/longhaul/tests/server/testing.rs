//! The kit for tests of tools: what it lets happen, and what it finds.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::model::{CallToolResult, ContentBlock};
use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::testing::{self, State, TestError};
use longhaul::{Answer, Every, Server, TaskContext, TaskPolicy};
use longhaul_core::Status;
use serde_json::{Map, Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Migration {
    tables: Vec<String>,
}

#[derive(Clone, Default)]
struct Migrations {
    copies: Arc<AtomicU32>,
}

#[tool_router]
impl Migrations {
    #[tool]
    async fn migrate(
        &self,
        Parameters(Migration { tables }): Parameters<Migration>,
        task: TaskContext,
    ) -> Result<String, ErrorData> {
        let mut rows = 0;
        for (done, table) in tables.iter().enumerate() {
            let copy = async || {
                self.copies.fetch_add(1, Ordering::Relaxed);
                Ok::<_, ErrorData>(1_000)
            };
            rows += task.try_step(&format!("migrate {table}"), copy).await?;
            task.progress(done + 1).of(tables.len()).message(table).await;
        }
        Ok(format!("{rows} rows"))
    }

    #[tool]
    async fn plain(&self) -> String {
        "at once".to_owned()
    }
}

#[tool_handler]
impl ServerHandler for Migrations {}

fn tables() -> Value {
    json!({"tables": ["a", "b", "c"]})
}

#[tokio::test]
async fn a_crash_repeats_what_was_not_recorded_and_nothing_else() {
    let migrations = Migrations::default();
    let call = || testing::server(migrations.clone()).call("migrate", tables());
    for (call, attempts, times) in [
        (call(), 1, 1),
        (call().crash_at_begin(), 2, 1),
        (call().crash_before("migrate b"), 2, 1),
        (call().crash_before_record("migrate b"), 2, 2),
        (call().crash_after("migrate b"), 2, 1),
        (call().crash_at_end(), 2, 1),
        (call().crash_after("migrate a").crash_before_record("migrate b"), 3, 2),
        (call().deliver_twice(), 1, 1),
        (call().deliver_twice().crash_after("migrate b"), 2, 1),
    ] {
        let before = migrations.copies.load(Ordering::Relaxed);
        let text = format!("{call:?}");
        let run = call.to_end().await.unwrap();
        assert_eq!(run.text(), "3000 rows", "{text}");
        assert_eq!((run.attempts(), run.times("migrate b")), (attempts, times), "{text}");
        let copies = migrations.copies.load(Ordering::Relaxed) - before;
        assert_eq!(copies, 2 + times, "{text}");
        assert_eq!(run.steps(), ["migrate a", "migrate b", "migrate c"], "{text}");
        assert_eq!(run.journal()[1].value, json!(1_000), "{text}");
        let progress = run.progress().unwrap();
        assert_eq!((progress.done, progress.total, progress.message.as_deref()), (3.0, Some(3.0), Some("c")), "{text}");
    }
}

#[tokio::test]
async fn a_tool_that_does_the_same_each_time_passes_whatever_crashes() {
    testing::crash_everywhere(Migrations::default(), "migrate", tables()).await.unwrap();
    testing::tool(everything).answer("color", json!({"color": "red"})).crash_everywhere().await.unwrap();
    testing::tool(everything).decline("color").deliver_twice().crash_everywhere().await.unwrap();
    testing::tool(branches).crash_everywhere().await.unwrap();
    testing::tool(failing).expect_failure().crash_everywhere().await.unwrap();
}

#[tokio::test]
async fn an_answer_to_a_question_that_is_never_asked_fails_the_test() {
    let call = || testing::server(Migrations::default()).call("migrate", tables()).decline("sure?");
    for result in [call().to_end().await.map(drop), call().crash_everywhere().await] {
        let Err(TestError::NeverAsked { questions, end }) = result else { panic!("{result:?}") };
        assert_eq!(questions, ["sure?"]);
        assert!(end.contains("3000 rows"), "{end}");
    }
}

#[tokio::test]
async fn a_task_that_does_not_end_as_expected_fails_the_test() {
    for result in [testing::tool(failing).to_end().await.map(drop), testing::tool(failing).crash_everywhere().await] {
        let Err(TestError::Failed { message, report }) = result else { panic!("{result:?}") };
        assert_eq!(message, "that is not a table");
        assert!(report.contains("step `first`: 1"), "{report}");
    }
    let call = || testing::server(Migrations::default()).call("migrate", tables()).expect_failure();
    for result in [call().to_end().await.map(drop), call().crash_everywhere().await] {
        let Err(TestError::DidNotFail { end }) = result else { panic!("{result:?}") };
        assert!(end.contains("3000 rows"), "{end}");
    }
    let run = testing::tool(failing).expect_any_end().to_end().await.unwrap();
    assert_eq!(run.status(), Status::Failed);
    let mut task = call().begin().await.unwrap();
    task.work().await.unwrap();
    let TestError::DidNotFail { .. } = task.to_end().await.unwrap_err() else { panic!() };
}

#[tokio::test]
async fn an_answer_that_the_task_does_not_ask_for_now_fails_the_test() {
    let mut task = testing::tool(everything).answer("colour", json!({})).begin().await.unwrap();
    let early = task.answer("color", json!({"color": "red"})).await.unwrap_err();
    assert_eq!(early.to_string(), "the task does not ask `color` now; it asks []");
    task.work().await.unwrap();
    task.pass(Duration::from_secs(43_200));
    task.work().await.unwrap();
    let misspelled = task.decline("colour").await.unwrap_err();
    assert_eq!(misspelled.to_string(), "the task does not ask `colour` now; it asks [\"color\"]");
    task.answer("color", json!({"color": "red"})).await.unwrap();
    let unasked = task.to_end().await.unwrap_err();
    assert!(matches!(&unasked, TestError::NeverAsked { questions, .. } if questions == &["colour"]), "{unasked}");
}

/// A failed check says what the task did, so that nobody has to print it.
#[tokio::test]
async fn an_assertion_prints_the_end_and_the_journal() {
    let run = testing::server(Migrations::default()).call("migrate", tables()).to_end().await.unwrap();
    run.assert_text("3000 rows");
    run.assert_steps(&["migrate a", "migrate b", "migrate c"]);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.assert_error("no rows"))).unwrap_err();
    let said = panicked.downcast_ref::<String>().unwrap();
    for part in ["no error with `no rows`", "the task ended: completed", "3000 rows", "step `migrate c`: 1000"] {
        assert!(said.contains(part), "{said}");
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Color {
    color: String,
}

async fn everything(task: TaskContext) -> Result<CallToolResult, ErrorData> {
    let first = task.step("first", async || 1).await;
    task.set("seen", &json!({"first": first}))
        .await
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    task.sleep("sleep", Duration::from_secs(43_200)).await;
    let color = match task.ask::<Color>("color", "Which one?").await? {
        Answer::Accepted(form) => form.color,
        _ => "none".to_owned(),
    };
    let last = task.step("last", async || format!("{first} {color}")).await;
    Ok(CallToolResult::success(vec![ContentBlock::text(last), ContentBlock::text("done")]))
}

/// Two branches whose steps take their time: they are not always done in the same order.
#[expect(clippy::disallowed_methods, reason = "this tool waits for something else than its task")]
async fn branches(task: TaskContext) -> String {
    let branch = async |name: &str, ms: u64| {
        let first = async || {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            1
        };
        let first = task.step(&format!("{name} 1"), first).await;
        first + task.step(&format!("{name} 2"), async || 1).await
    };
    let (one, other) = tokio::join!(branch("a", 3), branch("b", 1));
    (one + other).to_string()
}

async fn failing(task: TaskContext) -> Result<String, ErrorData> {
    task.step("first", async || 1).await;
    Err(ErrorData::invalid_params("that is not a table", None))
}

/// What is found in a tool: all of its differences as one text.
async fn differences<F, Fut>(tool: F) -> String
where
    F: Fn(TaskContext) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = String> + Send + 'static,
{
    match testing::tool(tool).crash_everywhere().await {
        Err(TestError::Differs { differences }) => {
            assert!(!differences.is_empty() && differences.len() <= 20);
            differences.join("\n")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "that is what is wrong with this tool")]
async fn a_step_that_is_named_by_the_time_is_found() {
    let found = differences(async |task: TaskContext| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        task.step(&format!("at {}", now.as_millis()), async || 1).await;
        task.step("then", async || 1).await.to_string()
    })
    .await;
    assert!(found.contains("a crash after step `at "), "{found}");
    assert!(found.contains("is recorded, but the attempt that ended the task did not reach it"), "{found}");
}

#[tokio::test]
async fn an_order_that_depends_on_a_hash_is_found() {
    let found = differences(async |task: TaskContext| {
        let tables: HashSet<String> = (0..12).map(|number| format!("table {number}")).collect();
        for table in &tables {
            task.step(table, async || 1).await;
        }
        "done".to_owned()
    })
    .await;
    assert!(found.contains("the tool came to step `table "), "{found}");
    assert!(found.contains(", and after it "), "{found}");
}

#[tokio::test]
async fn a_tool_that_looks_at_its_attempt_is_found() {
    let found = differences(async |task: TaskContext| {
        let first = task.step("first", async || 1).await;
        if task.attempt() > 1 {
            task.step("again", async || 1).await;
        }
        format!("{first} in {}", task.attempt())
    })
    .await;
    assert!(found.contains("came to step `again`, to which it did not come without a crash"), "{found}");
    assert!(found.contains("the task ended with completed") && found.contains("1 in 2"), "{found}");
}

#[tokio::test]
async fn work_outside_of_steps_is_found_by_its_result() {
    let calls = Arc::new(AtomicU32::new(0));
    let found = differences(move |task: TaskContext| {
        let calls = Arc::clone(&calls);
        async move {
            let number = calls.fetch_add(1, Ordering::Relaxed);
            task.step("first", async || 1).await;
            number.to_string()
        }
    })
    .await;
    assert!(found.contains("instead of completed"), "{found}");
}

#[tokio::test]
async fn time_passes_as_the_task_sees_it() {
    let run = testing::tool(everything).answer("color", json!({"color": "red"})).to_end().await.unwrap();
    assert_eq!(run.text(), "1 red\ndone");
    assert_eq!(run.asked(), ["color"]);
    assert_eq!(run.variables(), json!({"seen": {"first": 1}}).as_object().unwrap());
    assert_eq!(run.elapsed().as_secs(), 43_200);
    assert_eq!(run.attempts(), 3);
    assert_eq!(run.result().unwrap().unwrap().content.len(), 2);
    assert!(run.error().is_none() && run.structured().is_none());

    let mut task = testing::tool(everything).begin().await.unwrap();
    assert_eq!(task.work().await.unwrap(), State::Working);
    assert_eq!(task.journal().await.unwrap().len(), 2);
    task.pass(Duration::from_secs(43_200));
    let State::Asks(questions) = task.work().await.unwrap() else { panic!("{task:?}") };
    assert_eq!(questions[0].key, "color");
    assert_eq!(questions[0].request["params"]["message"], "Which one?");
    task.answer("color", json!({"color": "blue"})).await.unwrap();
    assert_eq!(task.work().await.unwrap(), State::Completed);
    assert_eq!(task.to_end().await.unwrap().text(), "1 blue\ndone");
}

/// Looks at two things, each of which is there after some looks, and gives up waiting for a third.
async fn looking(task: TaskContext, one: Arc<AtomicU32>, other: Arc<AtomicU32>) -> Result<String, ErrorData> {
    let look = async |looks: &AtomicU32, there_at: u32| {
        let look = looks.fetch_add(1, Ordering::Relaxed) + 1;
        Ok::<_, ErrorData>((look >= there_at).then_some(look))
    };
    let growing = Every::growing(Duration::from_secs(60), Duration::from_secs(86_400));
    let (found, also_found) = tokio::join!(
        task.poll_until("one", growing, || look(&one, 9)),
        task.poll_until("other", Duration::from_secs(3_600), || look(&other, 3)),
    );
    let gave_up = tokio::select! {
        never = task.poll_until("never", Duration::from_secs(60), async || Ok::<Option<bool>, ErrorData>(None)) =>
            never?,
        () = task.sleep("sleep", Duration::from_secs(600)) => true,
    };
    Ok(format!("{} {} {gave_up}", found? >= 9, also_found? >= 3))
}

fn looks() -> testing::Call {
    let (one, other) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
    testing::tool(move |task| looking(task, Arc::clone(&one), Arc::clone(&other)))
}

#[tokio::test]
async fn the_journal_says_when_each_entry_was_recorded_by_which_attempt_and_how_long_its_step_took() {
    let crashes = || {
        testing::tool(async |task: TaskContext| {
            let first = task.step("first", async || 1).await;
            task.sleep("sleep", Duration::from_secs(600)).await;
            Ok::<_, ErrorData>(task.step("second", async || first + 1).await.to_string())
        })
    };
    let run = crashes().crash_after("first").to_end().await.unwrap();
    let found: Vec<_> = run
        .journal()
        .iter()
        .map(|entry| {
            let recording = entry.recording.unwrap();
            (entry.name.as_str(), recording.attempt, recording.took_ms.is_some(), recording.at)
        })
        .collect();
    let [("first", 1, true, first), ("sleep#1", 2, false, sleep), ("second", 3, true, second)] = found[..] else {
        panic!("{found:?}")
    };
    assert!(first <= sleep && second.since_ms(sleep) >= 600_000, "{found:?}");
}

#[tokio::test]
async fn time_passes_between_looks_and_only_what_was_found_is_on_record() {
    let run = looks().to_end().await.unwrap();
    assert_eq!(run.text(), "true true true");
    assert_eq!((run.steps(), run.times("one")), (vec!["other".to_owned(), "one".to_owned()], 9));
    let names: Vec<&str> = run.journal().iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["since one", "other", "one", "sleep#1"]);
    // Two minutes, and half as much again with each of six looks; then ten minutes of waiting in vain.
    assert!(run.elapsed().as_secs() >= 60 * 20, "{:?}", run.elapsed());
}

#[tokio::test]
async fn looks_do_the_same_after_any_crash() {
    looks().crash_everywhere().await.unwrap();
    looks().deliver_twice().crash_everywhere().await.unwrap();
    let mut task = looks().begin().await.unwrap();
    task.work().await.unwrap();
    task.cancel().await.unwrap();
    assert_eq!(task.work().await.unwrap(), State::Cancelled);
}

/// Its tool waits for longer than a policy allows that says nothing about it.
#[derive(Clone)]
struct Patient;

#[tool_router]
impl Patient {
    #[tool]
    async fn wait(&self, task: TaskContext) -> String {
        task.poll_until("time", Duration::from_secs(3_600), async || {
            Ok::<_, ErrorData>((task.clock_time() >= task.now() + Duration::from_secs(7_200)).then_some(()))
        })
        .await
        .unwrap();
        "it is time".to_owned()
    }
}

#[tool_handler]
impl ServerHandler for Patient {}

#[tokio::test]
async fn a_tool_that_waits_past_its_deadline_is_told_so() {
    let policy = TaskPolicy::optional().run_at_most(Duration::from_secs(7_000));
    let short = Server::new(|| Patient).task("wait", policy);
    let run = testing::of(&short).call("wait", json!({})).expect_failure().to_end().await.unwrap();
    assert_eq!(run.status(), Status::Failed);
    assert_eq!(run.text(), "did not end within the 7000000 ms that the tool may take, waits included");
    assert_eq!(run.elapsed().as_secs(), 7_000);
    let TestError::TimedOut { .. } = testing::of(&short).call("wait", json!({})).crash_everywhere().await.unwrap_err()
    else {
        panic!("a run to the deadline says nothing about crashes after it")
    };

    let long = TaskPolicy::optional().run_at_most(Duration::from_secs(10_000));
    let long = Server::new(|| Patient).task("wait", long);
    testing::of(&long).call("wait", json!({})).crash_everywhere().await.unwrap();
}

#[tokio::test]
async fn a_cancelled_task_ends_there() {
    let run = testing::server(Migrations::default()).call("migrate", tables()).cancel_after("migrate a");
    let run = run.to_end().await.unwrap();
    assert_eq!(run.status(), Status::Cancelled);
    assert_eq!(run.text(), "");
    assert_eq!(run.times("migrate c"), 0);

    // Its process dies in the same moment, and the next worker finds it cancelled.
    let call = testing::server(Migrations::default()).call("migrate", tables()).cancel_after("migrate a");
    let run = call.crash_after("migrate a").to_end().await.unwrap();
    assert_eq!((run.status(), run.times("migrate b")), (Status::Cancelled, 0));

    let mut task = testing::tool(everything).begin().await.unwrap();
    task.work().await.unwrap();
    task.cancel().await.unwrap();
    assert_eq!(task.work().await.unwrap(), State::Cancelled);
}

#[tokio::test]
async fn a_failed_task_says_why() {
    let run = testing::tool(failing).expect_failure().to_end().await.unwrap();
    assert_eq!((run.status(), run.text()), (Status::Failed, "that is not a table".to_owned()));
    assert_eq!(run.error().unwrap().code.0, -32_602);

    let panics = |task: TaskContext| async move {
        task.step("first", async || 1).await;
        assert!(task.attempt() == 0, "always");
        String::new()
    };
    let run = testing::tool(panics).expect_failure().to_end().await.unwrap();
    assert_eq!(run.status(), Status::Failed);
    assert!(run.text().contains("no retries are left after"), "{}", run.text());
    assert_eq!(run.times("first"), 1);
}

#[tokio::test]
async fn the_policies_of_a_server_hold() {
    let policy = TaskPolicy::optional().run_at_most(Duration::from_secs(60)).scope("etl:run");
    let server = Server::new(Migrations::default).task("migrate", policy);
    let call = || testing::of(&server).call("migrate", tables());
    let refused = call().by("idp", "ann", Map::new(), ["other"]).to_end().await.unwrap_err();
    assert!(matches!(refused, TestError::Refused { request: "tools/call", .. }), "{refused}");
    let by_ann = call().by("idp", "ann", Map::new(), ["etl:run"]);
    assert_eq!(by_ann.to_end().await.unwrap().text(), "3000 rows");

    let mut task = call().crash_before("migrate a").begin().await.unwrap();
    assert_eq!(task.work().await.unwrap(), State::Working);
    task.pass(Duration::from_secs(60));
    assert_eq!(task.work().await.unwrap(), State::Failed, "it took too long");
}

#[tokio::test]
async fn a_tool_knows_who_calls() {
    let whoami = async |task: TaskContext| {
        let caller = task.caller().unwrap();
        format!("{} {} {}", caller.issuer(), caller.subject(), caller.claims()["team"])
    };
    let claims = json!({"team": "blue"}).as_object().unwrap().clone();
    let run = testing::tool(whoami).by("idp", "ann", claims, ["x"]).crash_at_begin().to_end().await.unwrap();
    assert_eq!(run.text(), "idp ann \"blue\"");
}

#[tokio::test]
async fn what_cannot_happen_is_said() {
    let server = testing::of(&Server::new(Migrations::default).task("migrate", TaskPolicy::optional()));
    let call = |tool: &str, arguments| testing::server(Migrations::default()).call(tool, arguments);
    for (call, expected) in [
        (call("migrat", json!({})), "there is no tool `migrat`; did you mean `migrate`?"),
        (call("migrate", json!({"tables": 7})), "`tables` must be"),
        (server.call("plain", json!({})), "calls of `plain` do not become tasks: name it with `Server::task`"),
        (
            call("migrate", tables()).crash_after("migrate d"),
            "the task ended (completed) and never came to this: a crash after step `migrate d`; its steps are \
             [\"migrate a\", \"migrate b\", \"migrate c\"]",
        ),
        (testing::tool(everything), "there is no answer to [\"color\"]"),
    ] {
        let error = call.to_end().await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(format!("{error:?}"), error.to_string());
    }
}
