//! The work queue: messages in a table, and those of new tasks in memory, hidden while a worker handles them. Owners
//! take turns.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{Delivery, Message, QueueError, WorkQueue};

use crate::DatabaseError;
use crate::handle::Handle;
use crate::queue::deliveries::{Taken, Wanted, lock, send};
use crate::queue::message::Receipt;
use crate::queue::table;
use crate::queue::turns::Freed;

/// The messages in a [`Database`](crate::Database).
#[derive(Clone)]
pub struct SqliteQueue {
    shared: Arc<Handle>,
}

impl SqliteQueue {
    pub(crate) const fn new(shared: Arc<Handle>) -> Self {
        Self { shared }
    }

    /// The messages that are visible now; if there are none, when the next one becomes visible.
    async fn take(&self, max: usize, visibility_ms: u64) -> Result<Taken, DatabaseError> {
        match self.take_once(max, visibility_ms).await {
            Err(error) if error.is_permanent() => {
                self.set_aside_unreadable(&error).await?;
                self.take_once(max, visibility_ms).await
            }
            taken => taken,
        }
    }

    /// Has messages that cannot be read keep no other one waiting. They stay in the table.
    async fn set_aside_unreadable(&self, error: &DatabaseError) -> Result<(), DatabaseError> {
        let messages = self.shared.writer.call(table::set_aside_unreadable).await?;
        tracing::error!(
            messages,
            error = error as &dyn std::error::Error,
            "messages cannot be read, and are set aside"
        );
        Ok(())
    }

    async fn take_once(&self, max: usize, visibility_ms: u64) -> Result<Taken, DatabaseError> {
        let receives_max = self.shared.settings.receives_max;
        let now = self.shared.clock.now();
        let wanted = Wanted { max, receives_max, now, visible_at: now.plus_ms(visibility_ms) };
        if let Some(taken) = lock(&self.shared.deliveries).take_from_memory(wanted) {
            return Ok(taken);
        }
        let (clock, deliveries) = (Arc::clone(&self.shared.clock), Arc::clone(&self.shared.deliveries));
        self.shared
            .writer
            .call_before_commit(move |connection| {
                let now = clock.now();
                let wanted = Wanted { now, visible_at: now.plus_ms(visibility_ms), ..wanted };
                lock(&deliveries).take(connection, wanted)
            })
            .await
    }

    async fn take_dead(&self, max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, DatabaseError> {
        let (clock, deliveries) = (Arc::clone(&self.shared.clock), Arc::clone(&self.shared.deliveries));
        let dead = self.shared.writer.call_before_commit(move |connection| {
            let now = clock.now();
            lock(&deliveries).take_dead(connection, max, (now, now.plus_ms(visibility_ms)))
        });
        dead.await
    }
}

#[async_trait]
impl WorkQueue for SqliteQueue {
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError> {
        let (message, clock) = (message.clone(), Arc::clone(&self.shared.clock));
        let deliveries = Arc::clone(&self.shared.deliveries);
        self.shared
            .writer
            .call(move |connection| send(connection, &deliveries, &message, clock.now().plus_ms(delay_ms)))
            .await?;
        self.shared.messages.notify_waiters();
        Ok(())
    }

    async fn receive(&self, max: usize, visibility_ms: u64, wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        let until = self.shared.clock.now().plus_ms(wait_ms);
        loop {
            // Created before the query, so that a message sent between the query and the wait is not missed.
            let woken = self.shared.messages.notified();
            let taken = self.take(max, visibility_ms).await?;
            let now = self.shared.clock.now();
            if !taken.deliveries.is_empty() || max == 0 || now >= until {
                return Ok(taken.deliveries);
            }
            let wake_at = taken.next_at.map_or(until, |next_at| next_at.min(until));
            tokio::select! {
                () = woken => {}
                () = self.shared.clock.sleep_ms(wake_at.since_ms(now)) => {}
            }
        }
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        let Some(receipt) = Receipt::parse(receipt) else { return Ok(()) };
        let until = self.shared.clock.now().plus_ms(visibility_ms);
        if !receipt.is_in_memory() {
            self.shared.writer.call_before_commit(move |connection| table::hide(connection, receipt, until)).await?;
        }
        lock(&self.shared.deliveries).hidden(receipt, until)?;
        // Receivers that wait have to see the new time.
        self.shared.messages.notify_waiters();
        Ok(())
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        let Some(receipt) = Receipt::parse(receipt) else { return Ok(()) };
        if !receipt.is_in_memory() {
            self.shared.writer.call_before_commit(move |connection| table::delete(connection, receipt)).await?;
        }
        match lock(&self.shared.deliveries).deleted(receipt)? {
            Freed::Share => self.shared.messages.notify_waiters(),
            Freed::Nothing => {}
        }
        Ok(())
    }

    async fn receive_dead(&self, max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        match self.take_dead(max, visibility_ms).await {
            Err(error) if error.is_permanent() => {
                self.set_aside_unreadable(&error).await?;
                Ok(self.take_dead(max, visibility_ms).await?)
            }
            dead => Ok(dead?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use longhaul_testkit::given::{self, NOW, owner};
    use longhaul_testkit::{ManualClock, SeededIds};

    use super::*;
    use crate::{Database, Settings};

    /// A receive that waits for the writer sees what became visible meanwhile, and hides it for as long as it was asked
    /// to.
    #[tokio::test]
    async fn a_receive_counts_from_when_the_writer_comes_to_it() {
        let clock = Arc::new(ManualClock::at(NOW));
        let database = Database::in_memory(Arc::clone(&clock) as _, Settings::default()).unwrap();
        let task = given::task(&SeededIds::new(1), owner("alice"), NOW).key();
        let queue = database.queue();
        queue.send(&Message { task, trace: None, attempt: None }, 4_000).await.unwrap();
        let (go, gone) = mpsc::channel();
        let passes = Arc::clone(&clock);
        let busy = database.shared().writer.call(move |_connection| {
            gone.recv().unwrap();
            passes.advance_ms(5_000);
            Ok(())
        });
        let (waited, received, ()) = tokio::join!(busy, queue.receive(1, 1_000, 0), async { go.send(()).unwrap() });
        waited.unwrap();
        assert_eq!(received.unwrap().len(), 1);
        assert_eq!(queue.receive(1, 1_000, 0).await.unwrap(), [], "it was hidden from an earlier moment on");
    }
}
