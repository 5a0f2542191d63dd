//! A tool runner that lies.

use async_trait::async_trait;
use longhaul_core::FailureKind;
use longhaul_engine::{Attempt, AttemptEnd, Driven, ToolRunner};

/// Ends the task of a tool that crashed, instead of asking for another try.
pub(super) struct CrashIsTheEnd<R> {
    tools: R,
}

impl<R> CrashIsTheEnd<R> {
    pub(super) const fn new(tools: R) -> Self {
        Self { tools }
    }
}

#[async_trait]
impl<R: ToolRunner> ToolRunner for CrashIsTheEnd<R> {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        let reason = match self.tools.run(attempt.clone()).await {
            AttemptEnd::Crashed { reason } => reason,
            end => return end,
        };
        match attempt.drive(attempt.fail::<AttemptEnd>(FailureKind::RetriesExhausted, reason)).await {
            Driven::Ended(end) => end,
            Driven::Suspended(suspended) => AttemptEnd::Suspended(suspended),
        }
    }
}
