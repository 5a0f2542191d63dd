//! The step that a tool runs, which delays the end of its attempt.

use std::future::{Future, poll_fn};
use std::pin::pin;

use longhaul_core::TraceParent;
use longhaul_core::spans::{Span, SpanName};
use tracing::Instrument;

use crate::suspension::StepRunning;
use crate::{Attempt, IsRecorded};

impl Attempt {
    /// Delays suspensions until the guard is dropped.
    pub(crate) fn step_running(&self) -> StepRunning<'_> {
        let branches = self.place().scopes();
        self.0.suspend.step_running(branches)
    }

    pub(super) async fn run_step<F, Fut>(&self, name: &str, running: &StepRunning<'_>, run: F) -> Fut::Output
    where
        F: FnOnce() -> Fut,
        Fut: Future,
    {
        self.came_to(name, IsRecorded::No);
        let task = &self.0.task;
        let (mut span, mut exported) = (tracing::Span::none(), Span::default());
        if self.is_stored() {
            span = tracing::info_span!(
                "step", name, task_id = %task.id, attempt = task.attempt, owner = %task.owner,
                trace = task.trace.as_ref().map(TraceParent::as_str)
            );
            exported = Span::begin(SpanName::Step, self.0.trace.as_ref());
        }
        exported.set("longhaul.step", name);
        let mut work = pin!(exported.around(run().instrument(span)));
        poll_fn(|context| {
            running.is_polled(|| self.place().scopes());
            work.as_mut().poll(context)
        })
        .await
    }

    pub(super) fn came_to(&self, step: &str, recorded: IsRecorded) {
        self.0.compensations.came_to(step);
        self.0.engine.observer().came_to_step(&self.0.task, step, recorded);
    }
}
