//! Passing notifications on: each becomes one task for each endpoint that is notified of it, and then leaves the
//! outbox.

use longhaul_core::Notification;
use longhaul_core::ports::{Outbox, StoreError};

use crate::limits::{NOTIFICATIONS_MAX, PUBLISH_FAILURES_MAX};
use crate::{AcceptError, Engine, WebhookDelivery};

/// The webhook deliveries of notifications.
pub trait WebhookDeliveries: Send + Sync {
    /// The deliveries of this notification, one for each endpoint.
    fn of(&self, notification: &Notification) -> Vec<WebhookDelivery>;
}

/// Why some notifications were not passed on. They stay in the outbox.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// A task for an endpoint could not be created.
    #[error("the task that tells an endpoint could not be created")]
    Accept(#[from] AcceptError),
    /// The outbox did not answer.
    #[error("the outbox did not answer")]
    Outbox(#[from] StoreError),
}

impl Engine {
    /// Passes on the notifications of the outbox; waits up to `wait_ms` for the first notification. Returns how many it
    /// passed on. The process that dies in the middle leaves the notification for the next call, which finds the tasks
    /// that exist.
    ///
    /// A notification that can never be passed on is given up, and one that cannot be passed on now keeps no other one
    /// waiting.
    pub async fn publish(
        &self,
        outbox: &dyn Outbox,
        webhook_deliveries: &dyn WebhookDeliveries,
        wait_ms: u64,
    ) -> Result<usize, PublishError> {
        let notifications = outbox.notifications(NOTIFICATIONS_MAX, wait_ms).await?;
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for notification in notifications {
            match self.tell(&notification, webhook_deliveries).await {
                Err(error) if error.may_pass() => failed.push(error),
                told => {
                    log_if_given_up(&notification, told);
                    done.push(notification);
                }
            }
            if failed.len() >= PUBLISH_FAILURES_MAX {
                break;
            }
        }
        if !done.is_empty() {
            self.with_retry(|| outbox.remove(&done)).await?;
        }
        failed.pop().map_or(Ok(done.len()), |error| Err(error.into()))
    }

    /// Creates the tasks that tell the endpoints of `notification`, those that exist already excepted.
    pub async fn tell(
        &self,
        notification: &Notification,
        webhook_deliveries: &dyn WebhookDeliveries,
    ) -> Result<(), AcceptError> {
        for webhook_delivery in webhook_deliveries.of(notification) {
            self.accept_webhook_delivery(notification, webhook_delivery).await?;
        }
        Ok(())
    }
}

fn log_if_given_up(notification: &Notification, told: Result<(), AcceptError>) {
    if let Err(error) = told {
        let (event, error) = (notification.id(), &error as &dyn std::error::Error);
        tracing::error!(event, error, "a notification cannot be passed on, and is given up");
    }
}
