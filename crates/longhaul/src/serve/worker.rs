//! Workers: they take deliveries from the queue and run one attempt for each; and what makes the calls of schedules.

use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};
use longhaul_core::Clock;
use longhaul_core::ports::{Delivery, QueueError, WorkQueue};
use longhaul_engine::{Disposition, Engine, ToolRunner, WorkerSignals};
use longhaul_mcp::McpServer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::SystemClock;
use crate::serve::limits::{
    DEAD_LETTERS_EVERY_MS, DEAD_LETTERS_MAX, RECEIVE_BACKOFF_MS, SCHEDULES_PAUSE_MS_MAX, SCHEDULES_RETRY_MS,
};

/// All workers of this process.
#[derive(Clone)]
pub(crate) struct Workers {
    pub(crate) engine: Engine,
    pub(crate) runner: Arc<dyn ToolRunner>,
    pub(crate) stop: CancellationToken,
    pub(crate) attempts_max: usize,
    pub(crate) receives: Receives,
}

/// How a worker waits for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receives {
    /// How long one receive waits for a message.
    wait_ms: u64,
    /// How long an open receive is awaited when the process stops.
    patience_ms: u64,
}

impl Receives {
    /// From a queue in this process: a receive that is abandoned takes no message with it.
    pub(crate) const INSIDE: Self = Self { wait_ms: 20_000, patience_ms: 0 };

    /// From a queue elsewhere, which may give a message to a receive that no process awaits any more. That message
    /// would be hidden for a lease. So a process that stops awaits its open receive, which for this reason does not
    /// wait long.
    #[cfg(feature = "aws")]
    pub(crate) const OUTSIDE: Self = Self { wait_ms: 5_000, patience_ms: 10_000 };
}

impl Workers {
    /// Takes deliveries until the process stops, then waits until the running attempts are returned to the queue.
    pub(crate) async fn run(self) {
        let free = Arc::new(Semaphore::new(self.attempts_max));
        let attempts = TaskTracker::new();
        while let Some(permit) =
            self.stop.run_until_cancelled(Arc::clone(&free).acquire_owned()).await.and_then(Result::ok)
        {
            let wanted = free.available_permits() + 1;
            let received = self.receive_or_give_back(wanted).await;
            self.begin(&attempts, &free, permit, received);
        }
        attempts.close();
        attempts.wait().await;
    }

    /// Handles dead letters until the process stops.
    pub(crate) async fn run_dead_letters(self) {
        while self.stop.run_until_cancelled(self.engine.ports().clock.sleep_ms(DEAD_LETTERS_EVERY_MS)).await.is_some() {
            match self.queue().receive_dead(DEAD_LETTERS_MAX, self.engine.settings().lease_ms).await {
                Ok(letters) => self.run_letters(letters).await,
                Err(error) => warn(&error),
            }
        }
    }

    async fn run_letters(&self, letters: Vec<Delivery>) {
        for letter in letters {
            let disposition = self.engine.run_dead_letter(&letter).await;
            self.dispose(&letter, disposition).await;
        }
    }

    /// The messages of a receive before the process stops. Messages that come afterwards are given back at once.
    async fn receive_or_give_back(&self, wanted: usize) -> Vec<Delivery> {
        let mut receiving = pin!(self.receive(wanted));
        if let Some(received) = self.stop.run_until_cancelled(receiving.as_mut()).await {
            return received;
        }
        let patience = pin!(self.engine.ports().clock.sleep_ms(self.receives.patience_ms));
        if let Either::Left((late, _)) = select(receiving, patience).await {
            for delivery in late {
                self.dispose(&delivery, Disposition::RetryAfter { after_ms: 0 }).await;
            }
        }
        Vec::new()
    }

    async fn receive(&self, wanted: usize) -> Vec<Delivery> {
        match self.queue().receive(wanted, self.engine.settings().lease_ms, self.receives.wait_ms).await {
            Ok(deliveries) => deliveries,
            Err(error) => {
                warn(&error);
                self.engine.ports().clock.sleep_ms(RECEIVE_BACKOFF_MS).await;
                Vec::new()
            }
        }
    }

    fn begin(
        &self,
        attempts: &TaskTracker,
        free: &Arc<Semaphore>,
        first: OwnedSemaphorePermit,
        received: Vec<Delivery>,
    ) {
        let mut permits = Some(first).into_iter();
        for delivery in received {
            // Only this loop takes permits, and it requested no more deliveries than there were permits.
            let permit = permits.next().or_else(|| Arc::clone(free).try_acquire_owned().ok());
            let workers = self.clone();
            let attempt = async move {
                workers.deliver(&delivery).await;
                drop(permit);
            };
            attempts.spawn(attempt);
        }
    }

