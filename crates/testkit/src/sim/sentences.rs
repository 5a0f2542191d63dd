//! The sentences of a story.

use longhaul_core::ports::{ApplyError, CreateError, Created, Recorded};
use longhaul_core::{Entry, Outcome, Refusal, State, Suspension, Task, TaskEvent, TaskKey};

use super::kernel::EPOCH_MS;

fn moment(at: longhaul_core::Timestamp) -> String {
    let ms = at.as_ms().saturating_sub(EPOCH_MS);
    format!("{}.{:03} s", ms / 1_000, ms % 1_000)
}

/// Stands for the outcome of a write in the hash of a run.
pub(crate) fn mark(answer: &Result<Task, ApplyError>) -> u64 {
    match answer {
        Ok(task) => u64::from(task.attempt) + 10,
        Err(ApplyError::Refused { .. }) => 1,
        Err(ApplyError::NotFound) => 2,
        Err(ApplyError::Store(_)) => 3,
    }
}

fn requested(event: &TaskEvent) -> String {
    match event {
        TaskEvent::Claim { lease_until, .. } => format!("claims it until {}", moment(*lease_until)),
        TaskEvent::Heartbeat { attempt, lease_until, progress, .. } => {
            let told = progress.as_ref().map_or_else(String::new, |progress| format!(", progress {}", progress.done));
            format!("as attempt {attempt} renews its lease until {}{told}", moment(*lease_until))
        }
        TaskEvent::SetVariables { attempt, .. } => format!("as attempt {attempt} writes the variables"),
        TaskEvent::Suspend { attempt, suspension, .. } => {
            format!("as attempt {attempt} suspends it {}", until(suspension))
        }
        TaskEvent::Retry { attempt, not_before, reason } => {
            format!("as attempt {attempt} asks for another try at {} ({reason})", moment(*not_before))
        }
        TaskEvent::Finish { attempt, outcome } => match outcome {
            Outcome::Completed { .. } => format!("as attempt {attempt} finishes it with a result"),
            Outcome::Failed(failure) => format!("as attempt {attempt} finishes it with an error ({})", failure.message),
        },
        TaskEvent::Answer { keys } => format!("notes the answers to {}", keys.join(" and ")),
        TaskEvent::Cancel => "cancels it".to_owned(),
        TaskEvent::Resend { .. } => "notes that a message is sent again".to_owned(),
        TaskEvent::RetriesExhausted => "gives it up".to_owned(),
        TaskEvent::TimeOut => "ends it because its time is over".to_owned(),
        TaskEvent::ExtendRetention { retention_ms } => format!("keeps its result for {retention_ms} ms"),
        TaskEvent::Forget => "forgets it".to_owned(),
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
        Suspension::Yield => "for the next worker".to_owned(),
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
    let requested = requested(event);
    match answer {
        Ok(task) => format!("at {name} {requested}: it is now {}", state(task)),
        Err(ApplyError::Refused { why, .. }) => format!("at {name} {requested}, and is refused: {}", refusal(*why)),
        Err(ApplyError::NotFound) => format!("at {name} {requested}, and it is not there"),
        Err(ApplyError::Store(error)) => format!("at {name} {requested}, and {error}"),
    }
}

/// A creation.
pub(crate) fn created(created: &Result<Created, CreateError>, name: impl Fn(&TaskKey) -> String) -> String {
    match created {
        Ok(Created::New(task)) => format!("writes the record of {}", name(&task.key())),
        Ok(Created::Existing(task)) => format!("finds the record of {}, for the same call", name(&task.key())),
        Err(error) => format!("is refused a new record: {error}"),
    }
}

/// A read.
pub(crate) fn read(name: &str, found: Option<&Task>) -> String {
    match found {
        Some(task) => format!("reads {name}: {}", state(task)),
        None => format!("looks for {name}, and it is not there"),
    }
}

/// A journal entry.
pub(crate) fn recorded(name: &str, entry: &Entry, recorded: Option<&Recorded>) -> String {
    let what = format!("the {} `{}` of {name}", entry.kind.as_str(), entry.name);
    match recorded {
        Some(Recorded::First) => format!("records {what}"),
        Some(Recorded::Earlier(_)) => format!("wants to record {what}, which is on record already"),
        None => format!("cannot record {what}"),
    }
}
