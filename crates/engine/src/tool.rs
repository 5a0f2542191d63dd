//! What the engine requires of the code that runs the tool.

use async_trait::async_trait;

use crate::{Cleaned, Ended, Leg, LegEnd};

/// Runs the tool of a task for one leg.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// Runs the tool until it ends or has to wait. Dropping the future stops the tool at its next await point.
    ///
    /// An implementation drives the tool's future with [`Leg::drive`], which returns when the tool waits for something
    /// that ends the leg.
    async fn run(&self, leg: Leg) -> LegEnd;

    /// Cleans up after a task that is over, and that its tool did not bring to its end. Runs at least once for each
    /// such task that was accepted with [cleaning](crate::Call::cleaning). Dropping the future stops it.
    async fn clean(&self, _ended: &Ended) -> Cleaned {
        Cleaned::NoSuchTool
    }
}
