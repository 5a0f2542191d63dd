//! The events of a task, in the order of time: its attempts, what it waited for between them, and what it recorded.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::clock::moment_ms;

mod axis;
mod picture;
mod words;
pub(crate) use axis::Axis;
pub(crate) use picture::{bar, picture};
pub(crate) use words::{problems, summary};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It waits for a time.
    Timer,
    /// It waits for answers.
    Input,
    /// It was given back, for another attempt to continue.
    Yield,
    /// It failed, and is tried again.
    Failed,
    /// It ended without a record of its end.
    Died,
    /// The task ended with it.
    Task,
    /// Not yet.
    Runs,
    /// The record no longer has it.
    Unknown,
}

impl End {
    fn of(name: Option<&str>) -> Self {
        match name {
            Some("timer") => Self::Timer,
            Some("input") => Self::Input,
            Some("yield") => Self::Yield,
            Some("failed") => Self::Failed,
            Some("died") => Self::Died,
            Some("task") => Self::Task,
            Some(_) => Self::Unknown,
            None => Self::Runs,
        }
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Timer => "slept",
            Self::Input => "asked",
            Self::Yield => "gave back",
            Self::Failed => "failed",
            Self::Died => "died",
            Self::Task => "ended the task",
            Self::Runs => "runs",
            Self::Unknown => "not on record",
        }
    }

    /// The wait of the task after it.
    const fn then(self) -> Why {
        match self {
            Self::Timer => Why::Timer,
            Self::Input => Why::Input,
            Self::Failed | Self::Died => Why::Retry,
            Self::Yield | Self::Task | Self::Runs => Why::Queue,
            Self::Unknown => Why::Older,
        }
    }

    /// As a class of a style sheet.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Input => "input",
            Self::Yield => "yield",
            Self::Failed => "failed",
            Self::Died => "died",
            Self::Task => "task",
            Self::Runs => "runs",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) number: u64,
    pub(crate) from_ms: i64,
    /// Until now, if it runs; if it died, until the last that it recorded.
    pub(crate) to_ms: i64,
    /// Until when it held the task: if it died, until its lease had expired or the server was there again.
    pub(crate) held_until_ms: i64,
    pub(crate) end: End,
    /// Why it failed.
    pub(crate) reason: Option<String>,
    pub(crate) entries: usize,
}

impl Attempt {
    /// The same attempt with the count of its entries. If it died, it ends with its last entry.
    fn with_entries(self, entries: Option<&Entries>) -> Self {
        let last_ms = entries.map_or(self.from_ms, |entries| entries.to_ms.clamp(self.from_ms, self.held_until_ms));
        let to_ms = if self.end == End::Died { last_ms } else { self.to_ms };
        Self { to_ms, entries: entries.map_or(0, |entries| entries.count), ..self }
    }
}

/// The entries of an attempt.
struct Entries {
    from_ms: i64,
    to_ms: i64,
    count: usize,
}

impl Entries {
    /// An attempt that is known by them only.
    fn attempt(&self, number: u64) -> Attempt {
        let &Self { from_ms, to_ms, count } = self;
        Attempt { number, from_ms, to_ms, held_until_ms: to_ms, end: End::Unknown, reason: None, entries: count }
    }
}

/// Why no work is recorded for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// No worker had taken it.
    Queue,
    /// It waited for a time.
    Timer,
    /// It waited for answers.
    Input,
    /// An attempt had failed or died, and the next one had not begun.
    Retry,
    /// An attempt that died had recorded nothing more. It may have worked, and may have been dead already.
    Lost,
    /// The record no longer has it.
    Older,
}

impl Why {
    pub(crate) const ALL: [Self; 6] = [Self::Lost, Self::Timer, Self::Input, Self::Retry, Self::Older, Self::Queue];

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Queue => "in the queue",
            Self::Timer => "asleep",
            Self::Input => "waiting for answers",
            Self::Retry => "until it was tried again",
            Self::Lost => "lost or without a server",
            Self::Older => "in older waits",
        }
    }

    /// As a class of a style sheet.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Timer => "timer",
            Self::Input => "input",
            Self::Retry => "retry",
            Self::Lost => "lost",
            Self::Older => "older",
        }
    }
}

/// A time for which no work is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) from_ms: i64,
    pub(crate) to_ms: i64,
    pub(crate) why: Why,
}

/// Something that was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) at_ms: Option<i64>,
    pub(crate) took_ms: Option<i64>,
    /// The attempt that recorded it; `None` for answers and signals, which others record.
    pub(crate) attempt: Option<u64>,
    /// As the server shows it: with `value`, or only with `bytes`.
    pub(crate) shown: Value,
}

