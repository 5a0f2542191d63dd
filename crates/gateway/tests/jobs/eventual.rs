//! Systems that are eventually consistent: what was started is shown only some time later, and lists lag behind.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use longhaul_core::Status;
use longhaul_gateway::jobs::{Again, ExternalJob, HttpJob, HttpJobSpec, HttpRequest, HttpResult, RequestKind};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kinds::{POLLS, each, executions};
use crate::stand_in::{Asked, Reply, StandIn, ok, refusal};
use crate::tool::{HOUR, MINUTE, call_within};

fn arguments() -> Value {
    json!({"month": "2026-06"})
}

/// Is not shown to the first requests.
const LATE: usize = 3;

#[tokio::test]
async fn a_job_that_is_not_shown_yet_has_not_failed() {
    for kind in each() {
        let service = kind
            .service(|kind, before| match (kind.name, before) {
                ("glue", 0..LATE) => refusal("EntityNotFoundException", "no such run"),
                (_, 0..LATE) => ok(json!({"jobs": [], "builds": [], "tasks": [], "failures": [{"reason": "MISSING"}]})),
                (_, LATE) => ok((kind.going)()),
                _ => ok((kind.done)()),
            })
            .await;
        let run = call_within(HOUR, (kind.job)(&service), arguments()).to_end().await.unwrap();
        assert_eq!(
            (run.status(), service.times(kind.stop)),
            (Status::Completed, 0),
            "{}: {:?}",
            kind.name,
            run.error()
        );
        assert_eq!(service.times(kind.start), 1, "{}", kind.name);
    }
}

fn over_http(service: &StandIn) -> Arc<dyn ExternalJob> {
    let of = |kind, method, path: &str| HttpRequest::new(kind, method, &format!("{}{path}", service.url)).unwrap();
    Arc::new(HttpJob::new(HttpJobSpec {
        start: of(RequestKind::Start, Method::POST, "/jobs"),
        again: Again::AnotherJob,
        find: None,
        status: of(RequestKind::OfJob, Method::GET, "/jobs/{id}"),
        stop: Some(of(RequestKind::OfJob, Method::DELETE, "/jobs/{id}")),
        result: HttpResult::At("/output".to_owned()),
        id: "/id".to_owned(),
        state: "/state".to_owned(),
        done: vec!["done".to_owned()],
        failed: Vec::new(),
        error: None,
        progress: [None, None, None],
    }))
}

#[tokio::test]
async fn a_job_over_http_that_a_replica_does_not_show_yet_has_not_failed() {
    let service = StandIn::new(|asked: &Asked, before| match (asked.method.as_str(), before) {
        ("POST", _) => ok(json!({"id": 1})),
        ("GET", 0..LATE) => Reply::Text(404, "no such job".to_owned()),
        _ => ok(json!({"state": "done", "output": {"rows": 7}})),
    })
    .await;
    let run = call_within(HOUR, over_http(&service), arguments()).to_end().await.unwrap();
    assert_eq!(
        (run.structured(), service.times("DELETE /jobs/1")),
        (Some(&json!({"rows": 7})), 0),
        "{:?}",
        run.error()
    );
}

#[tokio::test]
async fn a_job_over_http_that_is_not_there_for_five_minutes_is_an_error() {
    let service = StandIn::new(|asked: &Asked, _| match asked.method.as_str() {
        "POST" => ok(json!({"id": 1})),
        _ => Reply::Text(404, "who?".to_owned()),
    })
    .await;
    let run = call_within(HOUR, over_http(&service), arguments()).to_end().await.unwrap();
    let error = run.error().unwrap().message;
    assert_eq!(error, "the system does not know the job 1 any more: HTTP status 404: who?");
}

/// A state machine whose executions are described only some requests after their start.
struct Machine {
    /// The name and the input of the execution.
    execution: Mutex<Option<(String, String)>>,
    shown_after: AtomicUsize,
    is_stopped: AtomicBool,
}

impl Machine {
    fn new() -> Arc<Self> {
        let shown_after = AtomicUsize::new(LATE);
        Arc::new(Self { execution: Mutex::default(), shown_after, is_stopped: AtomicBool::new(false) })
    }

