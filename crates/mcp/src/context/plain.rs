//! A plain call: it has no record and no later attempt. Waiting either ends the call, or is done while the call is
//! open.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use longhaul_core::{Clock, Progress, Timestamp, limits};
use longhaul_engine::{Compensate, Every, Retry, Tried, VariableLimit, check_variable, write_variables};
use rmcp::model::{InputRequest, InputRequests, ProgressNotificationParam, ProgressToken};
use rmcp::{ErrorData, Peer, RoleServer};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::reply::errors;
use crate::tool_calls::asking;

/// A plain call while its tool runs. Clones are the same call.
#[derive(Clone)]
pub(crate) struct PlainCall(Arc<Shared>);

struct Shared {
    start: Start,
    ends_at: Timestamp,
    waits: Mutex<Waits>,
    compensations: Mutex<Vec<Registered>>,
    variables: Mutex<Map<String, Value>>,
}

pub(crate) struct Start {
    pub(crate) clock: Arc<dyn Clock>,
    /// How long the tool may sleep, in milliseconds.
    pub(crate) wait_ms_max: u64,
    pub(crate) cancelled: CancellationToken,
    pub(crate) key: String,
    /// The JSON text of the arguments, if it is known.
    pub(crate) arguments: Option<String>,
    /// That of the `_meta`, if it is known.
    pub(crate) meta: Option<String>,
    pub(crate) peer: Peer<RoleServer>,
    /// The token for progress notifications, if the caller wants any.
    pub(crate) progress_token: Option<ProgressToken>,
    pub(crate) rounds: Rounds,
    /// How often steps are tried that do not say it.
    pub(crate) retry: Retry,
    /// Whether `rmcp` alone serves the handler.
    pub(crate) is_outside: bool,
}

/// How the tool of a plain call asks the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounds {
    /// The call ends with the questions, since `2026-07-28`.
    Known,
    /// Requests go to the client while the call waits: older revisions.
    Unknown,
    /// The call is not run again with the answers: `2026-07-28` where `rmcp` alone serves the handler.
    Impossible,
}

/// A compensation of a plain call.
struct Registered {
    name: String,
    retry: Retry,
    work: Compensate,
}

pub(crate) enum PlainEnd<T> {
    Ended(T),
    Asks(InputRequests),
    /// Its tool did something that a plain call cannot do.
    Broken(ErrorData),
}

#[derive(Default)]
struct Waits {
    asks: InputRequests,
    broken: Option<ErrorData>,
    steps_running: u32,
    driver: Option<Waker>,
}

impl PlainCall {
    pub(crate) fn new(start: Start) -> Self {
        let ends_at = start.clock.now().plus_ms(start.wait_ms_max);
        Self(Arc::new(Shared {
            start,
            ends_at,
            waits: Mutex::default(),
            compensations: Mutex::default(),
            variables: Mutex::default(),
        }))
    }

