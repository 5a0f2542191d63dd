//! How an attempt ends: with its tool, or by dropping the tool's future when it waits for something that ends the
//! attempt.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use longhaul_core::{Ask, FailureKind, ResultKind, Suspension, Timestamp};

/// How an attempt ended.
#[derive(Debug)]
pub enum AttemptEnd {
    /// The tool returned a result.
    Completed {
        /// The result as JSON text.
        result: String,
        /// Whether the tool succeeded.
        kind: ResultKind,
    },
    /// The tool returned an error that a retry would not fix.
    Failed {
        /// The error in words.
        message: String,
        /// The error as JSON text.
        detail: String,
    },
    /// The tool panicked, or failed in another way that is worth a retry.
    Crashed {
        /// The known cause.
        reason: String,
    },
    /// This worker does not have the tool: nothing was run, and another worker may have it.
    NoSuchTool,
    /// This worker has no memory for the arguments of the call. Nothing was run, and it may have some soon.
    NoMemory,
    /// The tool waits: what [`Attempt::drive`](crate::Attempt::drive) or
    /// [`Attempt::ask_round`](crate::Attempt::ask_round) returned.
    Suspended(Suspended),
}

/// Questions that a tool asked by returning them, and the state that it wants back with the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The questions.
    pub asks: Vec<Ask>,
    /// The state that the tool wants back, opaque here.
    pub carry: String,
}

/// How driving a tool's future ended.
#[derive(Debug)]
pub enum Driven<T> {
    /// It returned this.
    Ended(T),
    /// It waits for something that ends the attempt, and was dropped at that await point.
    Suspended(Suspended),
}

/// The waits of a tool, or the reason why its attempt was aborted.
#[derive(Debug)]
pub struct Suspended(pub(crate) Reason);

/// Why an attempt ends before its tool does.
#[derive(Debug)]
pub(crate) enum Reason {
    /// Normally: another attempt will continue the work.
    Suspend {
        /// The waits of the next attempt.
        suspension: Suspension,
        signals: Vec<String>,
    },
    /// The tool's work cannot be recorded now, but perhaps later.
    Retry(String),
    /// The tool's work cannot be recorded at all.
    Fail(FailureKind, String),
}

impl Reason {
    pub(crate) const fn corrupt(message: String) -> Self {
        Self::Fail(FailureKind::Corrupt, message)
    }
}

/// The waits of one attempt, collected from all branches of its tool.
#[derive(Default)]
pub(crate) struct SuspendState(Mutex<Waits>);

#[derive(Default)]
struct Waits {
    /// The current waits of branches of the tool, each with the number of its guard.
    waiting: Vec<(u64, Wait)>,
    last_number: u64,
    yields: bool,
    aborted: Option<Reason>,
    /// The running steps that delay suspensions, each with the number of its guard and the branches of races around it.
    running: Vec<(u64, Vec<String>)>,
    driver: Option<Waker>,
}

pub(crate) enum Wait {
    /// An answer: ends the attempt.
    Ask(Ask),
    /// A time far away: ends the attempt.
    Sleep(Timestamp),
    /// A signal: ends the attempt.
    Signal {
        name: String,
        /// When to poll for it without a wake.
        poll_at: Timestamp,
    },
    /// A time that the attempt waits for itself. It does not end the attempt. An attempt that ends for another reason
    /// resumes at this time.
    ShortSleep(Timestamp),
}

