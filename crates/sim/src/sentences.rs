//! The sentences of a story.

use longhaul_core::ports::{ApplyError, CreateError, Created, Recorded};
use longhaul_core::{CleanupEnd, Entry, Outcome, Refusal, State, Suspension, Task, TaskEvent, TaskKey};

use super::kernel::EPOCH_MS;

fn moment(at: longhaul_core::Timestamp) -> String {
    let ms = at.as_ms().saturating_sub(EPOCH_MS);
    format!("{}.{:03} s", ms / 1_000, ms % 1_000)
}

/// Represents the outcome of a write in the hash of a run.
pub(crate) fn mark(answer: &Result<Task, ApplyError>) -> u64 {
    match answer {
        Ok(task) => u64::from(task.attempt) + 10,
        Err(ApplyError::Refused { .. }) => 1,
        Err(ApplyError::NotFound) => 2,
        Err(ApplyError::Store(_)) => 3,
    }
}

fn requested(name: &str, event: &TaskEvent) -> String {
    match event {
        TaskEvent::Claim { lease_until, .. } => format!("claims {name} until {}", moment(*lease_until)),
        TaskEvent::Heartbeat { attempt, lease_until, progress, .. } => {
            let reported =
                progress.as_ref().map_or_else(String::new, |progress| format!(", progress {}", progress.done));
            format!("renews its lease of {name} as attempt {attempt} until {}{reported}", moment(*lease_until))
        }
        TaskEvent::SetVariables { attempt, .. } => format!("writes the variables of {name} as attempt {attempt}"),
        TaskEvent::Suspend { attempt, suspension, .. } => {
            format!("suspends {name} as attempt {attempt} {}", until(suspension))
        }
        TaskEvent::Retry { attempt, not_before, reason } => {
            format!("asks for a retry of {name} as attempt {attempt} at {} ({reason})", moment(*not_before))
        }
        TaskEvent::Finish { attempt, outcome, .. } => match outcome {
            Outcome::Completed { .. } => format!("finishes {name} as attempt {attempt} with a result"),
            Outcome::Failed(failure) => {
                format!("finishes {name} as attempt {attempt} with an error ({})", failure.message)
            }
        },
        TaskEvent::Answer { keys } => format!("notes that {} of {name} is answered", keys.join(" and ")),
        TaskEvent::Wake { at } => format!("wakes {name} at {}", moment(*at)),
        TaskEvent::Cancel => format!("cancels {name}"),
        TaskEvent::Resend { .. } => format!("notes that a message for {name} is sent again"),
        TaskEvent::RetriesExhausted => format!("fails {name} because no retries are left"),
        TaskEvent::TimeOut => format!("times {name} out"),
        TaskEvent::ExtendRetention { retention_ms } => format!("retains the result of {name} for {retention_ms} ms"),
        TaskEvent::Forget => format!("forgets {name}"),
        TaskEvent::BeginCleanup { lease } => format!("begins the cleanup of {name} until {}", moment(lease.until)),
        TaskEvent::EndCleanup { end, .. } => match end {
            CleanupEnd::Done => format!("has finished the cleanup of {name}"),
            CleanupEnd::GivenUp => format!("gives up compensations of {name}"),
            CleanupEnd::Failed { again_at } => {
                format!("has failed in the cleanup of {name}, and leaves it until {}", moment(*again_at))
            }
            CleanupEnd::Postponed { again_at } => {
                format!("cannot do the cleanup of {name}, and leaves it until {}", moment(*again_at))
            }
        },
    }
}

fn until(suspension: &Suspension) -> String {
    match suspension {
        Suspension::Input { asks, until } => {
            let names: Vec<_> = asks.iter().map(|ask| ask.key.as_str()).collect();
            let or = until.map_or_else(String::new, |until| format!(", or until {}", moment(until)));
            format!("until {} is answered{or}", names.join(" and "))
        }
        Suspension::Timer(until) => format!("until {}", moment(*until)),
        Suspension::Yield => "so that the next worker can continue".to_owned(),
    }
}

fn state(task: &Task) -> String {
    match &task.state {
        State::Queued => "queued".to_owned(),
        State::Running { lease } => format!("held by attempt {} until {}", task.attempt, moment(lease.until)),
        State::Sleeping { until } => format!("asleep until {}", moment(*until)),
        State::InputRequired { asks, .. } => {
            let names: Vec<_> = asks.iter().map(|ask| ask.key.as_str()).collect();
            format!("waiting for {}", names.join(" and "))
        }
        State::Completed { .. } => "completed".to_owned(),
        State::Failed { failure } => format!("failed ({})", failure.message),
        State::Cancelled => "cancelled".to_owned(),
    }
}

fn refusal(why: Refusal) -> String {
    match why {
        Refusal::Leased { until } => format!("another worker holds it until {}", moment(until)),
        Refusal::NotDue { until } => format!("it sleeps until {}", moment(until)),
        Refusal::SentAlready { at } => format!("one was sent at {}", moment(at)),
        other => other.to_string(),
    }
}

/// A write.
pub(crate) fn applied(name: &str, event: &TaskEvent, answer: &Result<Task, ApplyError>) -> String {
    let requested = requested(name, event);
    match answer {
        Ok(task) => format!("{requested}: it is now {}", state(task)),
        Err(ApplyError::Refused { why, .. }) => format!("{requested}, and is refused: {}", refusal(*why)),
        Err(ApplyError::NotFound) => format!("{requested}, and does not find it"),
        Err(ApplyError::Store(error)) => format!("{requested}, and fails: {error}"),
    }
}

/// A creation.
pub(crate) fn created(created: &Result<Created, CreateError>, name: impl Fn(&TaskKey) -> String) -> String {
    match created {
        Ok(Created::New(task)) => format!("writes the record of {}", name(&task.key())),
        Ok(Created::NewAndSent(task)) => format!("writes the record of {} with its message", name(&task.key())),
        Ok(Created::Existing(task)) => format!("finds the record of {}, for the same call", name(&task.key())),
        Err(error) => format!("is refused a new record: {error}"),
    }
}

/// A read.
pub(crate) fn read(name: &str, found: Option<&Task>) -> String {
    match found {
        Some(task) => format!("reads {name}: {}", state(task)),
        None => format!("looks for {name}, and does not find it"),
    }
}

/// A journal entry.
pub(crate) fn recorded(name: &str, entry: &Entry, recorded: Option<&Recorded>) -> String {
    let what = format!("the {} `{}` of {name}", entry.kind.as_str(), entry.name);
    match recorded {
        Some(Recorded::First) => format!("records {what}"),
        Some(Recorded::Earlier(_)) => format!("tries to record {what}, which is recorded already"),
        None => format!("cannot record {what}"),
    }
}
