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
    /// What branches of the tool wait for now, each by the number of its guard.
    held: Vec<(u64, Wait)>,
    numbers: u64,
    yields: bool,
    broken: Option<Reason>,
    steps_running: u32,
    driver: Option<Waker>,
}

/// What a branch of the tool waits for.
pub(crate) enum Wait {
    /// An answer: ends the leg.
    Ask(Ask),
    /// A moment far away: ends the leg.
    Sleep(Timestamp),
    /// A moment that the leg waits for itself. It ends no leg, but one that ends for another reason keeps it.
    Nap(Timestamp),
}

impl Slot {
    /// Takes note of what a branch waits for, until the guard is dropped: a branch that lost a race and was dropped
    /// asks nothing any more.
    pub(crate) fn wait(&self, wait: Wait) -> Waiting<'_> {
        let mut number = 0;
        self.change(|waits| {
            waits.numbers += 1;
            number = waits.numbers;
            waits.held.push((number, wait));
        });
        Waiting { slot: self, number }
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
        let (mut asks, mut sleeps, mut first) = (Vec::new(), false, None::<Timestamp>);
        for (_, wait) in &self.held {
            match wait {
                Wait::Ask(ask) => asks.push(ask.clone()),
                Wait::Sleep(until) | Wait::Nap(until) => {
                    sleeps |= matches!(wait, Wait::Sleep(_));
                    first = Some(first.map_or(*until, |earlier| earlier.min(*until)));
                }
            }
        }
        match first {
            until if !asks.is_empty() => Some(Reason::Suspend(Suspension::Input { asks, until })),
            Some(until) if sleeps => Some(Reason::Suspend(Suspension::Timer(until))),
            Some(_) | None => None,
        }
    }
}

/// A branch waits.
pub(crate) struct Waiting<'a> {
    slot: &'a Slot,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.slot.change(|waits| waits.held.retain(|(number, _)| *number != self.number));
    }
}

/// A step is running.
pub(crate) struct StepRunning<'a>(&'a Slot);

impl Drop for StepRunning<'_> {
    fn drop(&mut self) {
        self.0.change(|waits| waits.steps_running = waits.steps_running.saturating_sub(1));
    }
}
