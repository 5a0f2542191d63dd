//! The worker function: a batch of deliveries in, the failed ones out.
//!
//! Each delivery is one leg of one task. What goes wrong with one is that one's: it is reported as failed, stays in the
//! queue, and comes back after its visibility; the others are not touched.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use futures::FutureExt;
use futures::future::{Either, join_all, select};
use lambda_runtime::LambdaEvent;
use longhaul_core::Timestamp;
use longhaul_core::ports::{Delivery, QueueError, WorkQueue};
use longhaul_engine::{Disposition, Engine, ToolRunner, WorkerSignals};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::record::{self, Source, Unreadable};

/// How long before the function's deadline a leg is broken off, so that there is time to write down that it was.
const RESERVE_MS: u64 = 1_000;

/// How long a dead letter rests that cannot be read: it is for people to look at, and 14 days old at the most.
const UNREADABLE_REST_MS: u64 = 6 * 60 * 60 * 1_000;

/// The worker function of one sandbox. Clones are the same function.
#[derive(Clone)]
pub struct Worker {
    engine: Engine,
    runner: Arc<dyn ToolRunner>,
    dead_letters: DeadLetters,
    concurrency: usize,
}

/// The queue that messages go to which were handed over too often.
#[derive(Clone)]
pub struct DeadLetters {
    queue: Arc<dyn WorkQueue>,
    name: String,
}

impl DeadLetters {
    /// The queue at `url`, which `queue` reaches.
    #[must_use]
    pub fn new(queue: Arc<dyn WorkQueue>, url: &str) -> Self {
        Self { queue, name: record::queue_name(url).to_owned() }
    }
}

/// What the records of one batch share.
struct Batch {
    free: Semaphore,
    unfinished: AtomicUsize,
    signals: WorkerSignals,
}

/// What becomes of a record's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// SQS may delete it.
    Done,
    /// It stays.
    Failed,
}

impl Worker {
    /// A function that runs the tools of `runner`, `concurrency` legs at a time.
    #[must_use]
    pub fn new(engine: Engine, runner: Arc<dyn ToolRunner>, dead_letters: DeadLetters, concurrency: usize) -> Self {
        Self { engine, runner, dead_letters, concurrency: concurrency.max(1) }
    }

    /// Runs a batch to its end, which comes before `deadline`. The answer names the records that failed; their
    /// messages come back.
    pub async fn run_batch(&self, event: SqsEvent, deadline: Timestamp) -> SqsBatchResponse {
        let batch = Batch {
            free: Semaphore::new(self.concurrency),
            unfinished: AtomicUsize::new(event.records.len()),
            signals: WorkerSignals { until: self.legs_end(deadline), ..WorkerSignals::default() },
        };
        let fates = join_all(event.records.iter().map(|record| self.run_guarded(record, &batch))).await;
        let mut response = SqsBatchResponse::default();
        for (record, fate) in event.records.iter().zip(fates) {
            match fate {
                Fate::Done => {}
                // A record without an id fails the whole batch, as nothing else can be said of it.
                Fate::Failed => response.add_failure(record.message_id.as_deref().unwrap_or_default()),
            }
        }
        response
    }

    /// Runs batches until the sandbox ends.
    ///
    /// # Errors
    /// Where the Runtime API does not answer.
    pub async fn run(self) -> Result<(), lambda_runtime::Error> {
        let worker = &self;
        let run_batch = move |event: LambdaEvent<SqsEvent>| async move {
            let deadline = Timestamp::from_ms(event.context.deadline);
            Ok::<_, Infallible>(worker.run_batch(event.payload, deadline).await)
        };
        lambda_runtime::run(lambda_runtime::service_fn(run_batch)).await
    }

    /// When the legs of this invocation end. A deadline that is over when the batch arrives is none: some hosts for
    /// development send a constant.
    fn legs_end(&self, deadline: Timestamp) -> Option<Timestamp> {
        let left_ms = deadline.since_ms(self.now());
        (left_ms > 0).then(|| deadline.minus_ms(RESERVE_MS.min(left_ms / 4)))
    }

