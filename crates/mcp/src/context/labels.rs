//! Labels of the task that a tool runs as.

use longhaul_core::LabelLimit;
use rmcp::ErrorData;

use super::TaskContext;

/// Why a task cannot have a label. The labels are as they were.
///
/// In a tool that returns `Result<_, ErrorData>`, `?` makes it an internal error.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// use longhaul::{LabelError, TaskContext};
///
/// /// A task without this label is as good.
/// fn label_as_imported(task: &TaskContext) {
///     task.label("stage", "imported").unwrap_or_else(|error: LabelError| eprintln!("{error}"));
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct LabelError(#[from] LabelLimit);

impl From<LabelError> for ErrorData {
    fn from(error: LabelError) -> Self {
        Self::internal_error(error.to_string(), None)
    }
}

impl TaskContext {
    /// Sets a label of the task, by which lists find it: `longhaul tasks --label stage=imported`. An empty value
    /// removes the label. [`TaskPolicy::label`](crate::TaskPolicy::label) sets those that are known from the arguments.
    ///
    /// It makes no write of its own: the next heartbeat, suspension or end of the attempt records it. In a plain call
    /// it is checked, and forgotten.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// # async fn tool(task: TaskContext) -> Result<(), ErrorData> {
    /// let invoice: u64 = task.try_step("create", || async { Ok::<_, ErrorData>(4711) }).await?;
    /// task.label("invoice", invoice)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LabelError`] if the key or the value exceeds a limit, or the task has 8 other labels.
    pub fn label(&self, key: &str, value: impl ToString) -> Result<(), LabelError> {
        self.0.attempt.set_label(key, &value.to_string()).map_err(LabelError)
    }
}
