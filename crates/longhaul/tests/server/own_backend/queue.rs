//! A work queue in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_core::ports::{Delivery, Message, Purpose, QueueError, WorkQueue};
use longhaul_core::{Clock, Timestamp};
use tokio::sync::Notify;

/// A message that was delivered this often goes to the dead letters.
pub(crate) const RECEIVES_MAX: u32 = 3;

pub(crate) struct MemoryQueue {
    clock: Arc<dyn Clock>,
    messages: Mutex<Messages>,
    changed: Notify,
}

#[derive(Default)]
struct Messages {
    held: Vec<Held>,
    receipts: u64,
}

struct Held {
    message: Message,
    visible_at: Timestamp,
    receives: u32,
    /// Of the latest delivery: earlier ones no longer count.
    receipt: String,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Work,
    DeadLetters,
}

impl MemoryQueue {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, messages: Mutex::default(), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Messages {
    fn take(&mut self, place: Place, max: usize, now: Timestamp, visible_at: Timestamp) -> Vec<Delivery> {
        let visible = self.held.iter_mut().filter(|held| held.visible_at <= now);
        let here = visible.filter_map(|held| {
            if held.receives >= RECEIVES_MAX {
                held.place = Place::DeadLetters;
            }
            (held.place == place).then_some(held)
        });
        let deliver = |held: &mut Held| {
            self.receipts += 1;
            held.receipt = self.receipts.to_string();
            held.receives += 1;
            held.visible_at = visible_at;
            Delivery {
                message: held.message.clone(),
                receipt: held.receipt.clone(),
                receives: held.receives,
                purpose: Purpose::Work,
            }
        };
        here.take(max).map(deliver).collect()
    }

    fn next_visible(&self) -> Option<Timestamp> {
        let at_work = self.held.iter().filter(|held| held.place == Place::Work);
        at_work.map(|held| held.visible_at).min()
    }
}

#[async_trait]
impl WorkQueue for MemoryQueue {
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError> {
        let visible_at = self.clock.now().plus_ms(delay_ms);
        let (message, receipt) = (message.clone(), String::new());
        self.lock().held.push(Held { message, visible_at, receives: 0, receipt, place: Place::Work });
        self.changed.notify_waiters();
        Ok(())
    }

    async fn receive(&self, max: usize, visibility_ms: u64, wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        let until = self.clock.now().plus_ms(wait_ms);
        loop {
            // Made before the look, so that no message is missed in between.
            let changed = self.changed.notified();
            let now = self.clock.now();
            let deliveries = self.lock().take(Place::Work, max, now, now.plus_ms(visibility_ms));
            if !deliveries.is_empty() || now >= until {
                return Ok(deliveries);
            }
            let wake_at = self.lock().next_visible().map_or(until, |next| next.min(until));
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep_ms(wake_at.since_ms(now)) => {}
            }
        }
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        let visible_at = self.clock.now().plus_ms(visibility_ms);
        if let Some(held) = self.lock().held.iter_mut().find(|held| held.receipt == receipt) {
            held.visible_at = visible_at;
        }
        self.changed.notify_waiters();
        Ok(())
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        self.lock().held.retain(|held| held.receipt != receipt);
        Ok(())
    }

    async fn receive_dead(&self, max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        let now = self.clock.now();
        Ok(self.lock().take(Place::DeadLetters, max, now, now.plus_ms(visibility_ms)))
    }
}