impl Entry {
    fn of(shown: &Value) -> Self {
        let text = |name: &str| shown[name].as_str().unwrap_or_default().to_owned();
        Self {
            kind: text("kind"),
            name: text("name"),
            at_ms: shown["at"].as_str().and_then(moment_ms),
            took_ms: shown["tookMs"].as_i64(),
            attempt: shown["attempt"].as_u64().filter(|number| *number > 0),
            shown: shown.clone(),
        }
    }

    /// From when to when, if that is known.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let at_ms = self.at_ms?;
        Some((at_ms.saturating_sub(self.took_ms.unwrap_or(0).max(0)), at_ms))
    }
}

/// The events of a task.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) created_ms: i64,
    /// Until now, if it has not ended.
    pub(crate) until_ms: i64,
    pub(crate) has_ended: bool,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) entries: Vec<Entry>,
    /// Attempts that recorded nothing.
    pub(crate) unknown_attempts: u64,
    /// Attempts that are known only from their entries.
    pub(crate) guessed_attempts: usize,
}

impl Timeline {
    /// The timeline of a task as its server shows it; `None` if the server does not say when the task was created.
    pub(crate) fn of(shown: &Value, now_ms: i64) -> Option<Self> {
        let moment = |name: &str| shown[name].as_str().and_then(moment_ms);
        let created_ms = shown["task"]["createdAt"].as_str().and_then(moment_ms)?;
        let ended_ms = moment("endedAt");
        let until_ms = ended_ms.unwrap_or(now_ms).max(created_ms);
        let all = |name: &str| shown[name].as_array().into_iter().flatten();
        let entries: Vec<Entry> = all("journal").map(Entry::of).collect();
        let recorded: Vec<Attempt> = all("attempts").filter_map(|attempt| attempt_of(attempt, until_ms)).collect();
        let by_attempt = by_attempt(&entries);
        let first = recorded.first().map_or(u64::MAX, |attempt| attempt.number);
        let mut attempts: Vec<Attempt> =
            by_attempt.range(..first).map(|(number, entries)| entries.attempt(*number)).collect();
        let guessed_attempts = attempts.len();
        attempts.extend(recorded.into_iter().map(|attempt| {
            let entries = by_attempt.get(&attempt.number);
            attempt.with_entries(entries)
        }));
        let latest = shown["attempt"].as_u64().unwrap_or_default();
        let unknown_attempts = latest.saturating_sub(u64::try_from(attempts.len()).unwrap_or(u64::MAX));
        Some(Self {
            created_ms,
            until_ms,
            has_ended: ended_ms.is_some(),
            attempts,
            entries,
            unknown_attempts,
            guessed_attempts,
        })
    }

    /// The times before the first attempt, between attempts, after the last record of those that died, and since the
    /// last attempt if the task continues.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        let (mut waits, mut from_ms, mut why) = (Vec::new(), self.created_ms, Why::Queue);
        for attempt in &self.attempts {
            waits.push(Wait { from_ms, to_ms: attempt.from_ms, why });
            waits.push(Wait { from_ms: attempt.to_ms, to_ms: attempt.held_until_ms, why: Why::Lost });
            (from_ms, why) = (attempt.held_until_ms, attempt.end.then());
        }
        waits.push(Wait { from_ms, to_ms: self.until_ms, why });
        waits.retain(|wait| wait.to_ms > wait.from_ms);
        waits
    }
}

/// The entries of each attempt.
fn by_attempt(entries: &[Entry]) -> BTreeMap<u64, Entries> {
    let mut by_attempt: BTreeMap<u64, Entries> = BTreeMap::new();
    for (number, (from_ms, to_ms)) in entries.iter().filter_map(|entry| Some((entry.attempt?, entry.span()?))) {
        let of = by_attempt.entry(number).or_insert(Entries { from_ms, to_ms, count: 0 });
        *of = Entries { from_ms: of.from_ms.min(from_ms), to_ms: of.to_ms.max(to_ms), count: of.count + 1 };
    }
    by_attempt
}

fn attempt_of(attempt: &Value, until_ms: i64) -> Option<Attempt> {
    let from_ms = attempt["from"].as_str().and_then(moment_ms)?;
    let to_ms = attempt["to"].as_str().and_then(moment_ms).unwrap_or(until_ms).max(from_ms);
    Some(Attempt {
        number: attempt["attempt"].as_u64()?,
        from_ms,
        to_ms,
        held_until_ms: to_ms,
        end: End::of(attempt["end"].as_str()),
        reason: attempt["reason"].as_str().map(str::to_owned),
        entries: 0,
    })
}

#[cfg(test)]
pub(crate) mod tests;
