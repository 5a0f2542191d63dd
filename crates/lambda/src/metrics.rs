//! Metrics in CloudWatch's embedded metric format: a line of JSON on standard output, which CloudWatch turns into
//! metrics without an API call.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use http::Response;
use longhaul_core::{Clock, Status, Task};
use longhaul_engine::{IsRecorded, Observer};
use longhaul_http::DeniedLogIn;
use serde_json::{Map, Value, json};

/// Calls that were accepted as tasks.
pub const TASKS_ACCEPTED: &str = "TasksAccepted";
/// Tasks that ended, by [`STATUS`].
pub const TASKS_ENDED: &str = "TasksEnded";
/// Time from acceptance to the first claim, in milliseconds.
pub const QUEUE_WAIT: &str = "QueueWait";
/// Time that an attempt ran, in milliseconds.
pub const ATTEMPT_TIME: &str = "AttemptTime";
/// Time from acceptance to the end, in milliseconds.
pub const TASK_TIME: &str = "TaskTime";
/// Attempts that began.
pub const ATTEMPTS: &str = "Attempts";
/// Recoveries from dead workers and lost messages.
pub const RECOVERIES: &str = "Recoveries";

/// 1 for a task that failed and 0 for one that ended otherwise: the average is the share of failed tasks.
pub const TASKS_FAILED: &str = "TasksFailed";
/// Tasks whose cleanup failed too often.
pub const CLEANUPS_GIVEN_UP: &str = "CleanupsGivenUp";
/// Times that the table did not answer, even after retries.
pub const STORE_ERRORS: &str = "StoreErrors";
/// Records of the table's stream that cannot be read, and were set aside.
pub const UNREADABLE_RECORDS: &str = "UnreadableRecords";
/// Requests that were answered with a status of 500 or more.
pub const REQUEST_ERRORS: &str = "RequestErrors";
/// Unverified callers.
pub const DENIED_LOG_INS: &str = "DeniedLogIns";
/// Time until an answer was ready, or its stream began, in milliseconds.
pub const ANSWER_TIME: &str = "AnswerTime";

/// How a task ended: `completed`, `failed` or `cancelled`.
pub const STATUS: &str = "Status";

/// Writes metrics to where the functions' logs go.
pub struct EmbeddedMetrics {
    namespace: String,
    clock: Arc<dyn Clock>,
    out: Mutex<Box<dyn Write + Send>>,
}

struct Metric {
    name: &'static str,
    unit: &'static str,
    value: u64,
}

impl Metric {
    const fn count(name: &'static str) -> Self {
        Self::number(name, 1)
    }

    const fn number(name: &'static str, value: u64) -> Self {
        Self { name, unit: "Count", value }
    }

    const fn ms(name: &'static str, value: u64) -> Self {
        Self { name, unit: "Milliseconds", value }
    }
}

impl EmbeddedMetrics {
    /// Metrics in `namespace`, written to `out`.
    #[must_use]
    pub fn new(namespace: String, clock: Arc<dyn Clock>, out: Box<dyn Write + Send>) -> Self {
        Self { namespace, clock, out: Mutex::new(out) }
    }

    /// A request was answered after this many milliseconds. Most are of verified callers, and have no number of denied
    /// ones.
    pub fn answered<B>(&self, answer: &Response<B>, took_ms: u64) {
        let failed = Metric::number(REQUEST_ERRORS, u64::from(answer.status().is_server_error()));
        let denied = answer.extensions().get::<DeniedLogIn>().map(|_| Metric::count(DENIED_LOG_INS));
        let metrics: Vec<_> = [Metric::ms(ANSWER_TIME, took_ms), failed].into_iter().chain(denied).collect();
        self.write(self.line(&[], &metrics));
    }

    /// A record of the table's stream cannot be read, and was set aside.
    pub fn record_set_aside(&self) {
        self.write(self.line(&[], &[Metric::count(UNREADABLE_RECORDS)]));
    }

