//! What the engine requires of the code that runs the tool.

use async_trait::async_trait;

use crate::{Attempt, AttemptEnd, Cleaned, Ended};

/// Runs the tool of a task for one attempt.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// Runs the tool until it ends or has to wait. Dropping the future stops the tool at its next await point.
    ///
    /// An implementation drives the tool's future with [`Attempt::drive`], which returns when the tool waits for
    /// something that ends the attempt.
    async fn run(&self, attempt: Attempt) -> AttemptEnd;

    /// Cleans up after a task that is over, and that its tool did not bring to its end. Runs at least once for each
    /// such task that was accepted with [cleanup](crate::Call::cleanup). Dropping the future stops it.
    async fn clean(&self, _ended: &Ended) -> Cleaned {
        Cleaned::NoSuchTool
    }
}
