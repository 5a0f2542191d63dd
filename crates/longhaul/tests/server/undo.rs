//! Tools that undo their work, as an author writes and tests them.

#![expect(clippy::excessive_nesting, reason = "a compensation is a closure of a tool, which is a closure itself")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::rmcp::{self, ErrorData, ServerHandler, tool, tool_handler, tool_router};
use longhaul::testing::{self, TestError};
use longhaul::{EndedTask, Retry, Server, StepContext, TaskContext, TaskPolicy};
use longhaul_core::Status;
use serde_json::json;

const SECOND: Duration = Duration::from_secs(1);

/// Systems that a trip is booked with.
#[derive(Clone, Default)]
struct Agency {
    booked: Arc<Mutex<Vec<String>>>,
    /// How often the bank refuses, and for how long the hotel does not take a cancellation.
    refusals: Arc<AtomicU32>,
    is_closed: Arc<AtomicU32>,
}

impl Agency {
    fn refusing(times: u32) -> Self {
        Self { refusals: Arc::new(AtomicU32::new(times)), ..Self::default() }
    }

    async fn book(&self, what: &str) -> Result<String, ErrorData> {
        let mut booked = self.booked.lock().unwrap();
        if !booked.iter().any(|earlier| earlier == what) {
            booked.push(what.to_owned());
        }
        Ok(what.to_owned())
    }

    async fn cancel(&self, what: &str) -> Result<(), ErrorData> {
        if takes_one(&self.is_closed) {
            return Err(ErrorData::internal_error("closed", None));
        }
        self.booked.lock().unwrap().retain(|booked| booked != what);
        Ok(())
    }

    async fn pay(&self) -> Result<u32, ErrorData> {
        if takes_one(&self.refusals) { Err(ErrorData::internal_error("refused", None)) } else { Ok(1) }
    }

    fn booked(&self) -> Vec<String> {
        self.booked.lock().unwrap().clone()
    }

    /// Books and registers what undoes it, then pays.
    async fn trip(&self, task: &TaskContext) -> Result<String, ErrorData> {
        for what in ["hotel", "flight"] {
            let booked = task.try_step(what, || self.book(what)).await?;
            let agency = self.clone();
            let undo = move || {
                let (agency, booked) = (agency.clone(), booked.clone());
                async move { agency.cancel(&booked).await }
            };
            task.on_failure(&format!("cancel the {what}"), undo).await;
        }
        let paid = task.try_step("pay", || self.pay()).retry(Retry::never()).await?;
        Ok(format!("paid {paid}"))
    }
}