    /// Writes one line about a task.
    fn put(&self, task: &Task, metrics: &[Metric]) {
        self.write(about(task, self.line(&[], metrics)));
    }

    /// A line of metrics. The metrics of each dimension are declared separately; `metrics` have no dimension.
    fn line(&self, by_dimension: &[(&str, &str, &[Metric])], metrics: &[Metric]) -> Map<String, Value> {
        let declared = |dimensions: &[&str], metrics: &[Metric]| {
            let names: Vec<_> =
                metrics.iter().map(|metric| json!({"Name": metric.name, "Unit": metric.unit})).collect();
            json!({"Namespace": self.namespace, "Dimensions": [dimensions], "Metrics": names})
        };
        let of_dimensions = by_dimension.iter().map(|(name, _, metrics)| declared(&[name], metrics));
        let of_none = (!metrics.is_empty()).then(|| declared(&[], metrics));
        let all: Vec<_> = of_dimensions.chain(of_none).collect();
        let mut line = Map::new();
        line.insert("_aws".to_owned(), json!({"Timestamp": self.clock.now().as_ms(), "CloudWatchMetrics": all}));
        line.extend(by_dimension.iter().map(|(name, value, _)| ((*name).to_owned(), json!(value))));
        let values = by_dimension.iter().flat_map(|(_, _, metrics)| metrics.iter()).chain(metrics);
        line.extend(values.map(|metric| (metric.name.to_owned(), json!(metric.value))));
        line
    }

    fn write(&self, line: Map<String, Value>) {
        let line = Value::Object(line);
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // One write, so that no other line gets in between.
        if let Err(error) = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()) {
            tracing::debug!(%error, "a metric was not written");
        }
    }
}

/// The line with the tool and the task. They are fields, for queries over the logs. They are not dimensions, because
/// each value of a dimension is billed as a metric of its own.
fn about(task: &Task, mut line: Map<String, Value>) -> Map<String, Value> {
    line.insert("tool".to_owned(), json!(task.tool));
    line.insert("task_id".to_owned(), json!(task.id.to_string()));
    line.insert("attempt".to_owned(), json!(task.attempt));
    line
}

#[deny(clippy::missing_trait_methods)]
impl Observer for EmbeddedMetrics {
    fn accepted(&self, task: &Task) {
        self.put(task, &[Metric::count(TASKS_ACCEPTED)]);
    }

    fn attempt_began(&self, task: &Task, waited_ms: Option<u64>) {
        let waited = waited_ms.map(|ms| Metric::ms(QUEUE_WAIT, ms));
        let metrics: Vec<_> = [Metric::count(ATTEMPTS)].into_iter().chain(waited).collect();
        self.put(task, &metrics);
    }

    fn attempt_ended(&self, task: &Task, ran_ms: u64) {
        self.put(task, &[Metric::ms(ATTEMPT_TIME, ran_ms)]);
    }

    /// Not counted: a line would cost more than many a step.
    fn came_to_step(&self, _task: &Task, _name: &str, _recorded: IsRecorded) {}

    fn cleanup_given_up(&self, task: &Task) {
        self.put(task, &[Metric::count(CLEANUPS_GIVEN_UP)]);
    }

    /// Not counted: the log has a warning.
    fn replay_differs(&self, _task: &Task) {}

    fn ended(&self, task: &Task) {
        let took_ms = task.ended_at.map_or(0, |ended_at| ended_at.since_ms(task.due_at()));
        let status = task.status();
        let by_status = [Metric::count(TASKS_ENDED), Metric::ms(TASK_TIME, took_ms)];
        let failed = Metric::number(TASKS_FAILED, u64::from(status == Status::Failed));
        self.write(about(task, self.line(&[(STATUS, status.as_str(), &by_status)], &[failed])));
    }

    fn recovered(&self, task: &Task) {
        self.put(task, &[Metric::count(RECOVERIES)]);
    }

    fn unavailable(&self) {
        self.write(self.line(&[], &[Metric::count(STORE_ERRORS)]));
    }
}
