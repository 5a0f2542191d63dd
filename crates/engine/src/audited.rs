//! What the audit log says of the use cases that clients call.

use longhaul_audit::{Entry, Event, Outcome};
use longhaul_core::{OwnerId, Status, Task, TaskKey, Timestamp};

use crate::outcome::Taken;
use crate::{AcceptError, Accepted, AnswerError, PollError};

/// A call that began at `began_at` was accepted, or was not.
pub(crate) fn accept(owner: OwnerId, tool: &str, began_at: Timestamp, accepted: &Result<Accepted, AcceptError>) {
    let entry = |outcome| Entry::new(Event::Accept, outcome).by(owner).tool(tool);
    match accepted {
        // The caller chose the id, and had chosen it before.
        Ok(Accepted::New(task)) if task.created_at < began_at => entry(Outcome::Repeated).task(&task.key()).log(),
        Ok(Accepted::New(task)) => entry(Outcome::Done).task(&task.key()).log(),
        Ok(Accepted::Existing(task)) => entry(Outcome::Repeated).task(&task.key()).log(),
        Err(AcceptError::Unavailable(_)) => entry(Outcome::Unavailable).log(),
        Err(AcceptError::TooLarge { .. }) => entry(Outcome::Refused).because("too_large").log(),
        Err(AcceptError::InvalidKey { .. }) => entry(Outcome::Refused).because("invalid_key").log(),
        Err(AcceptError::KeyReused) => entry(Outcome::Refused).because("key_reused").log(),
        Err(AcceptError::TooManyOpen { .. }) => entry(Outcome::Refused).because("too_many_open").log(),
        Err(AcceptError::TooManyNew { .. }) => entry(Outcome::Refused).because("too_many_new").log(),
        Err(AcceptError::TooFarAhead { .. }) => entry(Outcome::Refused).because("too_far_ahead").log(),
        Err(AcceptError::TooMuchStored { .. }) => entry(Outcome::Refused).because("too_much_stored").log(),
    }
}

/// Answers to a task's questions were taken, or were not.
pub(crate) fn answer(key: &TaskKey, taken: &Result<Taken, AnswerError>) {
    let entry = |outcome| Entry::new(Event::Answer, outcome).task(key);
    match taken {
        Ok(Taken::Recorded(task)) => entry(Outcome::Done).tool(&task.tool).log(),
        Ok(Taken::Ignored(task)) => entry(Outcome::Unchanged).tool(&task.tool).log(),
        Err(AnswerError::NotFound) => entry(Outcome::NotFound).log(),
        Err(AnswerError::TooLarge { .. }) => entry(Outcome::Refused).because("too_large").log(),
        Err(AnswerError::Unavailable(_)) => entry(Outcome::Unavailable).log(),
    }
}

/// A task was cancelled by a request that began at `began_at`, or was not.
pub(crate) fn cancel(key: &TaskKey, began_at: Timestamp, cancelled: &Result<Task, PollError>) {
    let (outcome, tool) = match cancelled {
        Ok(task) => (of_cancelled(task, began_at), Some(task.tool.as_str())),
        Err(PollError::NotFound) => (Outcome::NotFound, None),
        Err(PollError::Unavailable(_)) => (Outcome::Unavailable, None),
    };
    let entry = Entry::new(Event::Cancel, outcome).task(key);
    tool.map_or(entry, |tool| entry.tool(tool)).log();
}

fn of_cancelled(task: &Task, began_at: Timestamp) -> Outcome {
    let ended_before = task.ended_at.is_some_and(|ended_at| ended_at < began_at);
    if task.status() == Status::Cancelled && !ended_before { Outcome::Done } else { Outcome::Unchanged }
}