    fn is_shown(&self) -> bool {
        self.shown_after.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    fn start(&self, asked: &Asked, answer: impl Fn() -> Reply) -> Reply {
        let mut execution = self.execution.lock().unwrap();
        if execution.is_some() {
            return refusal("ExecutionAlreadyExists", "it is there");
        }
        let text = |key: &str| asked.body[key].as_str().unwrap().to_owned();
        *execution = Some((text("name"), text("input")));
        answer()
    }

    fn answer(&self, asked: &Asked, to_start: impl Fn() -> Reply) -> Reply {
        let operation = asked.operation();
        if operation == "DescribeStateMachine" {
            return ok(json!({"type": "STANDARD"}));
        }
        if operation == "StartExecution" {
            return self.start(asked, to_start);
        }
        let Some((_, input)) = self.execution.lock().unwrap().clone().filter(|_| self.is_shown()) else {
            return refusal("ExecutionDoesNotExist", "no");
        };
        match operation.as_str() {
            "StopExecution" => {
                self.is_stopped.store(true, Ordering::Relaxed);
                ok(json!({}))
            }
            "DescribeExecution" => ok(json!({"status": "SUCCEEDED", "input": input, "output": "{\"rows\":7}"})),
            _ => ok(json!({"events": []})),
        }
    }
}

#[tokio::test]
async fn an_execution_that_is_not_described_yet_has_not_failed_even_if_its_start_was_not_answered() {
    for cut in [false, true] {
        let machine = Machine::new();
        let starts = move || if cut { Reply::Cut } else { ok(json!({"executionArn": "arn:x"})) };
        let service = StandIn::new(move |asked: &Asked, _| machine.answer(asked, starts)).await;
        let run = call_within(HOUR, executions(&service), arguments()).to_end().await.unwrap();
        assert_eq!(run.structured(), Some(&json!({"rows": 7})), "{cut}: {:?}", run.error());
        assert_eq!(service.times("StopExecution"), 0);
    }
}

#[tokio::test]
async fn an_execution_that_is_not_shown_yet_is_stopped_after_its_task() {
    let (machine, seen) = {
        let machine = Machine::new();
        (Arc::clone(&machine), machine)
    };
    let service =
        StandIn::new(move |asked: &Asked, _| machine.answer(asked, || ok(json!({"executionArn": "arn:x"})))).await;
    let run = call_within(HOUR, executions(&service), arguments()).cancel_after("outside job");
    let run = run.to_end().await.unwrap();
    assert_eq!((run.status(), seen.is_stopped.load(Ordering::Relaxed)), (Status::Cancelled, true), "{run:?}");
}

/// A cluster as AWS describes it: `startedBy` is the only filter of a list that has it, and shows what is to run.
struct Cluster {
    /// The key of the task that runs or is stopped.
    started_by: Mutex<Option<String>>,
    is_stopped: bool,
    lists: AtomicUsize,
    stops: AtomicUsize,
}

impl Cluster {
    fn new(is_stopped: bool) -> Arc<Self> {
        let (lists, stops) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { started_by: Mutex::default(), is_stopped, lists, stops })
    }

    fn answer(&self, asked: &Asked) -> Reply {
        let text = |key: &str| asked.body[key].as_str();
        match asked.operation().as_str() {
            "RunTask" => {
                *self.started_by.lock().unwrap() = text("startedBy").map(str::to_owned);
                // The answer is lost, and with it what was started.
                Reply::Text(500, String::new())
            }
            "ListTasks" => self.list(text("startedBy"), text("desiredStatus"), text("nextToken")),
            "DescribeTasks" => {
                let by = self.started_by.lock().unwrap().clone();
                let of = |arn: &Value| match arn.as_str() {
                    Some("arn:task/ours") => json!({"taskArn": arn, "startedBy": by, "lastStatus": "STOPPED"}),
                    _ => json!({"taskArn": arn, "startedBy": "somebody"}),
                };
                let tasks: Vec<Value> = asked.body["tasks"].as_array().unwrap().iter().map(of).collect();
                assert!(tasks.len() <= 100);
                ok(json!({"tasks": tasks}))
            }
            "StopTask" if self.stops.fetch_add(1, Ordering::Relaxed) < LATE => {
                refusal("InvalidParameterException", "The referenced task was not found.")
            }
            _ => ok(json!({})),
        }
    }

