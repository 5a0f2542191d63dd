//! Metrics in CloudWatch's embedded metric format: a line of JSON on standard output, which CloudWatch turns into metrics
//! without an API call.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::{Clock, Task};
use longhaul_engine::Observer;
use serde_json::{Map, Value, json};

/// Calls that were accepted as tasks.
pub const TASKS_ACCEPTED: &str = "TasksAccepted";
/// Tasks that ended, by [`STATUS`].
pub const TASKS_ENDED: &str = "TasksEnded";
/// Time from acceptance to the first claim, in milliseconds.
pub const QUEUE_WAIT: &str = "QueueWait";
/// Time that a leg ran, in milliseconds.
pub const LEG_TIME: &str = "LegTime";
/// Time from acceptance to the end, in milliseconds.
pub const TASK_TIME: &str = "TaskTime";
/// Legs that began.
pub const LEGS: &str = "Legs";
/// Recoveries from dead workers and lost messages.
pub const RECOVERIES: &str = "Recoveries";

/// How a task ended: `completed`, `failed` or `cancelled`.
pub const STATUS: &str = "Status";

/// Writes metrics to where the functions' logs go.
pub struct EmbeddedMetrics {
    namespace: String,
    clock: Arc<dyn Clock>,
    out: Mutex<Box<dyn Write + Send>>,
}

/// One number.
struct Metric {
    name: &'static str,
    unit: &'static str,
    value: u64,
}

impl Metric {
    const fn count(name: &'static str) -> Self {
        Self { name, unit: "Count", value: 1 }
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

    /// Writes one line. The tool and the task are not dimensions, because each value of a dimension is billed as a metric
    /// of its own; they are fields, for queries over the logs.
    fn put(&self, task: &Task, dimension: Option<(&str, &str)>, metrics: &[Metric]) {
        let names: Vec<_> = metrics.iter().map(|metric| json!({"Name": metric.name, "Unit": metric.unit})).collect();
        let dimensions: Vec<_> = dimension.iter().map(|(name, _)| *name).collect();
        let mut line = Map::new();
        line.insert(
            "_aws".to_owned(),
            json!({
                "Timestamp": self.clock.now().as_ms(),
                "CloudWatchMetrics": [{"Namespace": self.namespace, "Dimensions": [dimensions], "Metrics": names}],
            }),
        );
        line.insert("tool".to_owned(), json!(task.tool));
        line.insert("task_id".to_owned(), json!(task.id.to_string()));
        line.insert("attempt".to_owned(), json!(task.attempt));
        line.extend(dimension.map(|(name, value)| (name.to_owned(), json!(value))));
        line.extend(metrics.iter().map(|metric| (metric.name.to_owned(), json!(metric.value))));
        self.write(&Value::Object(line));
    }

    fn write(&self, line: &Value) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // One write, so that no other line gets in between.
        if let Err(error) = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()) {
            tracing::debug!(%error, "a metric was not written");
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Observer for EmbeddedMetrics {
    fn accepted(&self, task: &Task) {
        self.put(task, None, &[Metric::count(TASKS_ACCEPTED)]);
    }

    fn leg_began(&self, task: &Task, waited_ms: Option<u64>) {
        let waited = waited_ms.map(|ms| Metric::ms(QUEUE_WAIT, ms));
        let metrics: Vec<_> = [Metric::count(LEGS)].into_iter().chain(waited).collect();
        self.put(task, None, &metrics);
    }

    fn leg_ended(&self, task: &Task, ran_ms: u64) {
        self.put(task, None, &[Metric::ms(LEG_TIME, ran_ms)]);
    }

    fn ended(&self, task: &Task) {
        let took_ms = task.ended_at.map_or(0, |ended_at| ended_at.since_ms(task.created_at));
        let status = Some((STATUS, task.status().as_str()));
        self.put(task, status, &[Metric::count(TASKS_ENDED), Metric::ms(TASK_TIME, took_ms)]);
    }

    fn recovered(&self, task: &Task) {
        self.put(task, None, &[Metric::count(RECOVERIES)]);
    }
}
