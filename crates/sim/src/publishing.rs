//! The publisher, and the outbox that it empties: what the store left there with each end and each question.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::Notification;
use longhaul_core::ports::{Outbox, StoreError};
use longhaul_engine::{WebhookDeliveries, WebhookDelivery};
use longhaul_testkit::models::PlantedFault;

use super::fault_profile::InjectedFault;
use super::lying::Instance;
use super::ports::engine;
use super::world::{InjectedError, Killable, OutcomeKind, World};

/// How a notification and an endpoint are written in the request of a webhook delivery.
const BETWEEN: char = '@';

/// Passes notifications on. When it is killed, another one replaces it later.
pub(crate) async fn publish(world: Arc<World>) {
    let engine = engine(&world, Instance::Worker, 0);
    let outbox = SimOutbox(Arc::clone(&world));
    let webhook_deliveries = SimWebhookDeliveries(Arc::clone(&world));
    let lease_ms = world.plan.settings.lease_ms;
    loop {
        let life = Killable { killed_by: InjectedFault::Kill, stop: None };
        let _again_later = world.killable(&life, engine.publish(&outbox, &webhook_deliveries, 0)).await;
        world.kernel.sleep(lease_ms / 2).await;
    }
}

/// The notification and the endpoint that a webhook delivery is about.
pub(crate) fn read_webhook_delivery(request: &str) -> Option<(&str, usize)> {
    let (notification, endpoint) = request.split_once(BETWEEN)?;
    Some((notification, endpoint.parse().ok()?))
}

struct SimWebhookDeliveries(Arc<World>);

impl WebhookDeliveries for SimWebhookDeliveries {
    fn of(&self, notification: &Notification) -> Vec<WebhookDelivery> {
        let world = &self.0;
        let webhook_delivery = |endpoint: usize| WebhookDelivery {
            endpoint: endpoint.to_string(),
            request: format!("{}{BETWEEN}{endpoint}", notification.id()),
            terms: world.webhook_delivery_terms(),
        };
        let told = if world.planted == Some(PlantedFault::SecondEndpointNotTold) { 1 } else { world.plan.endpoints };
        (0..told).map(webhook_delivery).collect()
    }
}

struct SimOutbox(Arc<World>);

impl SimOutbox {
    async fn call<T: Send>(&self, act: impl FnOnce(&mut Vec<Notification>) -> T + Send) -> Result<T, StoreError> {
        let (world, outcome) = (&self.0, self.0.outcome());
        world.kernel.sleep(outcome.there_ms).await;
        let done = match outcome.kind {
            OutcomeKind::FailsBefore | OutcomeKind::LandsLate(_) => None,
            OutcomeKind::FailsAfter => {
                act(world.lock().store.outbox());
                None
            }
            OutcomeKind::Succeeds => Some(act(world.lock().store.outbox())),
        };
        if let Some(back_ms) = outcome.back_ms {
            world.kernel.sleep(back_ms).await;
        }
        done.ok_or_else(|| StoreError::Unavailable(Box::new(InjectedError)))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Outbox for SimOutbox {
    async fn notifications(&self, max: usize, _wait_ms: u64) -> Result<Vec<Notification>, StoreError> {
        let forgets = self.0.planted == Some(PlantedFault::NotificationsRemovedWhenRead);
        let first = self.call(|outbox| {
            let first: Vec<Notification> = outbox.iter().take(max).cloned().collect();
            if forgets {
                outbox.clear();
            }
            first
        });
        let first = first.await?;
        if !first.is_empty() {
            self.0.kernel.tell(|| format!("finds {} notification(s)", first.len()));
        }
        Ok(first)
    }

    async fn remove(&self, notifications: &[Notification]) -> Result<(), StoreError> {
        self.call(|outbox| outbox.retain(|held| !notifications.contains(held))).await
    }
}
