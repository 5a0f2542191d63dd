//! The compensations that an attempt has registered, and how far its replay is.
//!
//! A compensation is the author's code, so no record can hold it. The record has the work around it. When the task has
//! ended, a replay of the tool up to the end of its record registers the same compensations again. Then they run, the
//! last first, each as a step of its own.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use longhaul_core::Timestamp;

use super::retry::{Retry, Tried};

/// The work of a compensation: one try, whose number it is given.
pub type Compensate = Box<dyn FnMut(u32) -> BoxFuture<'static, Tried> + Send>;

pub(super) struct Compensation {
    pub(super) name: String,
    pub(super) retry: Retry,
    pub(super) work: Compensate,
}

/// The purpose of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// To do the tool's work.
    #[default]
    Work,
    /// To register the compensations of a task that has ended. No work is done, and nothing is recorded.
    Replay {
        /// Sleeps until then have passed: the tool may have run until then.
        until: Timestamp,
    },
    /// To run them.
    Undo,
}

/// The compensations of an attempt, and how far its replay is.
#[derive(Default)]
pub(crate) struct Compensations(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) registered: Vec<Compensation>,
    /// The names of all that were registered, those that have run among them.
    pub(super) names: BTreeSet<String>,
    /// The recorded steps that the replay has not come to.
    pub(super) ahead: BTreeSet<String>,
    /// How many recorded values are being read.
    pub(super) reading: u32,
    pub(super) is_at_the_end: bool,
}

impl Compensations {
    /// The compensations for the replay of a task that has these recorded steps.
    pub(super) fn of_replay(until: Timestamp, steps: BTreeSet<String>) -> Self {
        Self(Mutex::new(State { phase: Phase::Replay { until }, ahead: steps, ..State::default() }))
    }

    /// Whether a step may not have this name.
    pub(super) fn have_name(&self, step: &str) -> bool {
        let state = self.lock();
        state.phase != Phase::Undo && state.names.contains(step)
    }

    pub(super) fn came_to(&self, step: &str) {
        self.lock().ahead.remove(step);
    }

    /// Until when sleeps have passed, in a replay.
    pub(super) fn replayed_until(&self) -> Option<Timestamp> {
        match self.lock().phase {
            Phase::Replay { until } => Some(until),
            Phase::Work | Phase::Undo => None,
        }
    }

    pub(super) fn is_undo(&self) -> bool {
        self.lock().phase == Phase::Undo
    }

    pub(super) fn take_last(&self) -> Option<Compensation> {
        self.lock().registered.pop()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
