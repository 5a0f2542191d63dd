//! Polls of a task that come faster than its poll interval. A client that follows the interval is never limited, with
//! any jitter and with others beside it: each task has ten polls at once, and earns another one in half its interval, or in
//! half a second if that is shorter. Only loops that do not wait come faster.
//!
//! Each process counts for itself, so that counting costs no write. No data depends on the counts.

use longhaul_core::limits::PollLimit;
use longhaul_core::{Task, TaskKey};
use longhaul_engine::PollError;
use rmcp::ErrorData;

use crate::shared::rate::Rate;
use crate::shared::{Shared, errors};

/// How long a poll is delayed at most, if it comes too early.
const SLOWED_MS_MAX: u64 = 2_000;

/// The counts of one process.
#[derive(Default)]
pub(crate) struct Polls(Rate);

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

/// The task as it is, unless it is polled too often.
pub(crate) async fn poll(shared: &Shared, key: &TaskKey) -> Result<Task, NotPolled> {
    admit(shared, key).await.map_err(NotPolled::TooEarly)?;
    let task = shared.engine.poll(key).await.map_err(NotPolled::Failed)?;
    told(shared, &task);
    Ok(task)
}

/// Counts a poll of the task under `key`. One that comes too early waits, or is refused, as the operator decided.
///
/// # Errors
/// The refusal.
pub(crate) async fn admit(shared: &Shared, key: &TaskKey) -> Result<(), ErrorData> {
    let clock = &shared.engine.ports().clock;
    let count = || shared.polls.0.count(key, clock.now());
    match shared.settings.poll_limit {
        PollLimit::Off => Ok(()),
        PollLimit::Refuse => count().map_err(too_early),
        PollLimit::Slow => {
            let mut slowed_ms = 0;
            // However many come at once, none waits longer.
            while let Err(after_ms) = count() {
                slowed_ms += after_ms;
                if slowed_ms > SLOWED_MS_MAX {
                    break;
                }
                clock.sleep_ms(after_ms).await;
            }
            Ok(())
        }
    }
}

/// The client is about to be told how long to wait before it polls this task again.
pub(crate) fn told(shared: &Shared, task: &Task) {
    if shared.settings.poll_limit != PollLimit::Off {
        let now = shared.engine.ports().clock.now();
        shared.polls.0.earn_in(&task.key(), task.poll_interval_ms(now) / 2);
    }
}

fn too_early(retry_ms: u64) -> ErrorData {
    let message =
        "this task is polled much more often than its poll interval says; wait as long as each answer advises";
    errors::too_much_for_now("polls", message.to_owned(), retry_ms)
}