    /// A panic is the end of its record only.
    async fn run_guarded(&self, record: &SqsMessage, batch: &Batch) -> Fate {
        let fate = AssertUnwindSafe(self.run_record(record, batch)).catch_unwind().await;
        batch.unfinished.fetch_sub(1, Ordering::Relaxed);
        fate.unwrap_or_else(|_panic| {
            tracing::error!(message_id = record.message_id, "a delivery panicked; its message stays in the queue");
            Fate::Failed
        })
    }

    async fn run_record(&self, record: &SqsMessage, batch: &Batch) -> Fate {
        let source = record::source(record, &self.dead_letters.name);
        let delivery = match record::delivery(record) {
            Ok(delivery) => delivery,
            Err(unreadable) => return self.put_aside(record, source, &unreadable).await,
        };
        let (queue, disposition) = match source {
            Source::Work => (self.work_queue(), self.run_leg(&delivery, batch).await),
            Source::DeadLetters => (&*self.dead_letters.queue, self.engine.run_dead_letter(&delivery).await),
        };
        match disposition {
            Disposition::Done => {
                // Nobody hides the message any more while the rest of the batch runs on.
                if batch.unfinished.load(Ordering::Relaxed) > 1 {
                    noted(queue.delete(&delivery.receipt).await);
                }
                Fate::Done
            }
            Disposition::Later { after_ms } => {
                noted(queue.extend(&delivery.receipt, after_ms).await);
                Fate::Failed
            }
        }
    }

    /// Runs one leg. The message arrives hidden for as long as the function may run; it is hidden for one lease instead,
    /// and the engine's heartbeats hide it on: so a task whose worker is killed comes back after a lease.
    async fn run_leg(&self, delivery: &Delivery, batch: &Batch) -> Disposition {
        let leg = async {
            let Some(_slot) = self.slot(delivery, batch).await else { return Disposition::Later { after_ms: 0 } };
            self.engine.run_delivery(delivery, &*self.runner, &batch.signals).await
        };
        let ((), disposition) = futures::join!(self.hide(delivery), leg);
        disposition
    }

    /// Waits for a free slot and hides the message meanwhile. None where the batch's time is over first: the message is
    /// for another sandbox.
    async fn slot<'a>(&self, delivery: &Delivery, batch: &'a Batch) -> Option<SemaphorePermit<'a>> {
        if let Ok(slot) = batch.free.try_acquire() {
            return Some(slot);
        }
        let settings = self.engine.settings();
        let mut slot = std::pin::pin!(batch.free.acquire());
        loop {
            let left_ms = batch.signals.until.map_or(u64::MAX, |until| until.since_ms(self.now()));
            if left_ms <= settings.leg_margin_ms {
                return None;
            }
            let wait_ms = settings.heartbeat_ms.min(left_ms - settings.leg_margin_ms);
            match select(slot.as_mut(), self.engine.ports().clock.sleep_ms(wait_ms)).await {
                Either::Left((slot, _)) => return slot.ok(),
                Either::Right(_) => self.hide(delivery).await,
            }
        }
    }

    async fn hide(&self, delivery: &Delivery) {
        noted(self.work_queue().extend(&delivery.receipt, self.engine.settings().lease_ms).await);
    }

    /// What cannot be read is never deleted: in the work queue it comes back until it is a dead letter, and as a dead
    /// letter it rests where an alarm shows it.
    async fn put_aside(&self, record: &SqsMessage, source: Source, unreadable: &Unreadable) -> Fate {
        tracing::error!(
            message_id = record.message_id,
            ?source,
            error = unreadable as &dyn std::error::Error,
            "a message cannot be read"
        );
        if let (Source::DeadLetters, Some(receipt)) = (source, record.receipt_handle.as_deref()) {
            noted(self.dead_letters.queue.extend(receipt, UNREADABLE_REST_MS).await);
        }
        Fate::Failed
    }

    fn work_queue(&self) -> &dyn WorkQueue {
        &*self.engine.ports().queue
    }

    fn now(&self) -> Timestamp {
        self.engine.ports().clock.now()
    }
}

/// The message comes back by itself, and the next claim finds out what there is to do.
fn noted(changed: Result<(), QueueError>) {
    if let Err(error) = changed {
        tracing::warn!(error = &error as &dyn std::error::Error, "the queue did not answer");
    }
}