    fn list(&self, started_by: Option<&str>, status: Option<&str>, token: Option<&str>) -> Reply {
        if started_by.is_some() && status.is_some() {
            return refusal("InvalidParameterException", "startedBy must be the only filter");
        }
        let is_late = self.lists.fetch_add(1, Ordering::Relaxed) < 2 * LATE;
        match (started_by, status, token) {
            _ if is_late => ok(json!({"taskArns": []})),
            (Some(by), ..) if !self.is_stopped && self.started_by.lock().unwrap().as_deref() == Some(by) => {
                ok(json!({"taskArns": ["arn:task/ours"]}))
            }
            (None, Some("STOPPED"), None) if self.is_stopped => {
                let others: Vec<String> = (0..100).map(|number| format!("arn:task/{number}")).collect();
                ok(json!({"taskArns": others, "nextToken": "more"}))
            }
            (None, Some("STOPPED"), Some("more")) => ok(json!({"taskArns": ["arn:task/ours"]})),
            _ => ok(json!({"taskArns": []})),
        }
    }
}

#[tokio::test]
async fn a_container_whose_start_was_not_recorded_is_found_as_aws_allows_and_stopped() {
    for is_stopped in [false, true] {
        let cluster = Cluster::new(is_stopped);
        let service = StandIn::new(move |asked: &Asked, _| cluster.answer(asked)).await;
        let kind = each().find(|kind| kind.name == "ecs").unwrap();
        let run = call_within(MINUTE, (kind.job)(&service), arguments()).to_end().await.unwrap();
        let stops: Vec<Value> = service
            .asked()
            .into_iter()
            .filter(|asked| asked.operation() == "StopTask")
            .map(|asked| asked.body)
            .collect();
        assert_eq!(run.status(), Status::Failed);
        assert_eq!(stops.len(), LATE + 1, "{is_stopped}: {:?}", service.operations());
        assert!(stops.iter().all(|stop| stop["task"] == "arn:task/ours"), "{stops:?}");
    }
}

/// Glue says so with a status for faults of the caller, and may have started the run.
#[tokio::test]
async fn a_run_whose_start_timed_out_at_glue_is_looked_for_and_followed() {
    let key = Arc::new(Mutex::new(String::new()));
    let service = StandIn::new(move |asked: &Asked, before| match asked.operation().as_str() {
        "StartJobRun" => {
            *key.lock().unwrap() = asked.body["Arguments"]["--longhaul_task"].as_str().unwrap().to_owned();
            refusal("OperationTimeoutException", "The operation timed out.")
        }
        "GetJobRuns" if before < LATE => ok(json!({"JobRuns": [{"Id": "jr_0"}]})),
        "GetJobRuns" => {
            let key = key.lock().unwrap().clone();
            ok(json!({"JobRuns": [{"Id": "jr_1", "Arguments": {"--longhaul_task": key}}]}))
        }
        _ => ok(json!({"JobRun": {"JobRunState": "SUCCEEDED", "ExecutionTime": 60}})),
    })
    .await;
    let kind = each().find(|kind| kind.name == "glue").unwrap();
    let run = call_within(HOUR, (kind.job)(&service), arguments()).to_end().await.unwrap();
    assert_eq!((run.status(), service.times("StartJobRun")), (Status::Completed, 1), "{:?}", run.error());
    assert_eq!(run.structured().unwrap()["run"], "jr_1");
}

/// The start is made again with the same token, and is refused by then. The job of the first start continues.
#[tokio::test]
async fn a_start_that_is_refused_after_one_that_nobody_answered_is_looked_for() {
    let kind = each().find(|kind| kind.name == "ecs").unwrap();
    let service = StandIn::new(move |asked: &Asked, before| match (asked.operation().as_str(), before) {
        ("RunTask", 0..5) => Reply::Text(500, String::new()),
        ("RunTask", _) => refusal("AccessDeniedException", "the permission was taken away"),
        ("ListTasks", _) => ok(json!({"taskArns": ["arn:task/1"]})),
        (operation, _) if POLLS.contains(&operation) => ok((kind.done)()),
        _ => ok(json!({})),
    })
    .await;
    let run = call_within(HOUR, (kind.job)(&service), arguments()).to_end().await.unwrap();
    assert_eq!(run.status(), Status::Completed, "{:?}", run.error());
}
