//! The worker function: runs a batch of deliveries and reports those that failed.
//!
//! Each delivery is one attempt of one task. A delivery that fails does not affect the others. It is reported as
//! failed, its message stays in the queue, and it is delivered again after its visibility timeout.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use futures::FutureExt;
use futures::future::{Either, join_all, select};
use lambda_runtime::LambdaEvent;
use longhaul_aws::{StreamEvent, TRACE_ATTRIBUTE, UnreadableMessage, read_delivered};
use longhaul_core::ports::{Delivery, QueueError, WorkQueue};
use longhaul_core::{Timestamp, strict_json};
use longhaul_engine::{Disposition, Engine, ToolRunner, WorkerSignals};
use longhaul_mcp::McpServer;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::metrics::EmbeddedMetrics;
use crate::unclaimed::{self, WorkerEvent};

/// How long before the function's deadline an attempt is aborted, so that there is time to record it.
const RESERVE_MS: u64 = 1_000;

/// How long an unreadable dead letter stays hidden. An operator has to read it; SQS keeps it for at most 14 days.
const UNREADABLE_REST_MS: u64 = 6 * 60 * 60 * 1_000;

/// The worker function of one sandbox. Clones are the same function.
#[derive(Clone)]
pub struct Worker {
    engine: Engine,
    /// Engines for the deliveries of other queues, by the queues' names.
    of_classes: BTreeMap<String, Engine>,
    runner: Arc<dyn ToolRunner>,
    dead_letters: DeadLetters,
    concurrency: usize,
    /// The server whose schedules are run.
    scheduled: Option<McpServer>,
    metrics: Option<Arc<EmbeddedMetrics>>,
}

/// The queue for messages that were delivered too often.
#[derive(Clone)]
pub struct DeadLetters {
    queue: Arc<dyn WorkQueue>,
    name: String,
}

impl DeadLetters {
    /// The queue at `url`, which `queue` reaches.
    #[must_use]
    pub fn new(queue: Arc<dyn WorkQueue>, url: &str) -> Self {
        Self { queue, name: queue_name(url).to_owned() }
    }
}

/// The state that the records of one batch share.
struct Batch {
    free: Semaphore,
    unfinished: AtomicUsize,
    signals: WorkerSignals,
}

/// The report to SQS about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reported {
    /// SQS may delete its message.
    Acknowledged,
    /// Its message stays in the queue.
    Failed,
}

impl Worker {
    /// A function that runs the tools of `runner`, `concurrency` attempts at a time.
    #[must_use]
    pub fn new(engine: Engine, runner: Arc<dyn ToolRunner>, dead_letters: DeadLetters, concurrency: usize) -> Self {
        Self {
            engine,
            of_classes: BTreeMap::new(),
            runner,
            dead_letters,
            concurrency: concurrency.max(1),
            scheduled: None,
            metrics: None,
        }
    }

