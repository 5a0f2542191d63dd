//! The work queue: messages in a table, and those of new tasks in memory, hidden while a worker handles them. Owners
//! take turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_core::ports::{Delivery, Message, QueueError, WorkQueue};
use longhaul_core::{OwnerId, Task, TaskKey, Timestamp};
use rusqlite::Connection;

use crate::DatabaseError;
use crate::database::Shared;
use crate::queue::in_memory::InMemory;
use crate::queue::take::{Known, Taken, Wanted};
use crate::queue::turns::{Freed, Turns};

mod in_memory;
pub(crate) mod table;
mod take;
mod turns;

/// The messages in a [`Database`](crate::Database).
#[derive(Clone)]
pub struct SqliteQueue {
    shared: Arc<Shared>,
}

impl SqliteQueue {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
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
            table::take_dead(connection, &mut lock(&deliveries).turns, max, (now, now.plus_ms(visibility_ms)))
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
            .call(move |connection| write(connection, &deliveries, &message, clock.now().plus_ms(delay_ms)))
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

/// What is in memory about messages: only this process delivers those of its database.
pub(crate) struct Deliveries {
    turns: Turns,
    in_memory: InMemory,
    known: Known,
    /// How far the search for owners came, the last time that it was cut short.
    searched_memory: Option<OwnerId>,
    searched_table: Option<OwnerId>,
    is_closed: bool,
}

impl Deliveries {
    /// Of a database that was just opened.
    pub(crate) fn new(owner_max: usize, now: Timestamp) -> Self {
        Self {
            turns: Turns::new(owner_max, now),
            in_memory: InMemory::default(),
            known: Known::NOTHING,
            searched_memory: None,
            searched_table: None,
            is_closed: false,
        }
    }

    /// Whether a message of this task is in memory.
    pub(crate) fn has(&self, task: &TaskKey) -> bool {
        self.in_memory.has(task)
    }

    /// How many messages in memory are gone.
    pub(crate) const fn removed(&self) -> u64 {
        self.in_memory.removed()
    }

    /// From now on nothing is delivered.
    pub(crate) const fn close(&mut self) {
        self.is_closed = true;
    }

    /// The times of messages in the table were changed, to earlier ones perhaps.
    pub(crate) const fn look_again(&mut self) {
        self.known = Known::NOTHING;
    }

    fn hidden(&mut self, receipt: Receipt, until: Timestamp) -> Result<(), DatabaseError> {
        self.refuse_if_closed()?;
        self.turns.hidden(receipt.number, receipt.turn, until);
        if receipt.is_in_memory() {
            self.in_memory.hide(receipt.number, receipt.turn, until);
        } else {
            self.known.note(until);
        }
        Ok(())
    }

    fn deleted(&mut self, receipt: Receipt) -> Result<Freed, DatabaseError> {
        self.refuse_if_closed()?;
        if receipt.is_in_memory() {
            self.in_memory.delete(receipt.number, receipt.turn);
        }
        Ok(self.turns.deleted(receipt.number, receipt.turn))
    }

    const fn refuse_if_closed(&self) -> Result<(), DatabaseError> {
        if self.is_closed { Err(DatabaseError::Closed) } else { Ok(()) }
    }
}

pub(crate) fn lock(deliveries: &Mutex<Deliveries>) -> MutexGuard<'_, Deliveries> {
    deliveries.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the message of a task that has just been written: it stays in memory if it is visible at once, and if the
/// record says that there is one. Cleanup needs a message also when its task has ended.
pub(crate) fn send_first(
    connection: &Connection,
    deliveries: &Mutex<Deliveries>,
    task: &Task,
    (now, visible_at): (Timestamp, Timestamp),
) -> Result<(), DatabaseError> {
    let message = Message::about(task);
    let is_on_record = visible_at <= now && !task.cleanup.is_armed();
    if is_on_record && lock(deliveries).in_memory.put(message.clone(), visible_at) {
        return Ok(());
    }
    write(connection, deliveries, &message, visible_at)
}

fn write(
    connection: &Connection,
    deliveries: &Mutex<Deliveries>,
    message: &Message,
    visible_at: Timestamp,
) -> Result<(), DatabaseError> {
    table::insert(connection, message, visible_at)?;
    lock(deliveries).known.note(visible_at);
    Ok(())
}

/// Identifies one delivery: the message, and a number that is the delivery's alone and grows from one to the next.
#[derive(Clone, Copy)]
pub(crate) struct Receipt {
    number: i64,
    turn: i64,
}

impl Receipt {
    fn parse(text: &str) -> Option<Self> {
        // The message's number may be below zero, the delivery's is not.
        let (number, turn) = text.rsplit_once('-')?;
        Some(Self { number: number.parse().ok()?, turn: turn.parse().ok()? })
    }

    const fn is_in_memory(self) -> bool {
        self.number < 0
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