fn takes_one(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

/// A call of a tool that books a trip with this agency.
fn trip(agency: &Agency) -> testing::Call {
    let agency = agency.clone();
    testing::tool(move |task: TaskContext| {
        let agency = agency.clone();
        async move { agency.trip(&task).await }
    })
    .expect_any_end()
}

#[tokio::test]
async fn a_trip_that_cannot_be_paid_is_undone_and_one_that_is_paid_is_not() {
    let agency = Agency::refusing(1);
    let run = trip(&agency).to_end().await.unwrap();
    assert_eq!((run.status(), agency.booked()), (Status::Failed, Vec::new()));
    assert_eq!(run.steps(), ["hotel", "flight", "pay", "cancel the flight", "cancel the hotel"]);
    assert_eq!(run.cleanups(), [Ok(())]);

    let agency = Agency::default();
    let run = trip(&agency).to_end().await.unwrap();
    assert_eq!((run.text(), agency.booked().len(), run.cleanups().len()), ("paid 1".to_owned(), 2, 0));
}

#[tokio::test]
async fn a_cancelled_trip_is_undone() {
    let agency = Agency::default();
    let run = trip(&agency).cancel_after("flight").to_end().await.unwrap();
    assert_eq!((run.status(), agency.booked()), (Status::Cancelled, Vec::new()));
    assert_eq!((run.times("cancel the flight"), run.times("cancel the hotel")), (1, 1));
}

#[tokio::test]
async fn the_undo_of_a_trip_survives_a_crash_at_every_moment() {
    trip(&Agency::refusing(u32::MAX)).expect_failure().crash_everywhere().await.unwrap();
    let agency = Agency::refusing(u32::MAX);
    let run = trip(&agency).crash_after("cancel the flight").to_end().await.unwrap();
    assert_eq!((run.status(), agency.booked()), (Status::Failed, Vec::new()));
    assert_eq!((run.times("cancel the flight"), run.times("pay")), (1, 1), "nothing is done again");
    let run = trip(&Agency::refusing(u32::MAX)).crash_before_record("cancel the flight").to_end().await.unwrap();
    assert_eq!(run.times("cancel the flight"), 2);
}

/// Its payment is no step: it succeeds when the tool is replayed, after all was undone.
#[tokio::test]
async fn a_tool_that_pays_when_it_is_replayed_is_caught() {
    let agency = Agency::refusing(1);
    let call = testing::tool(move |task: TaskContext| {
        let agency = agency.clone();
        async move {
            let booked = task.try_step("flight", || agency.book("flight")).await?;
            let undoing = agency.clone();
            let undo = move || {
                let (agency, booked) = (undoing.clone(), booked.clone());
                async move { agency.cancel(&booked).await }
            };
            task.on_failure("undo flight", undo).await;
            agency.pay().await.map(|_| "paid".to_owned())
        }
    });
    let error = call.expect_failure().crash_everywhere().await.unwrap_err();
    let TestError::Differs { differences } = &error else { panic!("{error}") };
    assert!(differences[0].contains("succeeded when it was replayed to undo its work"), "{differences:?}");
}

/// The undo is written into the tool, and what it depends on is not recorded.
#[tokio::test]
async fn a_tool_that_pays_after_it_has_undone_the_flight_itself_is_caught() {
    let agency = Agency::refusing(1);
    let call = testing::tool(move |task: TaskContext| {
        let agency = agency.clone();
        async move {
            task.try_step("flight", || agency.book("flight")).await?;
            if let Err(error) = agency.pay().await {
                task.try_step("undo flight", || agency.cancel("flight")).await?;
                return Err(error);
            }
            Ok("paid".to_owned())
        }
    });
    let error = call.expect_failure().crash_everywhere().await.unwrap_err();
    let TestError::Differs { differences } = &error else { panic!("{error}") };
    assert!(differences.iter().any(|difference| difference.contains("undo flight")), "{differences:?}");
}

#[tokio::test]
async fn a_compensation_is_tried_again_until_it_succeeds() {
    let agency = Agency { is_closed: Arc::new(AtomicU32::new(7)), ..Agency::refusing(1) };
    let run = trip(&agency).to_end().await.unwrap();
    assert_eq!((run.status(), agency.booked(), run.cleanups()), (Status::Failed, Vec::new(), &[Ok(())][..]));
    assert_eq!(run.times("cancel the flight"), 8);
}

#[tokio::test]
async fn a_compensation_that_is_given_up_is_seen_and_the_others_run() {
    let stopped = Arc::new(AtomicU32::new(0));
    let stops = Arc::clone(&stopped);
    let call = testing::tool(move |task: TaskContext| {
        let stops = Arc::clone(&stops);
        async move {
            let stop = move || {
                let stops = Arc::clone(&stops);
                async move { Ok::<u32, ErrorData>(stops.fetch_add(1, Ordering::Relaxed)) }
            };
            task.on_failure("stop the machine", stop).await;
            let refused = |step: StepContext| async move { Err::<(), _>(step.terminal("no permission".to_owned())) };
            task.on_failure("delete the disk", refused).await;
            let panics = || async { if true { panic!("no network") } else { Ok::<(), ErrorData>(()) } };
            task.on_failure("tell the owner", panics).retry(Retry::fixed(SECOND).tries(2)).await;
            Err::<String, _>(ErrorData::internal_error("no", None))
        }
    });
    let run = call.expect_failure().to_end().await.unwrap();
    assert_eq!((run.times("tell the owner"), run.times("delete the disk")), (2, 1));
    assert_eq!(stopped.load(Ordering::Relaxed), 1);
    let [Err(why)] = run.cleanups() else { panic!("{:?}", run.cleanups()) };
    assert!(why.contains("`delete the disk`: \"no permission\"") && why.contains("it panicked: no network"), "{why}");
}

#[derive(Clone, Default)]
struct Machines(Arc<Mutex<Vec<&'static str>>>);

#[tool_router]
impl Machines {
    #[tool]
    async fn deploy(&self, task: TaskContext) -> Result<String, ErrorData> {
        let done = Arc::clone(&self.0);
        let stop = move || {
            done.lock().unwrap().push("compensated");
            async { Ok::<(), ErrorData>(()) }
        };
        task.on_failure("stop the machine", stop).await;
        task.step("machine", async || self.0.lock().unwrap().push("started")).await;
        Err(ErrorData::internal_error("no disk", None))
    }
}

#[tool_handler]
impl ServerHandler for Machines {}

fn server(machines: &Machines, policy: TaskPolicy) -> Server {
    let (handler, cleaned) = (machines.clone(), Arc::clone(&machines.0));
    Server::new(move || handler.clone()).task("deploy", policy).clean_up("deploy", move |_ended: EndedTask| {
        cleaned.lock().unwrap().push("cleaned up");
        async { Ok::<(), ErrorData>(()) }
    })
}

#[tokio::test]
async fn the_servers_cleanup_runs_after_the_compensations_and_for_returned_errors() {
    let machines = Machines::default();
    let run = testing::of(&server(&machines, TaskPolicy::optional().compensates())).call("deploy", json!({}));
    run.expect_failure().to_end().await.unwrap();
    assert_eq!(*machines.0.lock().unwrap(), ["started", "compensated", "cleaned up"]);
}

#[tokio::test]
async fn a_compensation_without_a_policy_for_it_fails_the_task_with_what_to_do() {
    let machines = Machines::default();
    let call = testing::of(&server(&machines, TaskPolicy::optional())).call("deploy", json!({}));
    let run = call.expect_failure().to_end().await.unwrap();
    assert!(run.text().contains("add `.compensates()` to its `TaskPolicy`"), "{}", run.text());
    assert_eq!(*machines.0.lock().unwrap(), ["cleaned up"], "nothing was begun");
}