    /// The same function, which counts the records of the stream that it cannot read.
    #[must_use]
    pub fn measured_by(mut self, metrics: Arc<EmbeddedMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// The same function, which checks the schedules of `server` when a message asks for it.
    #[must_use]
    pub fn keeps_schedules_of(mut self, server: McpServer) -> Self {
        self.scheduled = Some(server);
        self
    }

    /// The same function, which also takes messages from the queue of a class at `url`, which `queue` reaches.
    #[must_use]
    pub fn and_takes_from(mut self, url: &str, queue: Arc<dyn WorkQueue>) -> Self {
        self.of_classes.insert(queue_name(url).to_owned(), self.engine.clone().delivered_by(queue));
        self
    }

    /// Runs a batch to its end, before `deadline`. The response names the records that failed; their messages are
    /// delivered again.
    pub async fn run_batch(&self, event: SqsEvent, deadline: Timestamp) -> SqsBatchResponse {
        let batch = Batch {
            free: Semaphore::new(self.concurrency),
            unfinished: AtomicUsize::new(event.records.len()),
            signals: WorkerSignals { until: self.attempts_end(deadline), ..WorkerSignals::default() },
        };
        let reports = join_all(event.records.iter().map(|record| self.run_guarded(record, &batch))).await;
        let mut response = SqsBatchResponse::default();
        for (record, reported) in event.records.iter().zip(reports) {
            match reported {
                Reported::Acknowledged => {}
                // A record without an id fails the whole batch, because it cannot be named.
                Reported::Failed => response.add_failure(record.message_id.as_deref().unwrap_or_default()),
            }
        }
        response
    }

    /// Sends missing messages of tasks in records of the table's stream, if no worker has taken them. The response
    /// names the records that have to come again.
    pub async fn see_to(&self, event: &StreamEvent) -> SqsBatchResponse {
        unclaimed::see_to(&self.engine, self.metrics.as_deref(), event).await
    }

    /// Runs batches until the sandbox ends.
    pub async fn run(self) -> Result<(), lambda_runtime::Error> {
        let worker = &self;
        let run_batch = move |event: LambdaEvent<WorkerEvent>| async move {
            let deadline = Timestamp::from_ms(event.context.deadline);
            let response = match event.payload {
                WorkerEvent::Messages(messages) => worker.run_batch(messages, deadline).await,
                WorkerEvent::Records(records) => worker.see_to(&records).await,
            };
            // The sandbox is frozen after the response.
            longhaul_core::spans::flush();
            Ok::<_, Infallible>(response)
        };
        lambda_runtime::run(lambda_runtime::service_fn(run_batch)).await
    }

    /// When the attempts of this invocation end. A deadline that has passed when the batch arrives is ignored: some
    /// development hosts send a constant.
    fn attempts_end(&self, deadline: Timestamp) -> Option<Timestamp> {
        let left_ms = deadline.since_ms(self.now());
        (left_ms > 0).then(|| deadline.minus_ms(RESERVE_MS.min(left_ms / 4)))
    }

    /// A panic fails only its own record.
    async fn run_guarded(&self, record: &SqsMessage, batch: &Batch) -> Reported {
        let reported = AssertUnwindSafe(self.run_record(record, batch)).catch_unwind().await;
        batch.unfinished.fetch_sub(1, Ordering::Relaxed);
        reported.unwrap_or_else(|_panic| {
            tracing::error!(message_id = record.message_id, "a delivery panicked; its message stays in the queue");
            Reported::Failed
        })
    }

    async fn run_record(&self, record: &SqsMessage, batch: &Batch) -> Reported {
        if is_tick(record) {
            self.look_at_schedules().await;
            return Reported::Acknowledged;
        }
        let source = source_of(record, &self.dead_letters.name);
        let delivery = match delivery_of(record) {
            Ok(delivery) => delivery,
            Err(unreadable) => return self.put_aside(record, source, &unreadable).await,
        };
        let (queue, disposition) = match source {
            Source::Work => {
                let engine = self.engine_of(record);
                (&*engine.ports().queue, self.run_attempt(engine, &delivery, batch).await)
            }
            Source::DeadLetters => (&*self.dead_letters.queue, self.engine.run_dead_letter(&delivery).await),
        };
        match disposition {
            Disposition::Acknowledge => {
                // No heartbeat hides the message any more while the rest of the batch continues.
                if batch.unfinished.load(Ordering::Relaxed) > 1 {
                    log_failure(queue.delete(&delivery.receipt).await);
                }
                Reported::Acknowledged
            }
            Disposition::RetryAfter { after_ms } => {
                log_failure(queue.extend(&delivery.receipt, after_ms).await);
                Reported::Failed
            }
        }
    }

    /// A failure is left to the next message, which comes within a minute.
    async fn look_at_schedules(&self) {
        match &self.scheduled {
            Some(server) if server.has_schedules() => {
                let looked = server.look_at_schedules().await;
                tracing::debug!(?looked, "looked at the schedules");
            }
            Some(_) | None => {
                tracing::warn!("a message asks for a check of schedules, and this server has none: set Schedules=off");
            }
        }
    }

    /// Runs one attempt. The message arrives hidden for as long as the function may run. It is hidden for one lease
    /// instead, and the engine's heartbeats extend that. So the message of a killed worker is delivered again after one
    /// lease.
    async fn run_attempt(&self, engine: &Engine, delivery: &Delivery, batch: &Batch) -> Disposition {
        let attempt = async {
            let Some(_slot) = self.slot(engine, delivery, batch).await else {
                return Disposition::RetryAfter { after_ms: 0 };
            };
            engine.run_delivery(delivery, &*self.runner, &batch.signals).await
        };
        let ((), disposition) = futures::join!(hide(engine, delivery), attempt);
        disposition
    }

    /// Waits for room and hides the message meanwhile. `None` if the batch runs out of time first: another
    /// sandbox will get the message.
    async fn slot<'a>(&self, engine: &Engine, delivery: &Delivery, batch: &'a Batch) -> Option<SemaphorePermit<'a>> {
        if let Ok(slot) = batch.free.try_acquire() {
            return Some(slot);
        }
        let settings = self.engine.settings();
        let mut slot = std::pin::pin!(batch.free.acquire());
        loop {
            let left_ms = batch.signals.until.map_or(u64::MAX, |until| until.since_ms(self.now()));
            if left_ms <= settings.attempt_margin_ms {
                return None;
            }
            let wait_ms = settings.heartbeat_ms.min(left_ms - settings.attempt_margin_ms);
            match select(slot.as_mut(), self.engine.ports().clock.sleep_ms(wait_ms)).await {
                Either::Left((slot, _)) => return slot.ok(),
                Either::Right(_) => hide(engine, delivery).await,
            }
        }
    }

    /// An unreadable message is never deleted. In the work queue it is delivered again until it becomes a dead letter,
    /// and dead letters raise an alarm.
    async fn put_aside(&self, record: &SqsMessage, source: Source, unreadable: &Unreadable) -> Reported {
        tracing::error!(
            message_id = record.message_id,
            ?source,
            error = unreadable as &dyn std::error::Error,
            "a message cannot be read"
        );
        if let (Source::DeadLetters, Some(receipt)) = (source, record.receipt_handle.as_deref()) {
            log_failure(self.dead_letters.queue.extend(receipt, UNREADABLE_REST_MS).await);
        }
        Reported::Failed
    }

    /// The engine for the deliveries of the queue that `record` comes from.
    fn engine_of(&self, record: &SqsMessage) -> &Engine {
        queue_of(record).and_then(|queue| self.of_classes.get(queue)).unwrap_or(&self.engine)
    }

    fn now(&self) -> Timestamp {
        self.engine.ports().clock.now()
    }
}

