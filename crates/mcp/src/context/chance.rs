//! Time and chance that are the same in every attempt, without a record of their own.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhaul_core::Timestamp;

use super::{Run, TaskContext};
use crate::signing::derived;

impl TaskContext {
    /// The time that this call has reached. In a task, that is the time of the latest journal entry that the tool has
    /// come to, or of the call's acceptance. So every attempt sees the same times, and nothing is written for them. In
    /// a plain call it is the [clock](Self::clock_time).
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use std::time::Duration;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// # async fn is_ready() -> Result<bool, ErrorData> { Ok(true) }
    /// # async fn tool(task: TaskContext) -> Result<(), ErrorData> {
    /// let end = task.now() + Duration::from_secs(3600);
    /// for number in 1.. {
    ///     if task.try_step(&format!("check {number}"), is_ready).await? || task.now() >= end {
    ///         break;
    ///     }
    ///     task.sleep("until the next check", Duration::from_secs(60)).await;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It does not pass between two entries, nor inside of a step. Branches that run concurrently (`join!`) share it.
    /// Take a decision that depends on it before they begin, or record it in a step of the branch.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.task_attempt().map_or_else(|| self.clock_time(), |attempt| system_time(attempt.recorded_now()))
    }

    /// The server's clock, which in [tests](https://docs.rs/longhaul/latest/longhaul/testing/) passes without waiting.
    /// It is another in every attempt: for the work of steps, and for measuring. Decisions between steps are for
    /// [`now`](Self::now).
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use std::time::Duration;
    /// async fn copy(task: TaskContext) -> Option<Duration> {
    ///     let began = task.clock_time();
    ///     // …
    ///     task.clock_time().duration_since(began).ok()
    /// }
    /// ```
    #[must_use]
    pub fn clock_time(&self) -> SystemTime {
        system_time(self.0.attempt.now())
    }

    /// A random number: the same in every attempt, and another at each call. It is derived from the task, the server's
    /// secret, and the latest journal entry that the tool has come to: nothing is written for it. It may be the seed of
    /// any generator.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # fn tool(task: TaskContext) {
    /// let is_in_the_sample = task.random() % 100 < 5;
    /// # }
    /// ```
    ///
    /// A client cannot guess it. After a change of the server's secret, tasks under way draw other numbers: give a
    /// value that must not change a [step](Self::step) of its own. Branches that run concurrently (`join!`) may draw
    /// each other's numbers after a crash: draw before they begin, or in a step of the branch. In a plain call, all
    /// rounds of its questions draw the same.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.drawn().first_chunk().copied().map_or(0, u64::from_le_bytes)
    }

    /// A random UUID (version 4): the same in every attempt, and another at each call, as [`random`](Self::random) is.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// # async fn upload(_name: &str) -> Result<(), ErrorData> { Ok(()) }
    /// # async fn tool(task: TaskContext) -> Result<(), ErrorData> {
    /// let name = format!("reports/{}.csv", task.uuid());
    /// task.try_step("upload", || upload(&name)).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn uuid(&self) -> String {
        let bytes = self.drawn().first_chunk().copied().unwrap_or_default();
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    fn drawn(&self) -> [u8; 32] {
        let attempt = &self.0.attempt;
        match &self.0.run {
            Run::Task(tools) => tools.shared.names.drawn(&attempt.task().key(), &attempt.next_draw()),
            Run::Plain(_) => {
                let number = self.0.draws.fetch_add(1, Ordering::Relaxed);
                derived::hash(&[b"draw", self.idempotency_key().as_bytes(), &number.to_be_bytes()])
            }
        }
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.as_ms())
}