    async fn deliver(&self, delivery: &Delivery) {
        let signals = WorkerSignals { until: None, stop: self.stop.clone() };
        let disposition = self.engine.run_delivery(delivery, &*self.runner, &signals).await;
        self.dispose(delivery, disposition).await;
    }

    async fn dispose(&self, delivery: &Delivery, disposition: Disposition) {
        let disposed = match disposition {
            Disposition::Acknowledge => self.queue().delete(&delivery.receipt).await,
            Disposition::RetryAfter { after_ms } => self.queue().extend(&delivery.receipt, after_ms).await,
        };
        // The message is delivered again, and then a claim shows that there is nothing to do.
        if let Err(error) = disposed {
            warn(&error);
        }
    }

    fn queue(&self) -> &dyn WorkQueue {
        &*self.engine.ports().queue
    }
}

fn warn(error: &QueueError) {
    tracing::warn!(error = error as &dyn std::error::Error, "the queue did not answer");
}

/// Looks at the schedules whenever one is due, until the process stops.
pub(super) async fn keep_schedules(mcp: McpServer, stop: CancellationToken) {
    loop {
        let looked = mcp.look_at_schedules().await;
        let now = SystemClock.now();
        let due_in_ms = looked.next_at.map_or(SCHEDULES_PAUSE_MS_MAX, |next_at| next_at.since_ms(now).max(1));
        let pause_ms = if looked.failed > 0 { SCHEDULES_RETRY_MS } else { SCHEDULES_PAUSE_MS_MAX }.min(due_in_ms);
        if stop.run_until_cancelled(SystemClock.sleep_ms(pause_ms)).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
#[cfg(feature = "aws")]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use longhaul_core::ports::{Message, Purpose};
    use longhaul_engine::{Attempt, AttemptEnd, Ports, Settings};
    use longhaul_testkit::FakeStore;
    use longhaul_testkit::given::{self, NOW, owner};
    use longhaul_testkit::{ManualClock, SeededIds};
    use tokio::sync::Notify;

    use super::*;

    /// A queue elsewhere, which has given a message to a receive before the process was asked to stop, and answers
    /// after.
    struct LateQueue {
        asked: Notify,
        answers: Notify,
        given_back: Mutex<Vec<(String, u64)>>,
    }

    #[async_trait]
    impl WorkQueue for LateQueue {
        async fn send(&self, _message: &Message, _delay_ms: u64) -> Result<(), QueueError> {
            Ok(())
        }

        async fn receive(&self, _max: usize, _visibility_ms: u64, _wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
            self.asked.notify_one();
            self.answers.notified().await;
            let task = given::task(&SeededIds::new(1), owner("alice"), NOW).key();
            let message = Message { task, trace: None, attempt: None };
            Ok(vec![Delivery { message, receipt: "late".to_owned(), receives: 1, purpose: Purpose::Work }])
        }

        async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
            self.given_back.lock().unwrap().push((receipt.to_owned(), visibility_ms));
            Ok(())
        }

        async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
            panic!("{receipt} is deleted");
        }

        async fn receive_dead(&self, _max: usize, _visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
            Ok(Vec::new())
        }
    }

    struct NoTools;

    #[async_trait]
    impl ToolRunner for NoTools {
        async fn run(&self, _attempt: Attempt) -> AttemptEnd {
            panic!("a process that stops begins an attempt");
        }
    }

    #[tokio::test]
    async fn a_message_that_arrives_after_the_stop_is_given_back_at_once() {
        let queue = Arc::new(LateQueue { asked: Notify::new(), answers: Notify::new(), given_back: Mutex::default() });
        let clock = Arc::new(ManualClock::at(NOW));
        let ports = Ports {
            store: Arc::new(FakeStore::default()),
            queue: Arc::<LateQueue>::clone(&queue),
            clock,
            ids: Arc::new(SeededIds::new(1)),
        };
        let workers = Workers {
            engine: Engine::new(ports, Settings::default()),
            runner: Arc::new(NoTools),
            stop: CancellationToken::new(),
            attempts_max: 1,
            receives: Receives::OUTSIDE,
        };
        let stop = workers.stop.clone();
        let stops = async {
            queue.asked.notified().await;
            stop.cancel();
            // The worker sees the stop while its receive is still open.
            tokio::task::yield_now().await;
            queue.answers.notify_one();
        };
        futures::join!(workers.run(), stops);
        assert_eq!(*queue.given_back.lock().unwrap(), [("late".to_owned(), 0)]);
    }
}
