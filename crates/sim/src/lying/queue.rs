//! A work queue that lies.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{Delivery, Message, QueueError, WorkQueue};
use longhaul_testkit::models::PlantedFault;

use super::memo::Memo;
use super::store::FAR_MS;

pub(super) struct LyingQueue {
    fault: PlantedFault,
    inner: Arc<dyn WorkQueue>,
    memo: Arc<Memo>,
}

impl LyingQueue {
    pub(super) const fn new(fault: PlantedFault, inner: Arc<dyn WorkQueue>, memo: Arc<Memo>) -> Self {
        Self { fault, inner, memo }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkQueue for LyingQueue {
    /// Does not send the message for which the store left a memo, or sends it too early or too late.
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError> {
        if self.memo.take() == Some(message.task) {
            return match self.fault {
                PlantedFault::CleanupBesideTheTool => self.inner.send(message, 0).await,
                PlantedFault::DeadlineMessageTooLate => self.inner.send(message, FAR_MS).await,
                _ => Ok(()),
            };
        }
        self.inner.send(message, delay_ms).await
    }

    async fn receive(&self, max: usize, visibility_ms: u64, wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        self.memo.clear();
        self.inner.receive(max, visibility_ms, wait_ms).await
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        match (self.fault, self.memo.take()) {
            (PlantedFault::LeaseNotRenewed, Some(_)) => Ok(()),
            (PlantedFault::LeasedMessageDropped, Some(_)) => self.inner.delete(receipt).await,
            _ => self.inner.extend(receipt, visibility_ms).await,
        }
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        self.inner.delete(receipt).await
    }

    async fn receive_dead(&self, max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        let letters = self.inner.receive_dead(max, visibility_ms).await?;
        if self.fault != PlantedFault::DeadLetterDropped {
            return Ok(letters);
        }
        for letter in &letters {
            self.inner.delete(&letter.receipt).await?;
        }
        Ok(Vec::new())
    }
}
