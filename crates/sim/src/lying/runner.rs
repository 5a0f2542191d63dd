//! A tool runner that lies.

use async_trait::async_trait;
use longhaul_core::FailureKind;
use longhaul_engine::{Driven, Leg, LegEnd, ToolRunner};

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
    async fn run(&self, leg: Leg) -> LegEnd {
        let reason = match self.tools.run(leg.clone()).await {
            LegEnd::Crashed { reason } => reason,
            end => return end,
        };
        match leg.drive(leg.fail::<LegEnd>(FailureKind::RetriesExhausted, reason)).await {
            Driven::Ended(end) => end,
            Driven::Suspended(suspended) => LegEnd::Suspended(suspended),
        }
    }
}
