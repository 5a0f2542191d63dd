//! How a tool's future is given up while it waits for something that ends the leg.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use longhaul_core::{Ask, FailureKind, Suspension, Timestamp};

use crate::tool::Suspended;

/// What became of a tool's future.
#[derive(Debug)]
pub enum Driven<T> {
    /// It ended with this.
    Ended(T),
    /// It waits for something that ends the leg, and was dropped at that await point.
    Suspended(Suspended),
}

/// Why a leg ends before its tool does.
#[derive(Debug)]
pub(crate) enum Reason {
    /// In order: another leg will go on.
    Suspend(Suspension),
    /// What the tool did cannot be kept now, but perhaps later.
    Retry(String),
    /// What the tool did cannot be kept at all.
    Fail(FailureKind, String),
}

/// What the tool of one leg waits for, collected from all of its branches.
#[derive(Default)]
pub(crate) struct Slot(Mutex<Waits>);

#[derive(Default)]
struct Waits {
    asks: Vec<Ask>,
    until: Option<Timestamp>,
    yields: bool,
    broken: Option<Reason>,
    steps_running: u32,
    driver: Option<Waker>,
}

impl Slot {
    pub(crate) fn ask(&self, ask: Ask) {
        self.change(|waits| waits.asks.push(ask));
    }

    pub(crate) fn sleep_until(&self, until: Timestamp) {
        self.change(|waits| waits.until = Some(waits.until.map_or(until, |earlier| earlier.min(until))));
    }

    pub(crate) fn yield_leg(&self) {
        self.change(|waits| waits.yields = true);
    }

    /// Ends the leg because of a fault; the first one is told.
    pub(crate) fn break_off(&self, reason: Reason) {
        self.change(|waits| {
            waits.broken.get_or_insert(reason);
        });
    }

    /// Holds suspensions back until the guard is dropped: a step that is running is finished and recorded first.
    pub(crate) fn step_running(&self) -> StepRunning<'_> {
        self.change(|waits| waits.steps_running += 1);
        StepRunning(self)
    }

    /// Runs `tool` until it ends, or until all of its branches wait and one of them waits for the end of the leg.
    pub(crate) async fn drive<F: Future>(&self, tool: F) -> Driven<F::Output> {
        let mut tool = pin!(tool);
        std::future::poll_fn(move |context| {
            // The tool first, as far as it gets: two questions that it asks side by side are one suspension.
            if let Poll::Ready(output) = tool.as_mut().poll(context) {
                return Poll::Ready(Driven::Ended(output));
            }
            let mut waits = self.lock();
            if let Some(reason) = waits.take() {
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
    fn take(&mut self) -> Option<Reason> {
        if let Some(reason) = self.broken.take() {
            return Some(reason);
        }
        if self.steps_running > 0 {
            return None;
        }
        // Yielding comes first: a branch that has work to do must not wait for another branch's answer.
        if self.yields {
            return Some(Reason::Suspend(Suspension::Yield));
        }
        if !self.asks.is_empty() {
            let asks = std::mem::take(&mut self.asks);
            return Some(Reason::Suspend(Suspension::Input { asks, until: self.until }));
        }
        self.until.map(|until| Reason::Suspend(Suspension::Timer(until)))
    }
}

/// A step is running.
pub(crate) struct StepRunning<'a>(&'a Slot);

impl Drop for StepRunning<'_> {
    fn drop(&mut self) {
        self.0.change(|waits| waits.steps_running = waits.steps_running.saturating_sub(1));
    }
}
