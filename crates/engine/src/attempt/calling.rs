//! The calls of other tools, as the tool that makes them sees them.

use std::future::Future;

use longhaul_core::{EntryKind, FailureKind, TaskId, TraceParent, limits, strict_json};

use crate::child::{Called, step_of};
use crate::suspension::Wait;
use crate::{AcceptError, Attempt, Call, CallError, ChildEnd};

/// Why a child was not made.
enum Unmade<E> {
    /// There is room for it when another child has ended.
    NoRoomYet,
    /// There is none, or something else is wrong.
    Refused(E),
}

impl Attempt {
    /// The trace for all calls that the tool makes: that of this attempt's span, or that of the task if there is none.
    #[must_use]
    pub fn trace(&self) -> Option<&TraceParent> {
        self.shared().trace.as_ref()
    }

    /// Makes the task `id` of the call that `prepare` returns, once, and returns how it ended. Nothing runs while it
    /// has not: its end starts the next attempt. The call takes two entries of the journal: the step `name`, and the
    /// end.
    ///
    /// If the owner may have no more unfinished tasks, it is made when another call of this task has ended.
    ///
    /// # Errors
    /// The errors of `prepare`, and [`CallError`]. They are not recorded.
    pub async fn call<E, F, Fut>(&self, name: &str, id: TaskId, prepare: F) -> Result<ChildEnd, E>
    where
        E: From<CallError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Call, E>>,
    {
        let text = match self.step(name, async || self.make_child_once(id, prepare).await).await {
            Ok(text) => text,
            Err(Unmade::Refused(error)) => return Err(error),
            Err(Unmade::NoRoomYet) => return self.wait_for_room().await,
        };
        let called: Called = match strict_json::from_str(&text) {
            Ok(called) => called,
            Err(error) => {
                let message = format!("step `{name}` is recorded, and is not the call that the tool expects: {error}");
                return self.fail(FailureKind::Corrupt, message).await;
            }
        };
        self.note_open(called.child);
        Ok(self.child_end(called).await)
    }

    /// Makes a child, unless the journal has its end already. In that case an attempt has made it and died before it
    /// recorded the step. The child may have expired since.
    async fn make_child_once<E, F, Fut>(&self, id: TaskId, prepare: F) -> Result<String, Unmade<E>>
    where
        E: From<CallError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Call, E>>,
    {
        if self.lock_journal().contains_key(&(EntryKind::Signal, id.to_string())) {
            return Ok(step_of(Called { child: id, at: self.now() }));
        }
        self.make_child(id, prepare).await
    }

    async fn make_child<E, F, Fut>(&self, id: TaskId, prepare: F) -> Result<String, Unmade<E>>
    where
        E: From<CallError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Call, E>>,
    {
        let call = prepare().await.map_err(Unmade::Refused)?;
        let children = &self.shared().children;
        let making = children.making.read().await;
        if children.awaited().is_some() {
            return Err(Unmade::NoRoomYet);
        }
        match self.shared().engine.make_child(self.task(), id, call).await {
            Ok(called) => {
                self.note_open(id);
                Ok(step_of(called))
            }
            Err(error @ CallError::NotAccepted(AcceptError::TooManyOpen { .. })) => {
                drop(making);
                let _decided = children.making.write().await;
                children.lock().is_full = true;
                Err(children.awaited().map_or_else(|| Unmade::Refused(error.into()), |_| Unmade::NoRoomYet))
            }
            Err(error) => Err(Unmade::Refused(error.into())),
        }
    }

    /// Notes a child whose end this attempt does not know.
    fn note_open(&self, child: TaskId) {
        if !self.lock_journal().contains_key(&(EntryKind::Signal, child.to_string())) {
            self.shared().children.lock().open.insert(child);
        }
    }

    /// Ends the attempt, until a child ends.
    async fn wait_for_room<T>(&self) -> T {
        let now = self.now();
        let _waiting = self.shared().children.awaited().map(|child| {
            let poll_at = now.plus_ms(limits::SIGNAL_POLL_MS_FIRST);
            self.shared().suspend.wait(Wait::Signal { name: child.to_string(), poll_at })
        });
        std::future::pending().await
    }

    /// Makes the task `id` of the call that `prepare` returns, once, and does not wait for it. It is not a child, and
    /// continues after any end of this task. The call takes one entry of the journal: the step `name`.
    ///
    /// # Errors
    /// The errors of `prepare`, and [`CallError::NotAccepted`]. They are not recorded.
    pub async fn begin<E, F, Fut>(&self, name: &str, id: TaskId, prepare: F) -> Result<(), E>
    where
        E: From<CallError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Call, E>>,
    {
        let make = async || {
            let call = prepare().await?;
            self.shared().engine.accept_as(id, call).await.map_err(CallError::from)?;
            // An id can always be written as JSON.
            Ok::<_, E>(serde_json::to_string(&id).unwrap_or_default())
        };
        self.step(name, make).await.map(drop)
    }

    async fn child_end(&self, called: Called) -> ChildEnd {
        let name = called.child.to_string();
        self.until_shown(EntryKind::Signal, &name).await;
        if self.was_quiet()
            && !self.is_replay()
            && !self.lock_journal().contains_key(&(EntryKind::Signal, name.clone()))
        {
            let _polling = self.step_running();
            self.shared().engine.poll_at_child(&self.task().key(), called.child).await;
        }
        // Without a moment at which it stops to wait there is always one.
        let text = self.signal(&name, called.at, None).await.unwrap_or_default();
        match ChildEnd::read(&text) {
            Ok(end) => end,
            Err((kind, message)) => self.fail(kind, message).await,
        }
    }

    /// Whether no process has woken the task since its last attempt, as if the one that should have had died.
    fn was_quiet(&self) -> bool {
        let attempts = &self.task().attempts;
        let (Some(last), Some(since)) = (attempts.past.last(), attempts.since) else { return false };
        since.since_ms(last.to) >= limits::SIGNAL_POLL_MS_FIRST
    }
}
