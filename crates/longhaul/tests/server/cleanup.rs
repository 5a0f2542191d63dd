//! What an author's code cleans up after tasks, as an author tests it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::testing::{self, Call};
use longhaul::{End, EndedTask, Server, TaskContext, TaskPolicy};
use longhaul_core::{FailureKind, Status};
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3600);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Deployment {
    region: String,
    hours: u32,
}

/// What runs, and what was cleaned up after.
#[derive(Clone, Default)]
struct Machines(Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<EndedTask>>>);

#[tool_router]
impl Machines {
    #[tool]
    async fn deploy(
        &self,
        Parameters(Deployment { region, hours }): Parameters<Deployment>,
        task: TaskContext,
    ) -> Result<String, ErrorData> {
        let machine = task
            .step("machine", async || {
                let machine = format!("{region}-{}", task.idempotency_key());
                self.0.lock().unwrap().push(machine.clone());
                machine
            })
            .await;
        task.sleep("lifetime", hours * HOUR).await;
        match hours {
            0 => Err(ErrorData::invalid_params("for no time", None)),
            1 => panic!("after an hour"),
            _ => Ok(machine),
        }
    }
}

#[tool_handler]
impl ServerHandler for Machines {}

impl Machines {
    /// Stops the machine; `fails` says what goes wrong before that, by how often it was tried.
    fn server(&self, fails: impl Fn(usize) -> Option<&'static str> + Send + Sync + 'static) -> Server {
        let policy = TaskPolicy::optional().run_at_most(8 * HOUR);
        let machines = self.clone();
        let fails = Arc::new(fails);
        Server::new({
            let machines = self.clone();
            move || machines.clone()
        })
        .task("deploy", policy)
        .clean_up("deploy", move |ended: EndedTask| {
            let (machines, fails) = (machines.clone(), Arc::clone(&fails));
            async move { machines.stop(ended, &*fails).await }
        })
    }