async fn hide(engine: &Engine, delivery: &Delivery) {
    log_failure(engine.ports().queue.extend(&delivery.receipt, engine.settings().lease_ms).await);
}

/// Logs a queue that did not answer. The message is delivered again in any case, and the next claim decides.
fn log_failure(changed: Result<(), QueueError>) {
    if let Err(error) = changed {
        tracing::warn!(error = &error as &dyn std::error::Error, "the queue did not answer");
    }
}

/// The attribute of a record that says how often its message was received.
const RECEIVES: &str = "ApproximateReceiveCount";

/// Which queue a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The work queue, or that of a class.
    Work,
    /// The queue for messages that were delivered too often.
    DeadLetters,
}

/// Why a record cannot be processed.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    /// Its body does not name a task.
    #[error("the body cannot be read")]
    Body(#[source] UnreadableMessage),
    /// It has no receipt handle, so its message can be neither extended nor deleted.
    #[error("there is no receipt handle")]
    NoReceipt,
}

/// A body that is not about a task: "check the schedules". Nothing else in it is trusted.
#[derive(serde::Deserialize)]
struct Tick {
    #[serde(rename = "lookAtSchedules")]
    _look_at_schedules: serde_json::Value,
}

/// Whether `record` asks the worker to check the schedules of its server.
fn is_tick(record: &SqsMessage) -> bool {
    record.body.as_deref().is_some_and(|body| strict_json::from_str::<Tick>(body).is_ok())
}

/// Where `record` comes from. A dead letter is recognised by its queue, so that one binary serves both queues, in two
/// functions or in one.
fn source_of(record: &SqsMessage, dead_letter_queue: &str) -> Source {
    if queue_of(record) == Some(dead_letter_queue) { Source::DeadLetters } else { Source::Work }
}

fn queue_of(record: &SqsMessage) -> Option<&str> {
    record.event_source_arn.as_deref().and_then(|arn| arn.rsplit(':').next())
}

fn queue_name(url: &str) -> &str {
    url.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

fn delivery_of(record: &SqsMessage) -> Result<Delivery, Unreadable> {
    let trace = record.message_attributes.get(TRACE_ATTRIBUTE).and_then(|attribute| attribute.string_value.as_deref());
    let body = record.body.as_deref().unwrap_or_default();
    let (message, purpose) = read_delivered(body, trace).map_err(Unreadable::Body)?;
    let receipt = record.receipt_handle.clone().filter(|receipt| !receipt.is_empty()).ok_or(Unreadable::NoReceipt)?;
    let receives = record.attributes.get(RECEIVES).and_then(|count| count.parse().ok()).unwrap_or(1);
    Ok(Delivery { message, receipt, receives, purpose })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_are_known_by_their_queue() {
        let dead = queue_name("http://127.0.0.1:4566/000000000000/tasks-dead");
        let record = |queue: &str| {
            let mut record = SqsMessage::default();
            record.event_source_arn = Some(format!("arn:aws:sqs:eu-west-1:111122223333:{queue}"));
            record
        };
        assert_eq!(source_of(&record("tasks-dead"), dead), Source::DeadLetters);
        assert_eq!(source_of(&record("tasks"), dead), Source::Work);
        assert_eq!(source_of(&SqsMessage::default(), dead), Source::Work);
    }
}
