//! The publisher function reads changes of tasks from the table's stream. It notifies an event bus, and endpoints of
//! webhooks, of tasks that have ended or wait for their clients.
//!
//! The function checks each record that the filter of its event source mapping lets through. A change that publishes
//! nothing is done. An event is put at least once. The task of a webhook delivery is created at least once, and its id
//! makes it one task. A record that could not be published comes again, with all that come after it in its shard. One
//! that cannot be read is set aside.

use std::sync::Arc;

use aws_lambda_events::sqs::SqsBatchResponse;
use futures::StreamExt;
use lambda_runtime::LambdaEvent;
use longhaul_aws::{BusEvent, EventBus, NotPublishedQueue, StreamEvent, StreamRecord};
use longhaul_core::ports::StoreError;
use longhaul_core::{Notification, Timestamp, strict_json, with_causes};
use longhaul_engine::Engine;
use longhaul_http::webhooks::{EVENT_SOURCE, Endpoints, detail, detail_type};
use serde_json::value::RawValue;

use crate::metrics::EmbeddedMetrics;

/// The tasks of so many notifications are created at a time.
const TOLD_AT_A_TIME: usize = 8;

/// The publisher function of one sandbox.
pub struct Publisher {
    engine: Engine,
    bus: EventBus,
    endpoints: Endpoints,
    /// Changes from before this time are not published.
    since: Option<Timestamp>,
    /// Where the positions of records are put that cannot be read.
    not_published: Option<NotPublishedQueue>,
    metrics: Option<Arc<EmbeddedMetrics>>,
}

struct Due<'a> {
    record: &'a StreamRecord,
    notification: Notification,
}

impl Publisher {
    /// A function that sends events to `bus`, and creates the webhook deliveries for `endpoints`.
    #[must_use]
    pub const fn new(engine: Engine, bus: EventBus, endpoints: Endpoints) -> Self {
        Self { engine, bus, endpoints, since: None, not_published: None, metrics: None }
    }

    /// The same function, which publishes nothing that happened before `since`. When publishing is switched on, the
    /// stream of a running stack has the changes of a day.
    #[must_use]
    pub const fn publishes_since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }

    /// The same function, which puts the positions of records that it cannot read into `queue`.
    #[must_use]
    pub fn puts_aside_in(mut self, queue: NotPublishedQueue) -> Self {
        self.not_published = Some(queue);
        self
    }

    /// The same function, which counts the records that it cannot read.
    #[must_use]
    pub fn measured_by(mut self, metrics: Arc<EmbeddedMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Publishes what is in a batch. The response names the records that failed, which come again.
    pub async fn publish(&self, event: &StreamEvent) -> SqsBatchResponse {
        let mut response = SqsBatchResponse::default();
        let mut due = Vec::new();
        for record in &event.records {
            match notification(record) {
                Ok(notification) => {
                    let since = notification.filter(|notification| self.since.is_none_or(|at| notification.at >= at));
                    due.extend(since.map(|notification| Due { record, notification }));
                }
                Err(error) => self.set_aside(record, &error, &mut response).await,
            }
        }
        tracing::info!(records = event.records.len(), notifications = due.len(), "publishes changes of tasks");
        let (put, told) = futures::join!(self.put(&due), self.tell(&due));
        for ((due, put), told) in due.iter().zip(put).zip(told) {
            if let Err(why) = put.and(told) {
                add_failure(&mut response, due.record, &why);
            }
        }
        response
    }

    /// Publishes batches until the sandbox ends.
    pub async fn run(self) -> Result<(), lambda_runtime::Error> {
        let publisher = &self;
        let publish = move |event: LambdaEvent<Box<RawValue>>| async move {
            let event: StreamEvent = strict_json::from_str(event.payload.get())?;
            Ok::<_, lambda_runtime::Error>(publisher.publish(&event).await)
        };
        lambda_runtime::run(lambda_runtime::service_fn(publish)).await
    }

    /// Sets aside a record that cannot be read. It would come again with all that come after it, until the stream has
    /// forgotten them. A newer version may be able to read it.
    async fn set_aside(&self, record: &StreamRecord, error: &StoreError, response: &mut SqsBatchResponse) {
        let error = with_causes(error);
        tracing::error!(
            sequence_number = record.sequence_number(),
            error,
            "a change of a task cannot be read, and is set aside unpublished"
        );
        if let Some(queue) = &self.not_published
            && let Err(why) = queue.put(record).await
        {
            return add_failure(response, record, &with_causes(&why));
        }
        self.metrics.iter().for_each(|metrics| metrics.record_set_aside());
    }

    /// Sends events to the event bus.
    async fn put(&self, due: &[Due<'_>]) -> Vec<Result<(), String>> {
        let events: Vec<BusEvent> = due.iter().map(event_of).collect();
        self.bus.put(&events).await.into_iter().map(|put| put.map_err(|error| error.to_string())).collect()
    }

    /// Creates the webhook deliveries.
    async fn tell(&self, due: &[Due<'_>]) -> Vec<Result<(), String>> {
        let told = due.iter().map(async |Due { notification, .. }| {
            match self.engine.tell(notification, &self.endpoints).await {
                Err(error) if error.may_pass() => Err(with_causes(&error)),
                Err(error) => {
                    let (event, error) = (notification.id(), &error as &dyn std::error::Error);
                    tracing::error!(event, error, "a notification cannot be passed on, and is given up");
                    Ok(())
                }
                Ok(()) => Ok(()),
            }
        });
        futures::stream::iter(told).buffered(TOLD_AT_A_TIME).collect().await
    }
}

/// Names a record that comes again, with all that come after it in its shard.
fn add_failure(response: &mut SqsBatchResponse, record: &StreamRecord, why: &str) {
    let sequence_number = record.sequence_number();
    tracing::error!(sequence_number, why, "a change of a task was not published; it comes again");
    response.add_failure(sequence_number);
}

fn notification(record: &StreamRecord) -> Result<Option<Notification>, StoreError> {
    let change = record.task_change()?;
    Ok(change.and_then(|change| match &change.before {
        Some(before) => Notification::between(before, &change.after),
        None => Notification::of(&change.after),
    }))
}

fn event_of(Due { record, notification }: &Due<'_>) -> BusEvent {
    BusEvent {
        source: EVENT_SOURCE,
        detail_type: detail_type(notification.what),
        detail: detail(notification).to_string(),
        at: notification.at,
        resources: record.table_arn().map(str::to_owned).into_iter().collect(),
    }
}
