//! Code paths of a tool whose tasks are older than its code.

use std::ops::RangeInclusive;

use longhaul_core::FailureKind;

use super::{TaskContext, read};

impl TaskContext {
    /// The version of a piece of code that this task runs. That is the latest one of `range`, or the first one if the
    /// task was here before the code knew more. It is recorded as a step of this name, so that it stays the same.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// # async fn pay_by_card() -> Result<u64, ErrorData> { Ok(17) }
    /// # async fn pay_by_invoice() -> Result<u64, ErrorData> { Ok(18) }
    /// # async fn tool(task: TaskContext) -> Result<(), ErrorData> {
    /// let payment = match task.version("payment", 1..=2).await {
    ///     1 => task.try_step("pay by invoice", pay_by_invoice).await?, // tasks that began with the old code
    ///     _ => task.try_step("pay by card", pay_by_card).await?,
    /// };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The first version is the code before this call was inserted. A task runs it if an earlier attempt has recorded a
    /// step, a sleep or an answer that comes after this call. When no task runs a version any more, `range` begins with
    /// the next one; a task that does fails then, with both numbers. Call this before branches that run concurrently.
    /// In a plain call it is the latest version.
    pub async fn version(&self, name: &str, range: RangeInclusive<u32>) -> u32 {
        let (first, latest) = (*range.start(), *range.end());
        let attempt = &self.0.attempt;
        if range.is_empty() {
            let message = format!("the versions {first} to {latest} of `{name}` are none: begin with the lower number");
            return attempt.fail(FailureKind::Misuse, message).await;
        }
        let chosen = if attempt.is_replaying() { first } else { latest };
        // Not work, at which a replay of a journal would stop.
        let text = attempt.choose(name, chosen.to_string()).await;
        let recorded: u32 = read(attempt, name, &text).await;
        if range.contains(&recorded) {
            return recorded;
        }
        let message = format!(
            "the task runs version {recorded} of `{name}`, and the tool has the versions {first} to {latest}: deploy \
             one that has version {recorded}, too"
        );
        attempt.fail(FailureKind::Misuse, message).await
    }
}
