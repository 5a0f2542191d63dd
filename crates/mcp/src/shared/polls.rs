//! Polls of a task that come faster than its poll interval. A client that follows the interval is never limited, with
//! any jitter and with others beside it: each task has ten polls at once, and earns another one in half its interval,
//! or in half a second if that is shorter. Only loops that do not wait come faster.
//!
//! Each process counts for itself, so that counting costs no write. No data depends on the counts.

use longhaul_core::limits::PollLimit;
use longhaul_core::{Task, TaskKey};
use longhaul_engine::{Engine, PollError};
use rmcp::ErrorData;

use crate::shared::rate::Rate;
use crate::shared::{audited, errors};

/// How long a poll is delayed at most, if it comes too early.
const SLOWED_MS_MAX: u64 = 2_000;

/// The polls that one process answers.
pub(crate) struct Polls {
    engine: Engine,
    limit: PollLimit,
    counts: Rate,
}

/// Why a poll has no answer.
pub(crate) enum NotPolled {
    /// It came too early.
    TooEarly(ErrorData),
    /// The engine could not answer it.
    Failed(PollError),
}

impl NotPolled {
    /// The error for the client, where a failure has this one.
    pub(crate) fn or(self, failed: impl FnOnce(PollError) -> ErrorData) -> ErrorData {
        match self {
            Self::TooEarly(error) => error,
            Self::Failed(error) => failed(error),
        }
    }
}

impl Polls {
    pub(crate) fn new(engine: Engine, limit: PollLimit) -> Self {
        Self { engine, limit, counts: Rate::default() }
    }

    /// The task as it is, unless it is polled too often.
    pub(crate) async fn poll(&self, key: &TaskKey) -> Result<Task, NotPolled> {
        self.admit(key).await.map_err(NotPolled::TooEarly)?;
        let task = self.engine.poll(key).await.map_err(NotPolled::Failed)?;
        self.told(&task);
        Ok(task)
    }

    /// Counts a poll of the task under `key`. One that comes too early waits, or is refused, as the operator decided.
    pub(crate) async fn admit(&self, key: &TaskKey) -> Result<(), ErrorData> {
        match self.limit {
            PollLimit::Off => Ok(()),
            PollLimit::Refuse => self.count(key).map_err(|retry_ms| too_early(key, retry_ms)),
            PollLimit::Slow => {
                self.slow_down(key).await;
                Ok(())
            }
        }
    }

    fn count(&self, key: &TaskKey) -> Result<(), u64> {
        self.counts.count(key, self.engine.ports().clock.now())
    }

    /// Waits until the poll does not come too early any more. However many come at once, none waits longer than the
    /// limit.
    async fn slow_down(&self, key: &TaskKey) {
        let mut slowed_ms = 0;
        while let Err(after_ms) = self.count(key) {
            slowed_ms += after_ms;
            if slowed_ms > SLOWED_MS_MAX {
                return;
            }
            self.engine.ports().clock.sleep_ms(after_ms).await;
        }
    }

    /// The client is about to be told how long to wait before it polls this task again.
    pub(crate) fn told(&self, task: &Task) {
        if self.limit != PollLimit::Off {
            let now = self.engine.ports().clock.now();
            self.counts.earn_in(&task.key(), task.poll_interval_ms(now) / 2);
        }
    }
}

fn too_early(key: &TaskKey, retry_ms: u64) -> ErrorData {
    audited::poll_refused(key);
    let message =
        "this task is polled much more often than its poll interval says; wait as long as each answer advises";
    errors::too_much_for_now("polls", message.to_owned(), retry_ms)
}