    /// Runs `tool` until it ends, or until all of its branches wait and one of them waits for the client.
    pub(crate) async fn drive<F: Future>(&self, tool: F) -> PlainEnd<F::Output> {
        let mut tool = pin!(tool);
        std::future::poll_fn(move |context| {
            // The tool first, as far as it gets: two questions that it asks side by side are one round.
            if let Poll::Ready(output) = tool.as_mut().poll(context) {
                return Poll::Ready(PlainEnd::Ended(output));
            }
            let mut waits = self.waits();
            if let Some(error) = waits.broken.take() {
                return Poll::Ready(PlainEnd::Broken(error));
            }
            if waits.steps_running == 0 && !waits.asks.is_empty() {
                return Poll::Ready(PlainEnd::Asks(std::mem::take(&mut waits.asks)));
            }
            waits.driver = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Runs a step; a question that is asked side by side with it waits until the step is done.
    pub(crate) async fn step<T, F: FnOnce() -> Fut, Fut: Future<Output = T>>(&self, run: F) -> T {
        self.change(|waits| waits.steps_running += 1);
        let running = StepRunning(self);
        let value = run().await;
        drop(running);
        value
    }

    /// Whether `rmcp` alone serves the handler, so that the call is not driven.
    pub(crate) fn is_outside(&self) -> bool {
        self.0.start.is_outside
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.0.start.clock
    }

    pub(crate) fn default_retry(&self) -> Retry {
        self.0.start.retry
    }

    /// Whether the call may sleep so long.
    pub(crate) fn has_time_for(&self, ms: u64) -> bool {
        self.now().plus_ms(ms) <= self.0.ends_at
    }

    /// Registers a compensation, which runs if the tool returns an error.
    pub(crate) async fn on_failure(&self, name: &str, retry: Retry, work: Compensate) {
        let is_new = {
            let mut registered = self.compensations();
            let is_new =
                registered.iter().all(|earlier| earlier.name != name) && registered.len() < limits::ENTRIES_MAX;
            if is_new {
                registered.push(Registered { name: name.to_owned(), retry, work });
            }
            is_new
        };
        if !is_new {
            let message = format!("two of the tool's compensations have the name `{name}`; give each its own");
            self.refuse(ErrorData::internal_error(message, None)).await
        }
    }

    /// Runs all compensations, the last first, each as long as the call has time for it.
    pub(crate) async fn undo(&self) {
        loop {
            let Some(registered) = self.compensations().pop() else { return };
            self.undo_one(registered).await;
        }
    }

    async fn undo_one(&self, Registered { name, retry, mut work }: Registered) {
        let began_at = self.now();
        for number in 1.. {
            let (error, may_succeed) = match work(number).await {
                Tried::Value(_) => return,
                Tried::Failed(error) => (error, true),
                Tried::FailedForGood(error) => (error, false),
            };
            let pause_ms = retry.pause_ms(number, self.now().since_ms(began_at));
            let Some(ms) = pause_ms.filter(|ms| may_succeed && self.has_time_for(*ms)) else {
                tracing::error!(name, error, "a compensation of a plain call failed, and is given up");
                return;
            };
            self.sleep_ms(ms).await;
        }
    }

    fn compensations(&self) -> MutexGuard<'_, Vec<Registered>> {
        self.0.compensations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls until there is a value, with pauses between the polls.
    pub(crate) async fn poll_until<T, E, F, Fut>(&self, every: Every, mut look: F) -> Result<T, E>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Option<T>, E>>,
    {
        let since = self.0.start.clock.now();
        loop {
            if let Some(found) = self.step(&mut look).await? {
                return Ok(found);
            }
            self.sleep_ms(every.pause_ms(self.0.start.clock.now().since_ms(since))).await;
        }
    }

    /// The error that says what a client would have to declare, with the code of its revision.
    pub(crate) fn refusal(&self, error: ErrorData) -> ErrorData {
        match self.0.start.rounds {
            Rounds::Known | Rounds::Impossible => error,
            Rounds::Unknown => errors::for_older(error),
        }
    }

    /// Asks the client. Depending on its revision, the answer comes while the call is open or in a later round.
    pub(crate) async fn ask(&self, key: &str, request: InputRequest) -> Result<Value, ErrorData> {
        match self.0.start.rounds {
            Rounds::Known => Ok(self.end_with(key, request).await),
            Rounds::Impossible => {
                let message = format!(
                    "the question `{key}` cannot be asked of a client of this revision: serve the handler with Longhaul"
                );
                Err(ErrorData::invalid_request(message, None))
            }
            Rounds::Unknown => asking::ask(&self.0.start.peer, request).await,
        }
    }

    async fn end_with(&self, key: &str, request: InputRequest) -> Value {
        self.change(|waits| {
            let twice = waits.asks.insert(key.to_owned(), request).is_some();
            if twice || key.is_empty() || key.len() > limits::NAME_BYTES_MAX {
                let message =
                    format!("each question of a tool must have its own key, of 1 to {} bytes", limits::NAME_BYTES_MAX);
                waits.broken.get_or_insert(ErrorData::internal_error(message, None));
            }
        });
        let _asking = Asking { call: self, key };
        std::future::pending().await
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.start.clock.now()
    }

    pub(crate) async fn sleep_ms(&self, ms: u64) {
        self.sleep_until(self.0.start.clock.now().plus_ms(ms)).await;
    }

    pub(crate) async fn sleep_until(&self, until: Timestamp) {
        if until > self.0.ends_at {
            let (now, most_ms) = (self.now(), self.0.start.wait_ms_max);
            let (takes_ms, left_ms) = (until.since_ms(now), self.0.ends_at.since_ms(now));
            let message = format!(
                "this tool would wait for {takes_ms} ms. A plain call may wait for {most_ms} ms, and has {left_ms} ms \
                 left: call it as a task"
            );
            return self.refuse(ErrorData::invalid_request(message, None)).await;
        }
        let clock = &self.0.start.clock;
        clock.sleep_ms(until.since_ms(clock.now())).await;
    }

    /// Ends the call with an error that its tool does not see.
    pub(crate) async fn refuse<T>(&self, error: ErrorData) -> T {
        self.change(|waits| {
            waits.broken.get_or_insert(error);
        });
        std::future::pending().await
    }

    pub(crate) async fn progress(&self, progress: Progress) {
        let Some(token) = self.0.start.progress_token.clone() else { return };
        let mut param = ProgressNotificationParam::new(token, progress.done);
        param.total = progress.total;
        param.message = progress.message;
        if let Err(error) = self.0.start.peer.notify_progress(param).await {
            tracing::debug!(%error, "a progress notification was not sent");
        }
    }

    pub(crate) fn variable(&self, name: &str) -> Option<Value> {
        self.variables().get(name).cloned()
    }

    pub(crate) fn set_variable(&self, name: &str, value: Value) -> Result<(), VariableLimit> {
        check_variable(name, &value)?;
        let mut variables = self.variables();
        let mut changed = variables.clone();
        if value.is_null() {
            changed.shift_remove(name);
        } else {
            changed.insert(name.to_owned(), value);
        }
        write_variables(&changed)?;
        *variables = changed;
        Ok(())
    }

    pub(crate) fn cancelled(&self) -> &CancellationToken {
        &self.0.start.cancelled
    }

    pub(crate) fn key(&self) -> &str {
        &self.0.start.key
    }

    pub(super) fn arguments_text(&self) -> Option<&str> {
        self.0.start.arguments.as_deref()
    }

    pub(super) fn meta_text(&self) -> Option<&str> {
        self.0.start.meta.as_deref()
    }

    fn change(&self, change: impl FnOnce(&mut Waits)) {
        let mut waits = self.waits();
        change(&mut waits);
        // A branch that the tool spawned elsewhere does not wake the driver by itself.
        if let Some(driver) = waits.driver.take() {
            driver.wake();
        }
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.0.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn variables(&self) -> MutexGuard<'_, Map<String, Value>> {
        self.0.variables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct StepRunning<'a>(&'a PlainCall);

impl Drop for StepRunning<'_> {
    fn drop(&mut self) {
        self.0.change(|waits| waits.steps_running = waits.steps_running.saturating_sub(1));
    }
}

/// An open question. It is withdrawn when its branch is dropped because another one was faster.
struct Asking<'a> {
    call: &'a PlainCall,
    key: &'a str,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.call.change(|waits| drop(waits.asks.remove(self.key)));
    }
}