impl SuspendState {
    /// Notes what a branch waits for, until the guard is dropped: a branch that lost a race and was dropped no longer
    /// asks anything.
    pub(crate) fn wait(&self, wait: Wait) -> Waiting<'_> {
        let mut number = 0;
        self.change(|waits| {
            number = waits.next_number();
            waits.waiting.push((number, wait));
        });
        Waiting { state: self, number }
    }

    /// Ends the attempt at this step boundary; another attempt continues at once.
    pub(crate) fn yield_attempt(&self) {
        self.change(|waits| waits.yields = true);
    }

    /// Aborts the attempt because of an error; the first reason is reported.
    pub(crate) fn abort(&self, reason: Reason) {
        self.change(|waits| {
            waits.aborted.get_or_insert(reason);
        });
    }

    /// Delays suspensions until the guard is dropped: a running step is finished and recorded first. `branches` are the
    /// branches of races around it.
    pub(crate) fn step_running(&self, branches: Vec<String>) -> StepRunning<'_> {
        let mut number = 0;
        self.change(|waits| {
            number = waits.next_number();
            waits.running.push((number, branches));
        });
        StepRunning { state: self, number }
    }

    /// Has the running steps of these branches delay nothing until they are polled again: their race is decided. Such a
    /// step is there if the branch was passed by reference.
    pub(crate) fn leave_out(&self, over: &[String]) {
        let is_over = |branches: &[String]| branches.iter().any(|branch| over.contains(branch));
        self.change(|waits| waits.running.retain(|(_, branches)| !is_over(branches)));
    }

    /// Has the tool polled again, and what is noted of its branches.
    pub(crate) fn wake(&self) {
        self.change(|_waits| {});
    }

    /// Runs `tool` until it ends, or until none of its branches can continue and one of them waits for something that
    /// ends the attempt.
    pub(crate) async fn drive<F: Future>(&self, tool: F) -> Driven<F::Output> {
        let mut tool = pin!(tool);
        std::future::poll_fn(move |context| {
            // The tool first, as far as it gets: two questions that it asks concurrently are one suspension.
            if let Poll::Ready(output) = tool.as_mut().poll(context) {
                return Poll::Ready(Driven::Ended(output));
            }
            let mut waits = self.lock();
            if let Some(reason) = waits.take_reason() {
                return Poll::Ready(Driven::Suspended(Suspended(reason)));
            }
            waits.driver = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn change(&self, change: impl FnOnce(&mut Waits)) {
        let mut waits = self.lock();
        change(&mut waits);
        // A branch that the tool spawned elsewhere does not wake the driver by itself.
        if let Some(driver) = waits.driver.take() {
            driver.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waits {
    const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Why the attempt ends now; `None` while it continues.
    fn take_reason(&mut self) -> Option<Reason> {
        if let Some(reason) = self.aborted.take() {
            return Some(reason);
        }
        if !self.running.is_empty() {
            return None;
        }
        // Yielding comes first: a branch that has work to do must not wait for another branch's answer.
        if self.yields {
            return Some(Reason::Suspend { suspension: Suspension::Yield, signals: Vec::new() });
        }
        let (mut asks, mut signals, mut sleeps, mut first) = (Vec::new(), Vec::new(), false, None::<Timestamp>);
        let earliest = |first: Option<Timestamp>, at: Timestamp| Some(first.map_or(at, |earlier| earlier.min(at)));
        for (_, wait) in &self.waiting {
            match wait {
                Wait::Ask(ask) => asks.push(ask.clone()),
                Wait::Sleep(until) | Wait::ShortSleep(until) => {
                    sleeps |= matches!(wait, Wait::Sleep(_));
                    first = earliest(first, *until);
                }
                Wait::Signal { name, poll_at } => {
                    signals.push(name.clone());
                    first = earliest(first, *poll_at);
                }
            }
        }
        match first {
            until if !asks.is_empty() => {
                Some(Reason::Suspend { suspension: Suspension::Input { asks, until }, signals })
            }
            Some(until) if sleeps || !signals.is_empty() => {
                Some(Reason::Suspend { suspension: Suspension::Timer(until), signals })
            }
            Some(_) | None => None,
        }
    }
}

pub(crate) struct Waiting<'a> {
    state: &'a SuspendState,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.state.change(|waits| waits.waiting.retain(|(number, _)| *number != self.number));
    }
}

pub(crate) struct StepRunning<'a> {
    state: &'a SuspendState,
    number: u64,
}

impl StepRunning<'_> {
    /// Notes that the step is polled, within these branches, so that it delays suspensions again if it was left out.
    pub(crate) fn is_polled(&self, branches: impl FnOnce() -> Vec<String>) {
        let mut waits = self.state.lock();
        if !waits.running.iter().any(|(number, _)| *number == self.number) {
            waits.running.push((self.number, branches()));
        }
    }
}

impl Drop for StepRunning<'_> {
    fn drop(&mut self) {
        self.state.change(|waits| waits.running.retain(|(number, _)| *number != self.number));
    }
}