    async fn stop(
        &self,
        ended: EndedTask,
        fails: &(dyn Fn(usize) -> Option<&'static str> + Sync),
    ) -> Result<(), ErrorData> {
        let tries = {
            let mut seen = self.1.lock().unwrap();
            seen.push(ended.clone());
            seen.len()
        };
        match fails(tries) {
            Some("panic") => panic!("no network"),
            Some(message) => return Err(ErrorData::internal_error(message, None)),
            None => {}
        }
        if let Some(machine) = ended.step::<String>("machine").await? {
            self.0.lock().unwrap().retain(|running| *running != machine);
        }
        Ok(())
    }

    fn running(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn seen(&self) -> Vec<EndedTask> {
        self.1.lock().unwrap().clone()
    }
}

fn call(server: &Server, hours: u32) -> Call {
    testing::of(server).call("deploy", json!({"region": "north", "hours": hours}))
}

const fn never(_tries: usize) -> Option<&'static str> {
    None
}

#[tokio::test]
async fn a_cancelled_task_is_cleaned_up_after_by_what_its_steps_recorded() {
    let machines = Machines::default();
    let run = call(&machines.server(never), 3).cancel_after("machine").to_end().await.unwrap();
    assert_eq!((run.status(), machines.running()), (Status::Cancelled, 0));
    assert_eq!(run.cleanups(), [Ok(())]);
    let [ended] = &machines.seen()[..] else { panic!("{:?}", machines.seen()) };
    assert_eq!((ended.tool(), ended.end()), ("deploy", &End::Cancelled));
    assert_eq!(ended.arguments::<Deployment>().unwrap().region, "north");
    let machine = ended.step::<String>("machine").await.unwrap().unwrap();
    assert_eq!(machine, format!("north-{}", ended.idempotency_key()));
    assert_eq!(ended.step::<String>("another").await.unwrap(), None);
    let refused = ended.step::<u64>("machine").await.unwrap_err().to_string();
    assert!(refused.starts_with("the step `machine` of the task cannot be read as the expected type"), "{refused}");
    let refused = ended.arguments::<String>().unwrap_err().to_string();
    assert!(refused.starts_with("the arguments of the task cannot be read"), "{refused}");
    assert!(ended.caller().is_none() && !format!("{ended:?}").contains("north"), "{ended:?}");
}

/// A tool counts that is covered when its task is accepted, which may be long after the server's start.
#[tokio::test]
async fn tools_that_a_function_covers_are_cleaned_up_after() {
    let (machines, is_there) = (Machines::default(), Arc::new(AtomicBool::new(false)));
    let (handler, cleanup, covered) = (machines.clone(), machines.clone(), Arc::clone(&is_there));
    let server = Server::new(move || handler.clone())
        .policies(|tool| (tool == "deploy").then(|| TaskPolicy::optional().run_at_most(8 * HOUR)))
        .clean_up_where(
            move |tool| tool == "deploy" && covered.load(Ordering::Relaxed),
            move |ended: EndedTask| {
                let machines = cleanup.clone();
                async move { machines.stop(ended, &never).await }
            },
        );
    // Both tasks have the same id here, and so the same machine.
    for (covered, cleaned, running) in [(false, 0, 1), (true, 1, 0)] {
        is_there.store(covered, Ordering::Relaxed);
        let run = call(&server, 3).cancel_after("machine").to_end().await.unwrap();
        assert_eq!((run.cleanups().len(), machines.running()), (cleaned, running));
    }
}

#[tokio::test]
async fn a_task_that_misses_its_deadline_or_is_given_up_is_cleaned_up_after() {
    for (hours, expected) in [(9, FailureKind::TimedOut), (1, FailureKind::RetriesExhausted)] {
        let machines = Machines::default();
        let run = call(&machines.server(never), hours).expect_failure().to_end().await.unwrap();
        assert_eq!((run.status(), machines.running()), (Status::Failed, 0));
        assert_eq!(run.cleanups(), [Ok(())]);
        let [ended] = &machines.seen()[..] else { panic!("{:?}", machines.seen()) };
        assert!(matches!(ended.end(), End::Failed { kind, message } if *kind == expected && *message == run.text()));
    }
}

#[tokio::test]
async fn a_try_that_fails_or_panics_is_followed_by_another_one() {
    let machines = Machines::default();
    let server = machines.server(|tries| ["quota", "panic"].get(tries - 1).copied());
    let run = call(&server, 3).cancel_after("machine").to_end().await.unwrap();
    let [Err(error), Err(panic), Ok(())] = run.cleanups() else { panic!("{:?}", run.cleanups()) };
    assert!(error.contains("quota") && panic.contains("no network"), "{error}, {panic}");
    assert_eq!(machines.running(), 0);
}

#[tokio::test]
async fn a_process_that_dies_before_the_record_cleans_up_again() {
    let machines = Machines::default();
    let server = machines.server(never);
    let run = call(&server, 3).cancel_after("machine").crash_after_cleanup().to_end().await.unwrap();
    assert_eq!(run.cleanups(), [Ok(()), Ok(())]);
    call(&server, 3).cancel_after("machine").crash_everywhere().await.unwrap();
    call(&server, 3).cancel_after("machine").deliver_twice().to_end().await.unwrap();
    assert_eq!(machines.running(), 0);
}

#[tokio::test]
async fn what_cannot_be_cleaned_up_twice_is_found() {
    let machines = Machines::default();
    let running = Arc::clone(&machines.0);
    let server = machines.server(never).clean_up("deploy", move |ended: EndedTask| {
        let running = Arc::clone(&running);
        async move {
            let machine = ended.step::<String>("machine").await?.unwrap_or_default();
            let mut running = running.lock().unwrap();
            let before = running.len();
            running.retain(|running| *running != machine);
            let is_stopped = running.len() < before;
            is_stopped.then_some(()).ok_or_else(|| ErrorData::internal_error("there is no such machine", None))
        }
    });
    let found = call(&server, 3).cancel_after("machine").crash_everywhere().await.unwrap_err().to_string();
    assert!(found.contains("a crash after cleaning up, before that is recorded: cleaning up ended with"), "{found}");
    assert!(found.contains("there is no such machine` instead of success"), "{found}");
}

#[tokio::test]
async fn a_name_that_the_handler_does_not_have_is_refused_with_the_nearest_one() {
    let server = Machines::default().server(never).clean_up("deplyo", async |_ended| Ok::<(), String>(()));
    let refused = server.check().await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no tool `deplyo`; did you mean `deploy`?");
}
