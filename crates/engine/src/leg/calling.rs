//! Calling another tool, as a task of its own.

use std::future::Future;

use longhaul_core::{EntryKind, FailureKind, TaskId, limits};

use crate::children::{CallError, Called, ChildEnd};
use crate::{Call, Leg};

impl Leg {
    /// Makes the task `id` of the call that `prepare` returns, once, and returns how it ended. Nothing runs while it has not:
    /// its end starts the next leg. The call takes two entries of the journal: the step `name`, and the end.
    ///
    /// # Errors
    /// Those of `prepare`, and [`CallError`]. They are not recorded.
    pub async fn call<E, F, Fut>(&self, name: &str, id: TaskId, prepare: F) -> Result<ChildEnd, E>
    where
        E: From<CallError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Call, E>>,
    {
        let make = async || {
            let call = prepare().await?;
            let called = self.0.engine.make_child(self.task(), id, call).await?;
            // An id and a number can always be written as JSON.
            Ok::<_, E>(serde_json::to_string(&called).unwrap_or_default())
        };
        let text = self.step(name, make).await?;
        let called: Called = match serde_json::from_str(&text) {
            Ok(called) => called,
            Err(error) => {
                let message = format!("step `{name}` is on record, and is not the call that the tool expects: {error}");
                return self.fail(FailureKind::Corrupt, message).await;
            }
        };
        Ok(self.child_end(called).await)
    }

    /// Makes the task `id` of the call that `prepare` returns, once, and does not wait for it: it is no child, and goes on
    /// whatever becomes of this task. The call takes one entry of the journal: the step `name`.
    ///
    /// # Errors
    /// Those of `prepare`, and [`CallError::NotAccepted`]. They are not recorded.
    pub async fn begin<E, F, Fut>(&self, name: &str, id: TaskId, prepare: F) -> Result<(), E>
    where
        E: From<CallError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Call, E>>,
    {
        let make = async || {
            let call = prepare().await?;
            self.0.engine.accept_as(id, call).await.map_err(CallError::from)?;
            // An id can always be written as JSON.
            Ok::<_, E>(serde_json::to_string(&id).unwrap_or_default())
        };
        self.step(name, make).await.map(drop)
    }

    async fn child_end(&self, called: Called) -> ChildEnd {
        let name = called.child.to_string();
        if self.was_quiet() && !self.lock_journal().contains_key(&(EntryKind::Fact, name.clone())) {
            let _looking = self.0.suspend.step_running();
            self.0.engine.look_at_child(&self.task().key(), called.child).await;
        }
        // Without a moment at which it stops to wait there is always one.
        let text = self.fact(&name, called.at, None).await.unwrap_or_default();
        match ChildEnd::read(&text) {
            Ok(end) => end,
            Err((kind, message)) => self.fail(kind, message).await,
        }
    }

    /// Whether nobody has woken the task since its last leg, as if whoever should have done so had died.
    fn was_quiet(&self) -> bool {
        let legs = &self.task().legs;
        let (Some(last), Some(since)) = (legs.past.last(), legs.since) else { return false };
        since.since_ms(last.to) >= limits::FACT_LOOK_MS_FIRST
    }
}
