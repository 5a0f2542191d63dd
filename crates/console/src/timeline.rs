//! What happened to a task, in the order of time: its attempts, what it waited for between them, and what it recorded;
//! and the same in a sentence.

use std::collections::BTreeMap;

use longhaul_client::text::{count, line};
use serde_json::Value;

use crate::clock::{in_words_ms, moment_ms};

mod axis;
mod picture;
pub(crate) use axis::Axis;
pub(crate) use picture::{bar, picture};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It waits for a moment.
    Timer,
    /// It waits for answers.
    Input,
    /// It was given back, for another attempt to go on.
    Yield,
    /// It failed, and is tried again.
    Failed,
    /// Nobody heard of it any more.
    Died,
    /// The task ended with it.
    Task,
    /// Not yet.
    Runs,
    /// The record does not say it any more.
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

    /// What the task waited for after it.
    pub(crate) const fn wait_words(self) -> &'static str {
        match self {
            Self::Timer => "asleep",
            Self::Input => "waiting for answers",
            Self::Failed | Self::Died => "until it was tried again",
            Self::Yield | Self::Task | Self::Runs => "in the queue",
            Self::Unknown => "in older waits",
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
    /// Until now, if it runs.
    pub(crate) to_ms: i64,
    pub(crate) end: End,
    /// Why it failed.
    pub(crate) reason: Option<String>,
    pub(crate) entries: usize,
}

/// A time between two attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) from_ms: i64,
    pub(crate) to_ms: i64,
    /// How the attempt before it ended; `None` before the first one.
    pub(crate) after: Option<End>,
}

/// Something that was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) at_ms: Option<i64>,
    pub(crate) took_ms: Option<i64>,
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
            attempt: shown["attempt"].as_u64(),
            shown: shown.clone(),
        }
    }

    /// From when to when, if that is known.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let at_ms = self.at_ms?;
        Some((at_ms.saturating_sub(self.took_ms.unwrap_or(0).max(0)), at_ms))
    }
}

/// What happened to a task.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) created_ms: i64,
    /// Until now, if it has not ended.
    pub(crate) until_ms: i64,
    pub(crate) has_ended: bool,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) entries: Vec<Entry>,
    /// Attempts that left nothing on record.
    pub(crate) unknown_attempts: u64,
    /// Attempts that are known by what they recorded only.
    pub(crate) guessed_attempts: usize,
}

impl Timeline {
    /// That of a task as its server shows it; `None` if it does not say when the task was created.
    pub(crate) fn of(shown: &Value, now_ms: i64) -> Option<Self> {
        let moment = |name: &str| shown[name].as_str().and_then(moment_ms);
        let created_ms = shown["task"]["createdAt"].as_str().and_then(moment_ms)?;
        let ended_ms = moment("endedAt");
        let until_ms = ended_ms.unwrap_or(now_ms).max(created_ms);
        let all = |name: &str| shown[name].as_array().into_iter().flatten();
        let entries: Vec<Entry> = all("journal").map(Entry::of).collect();
        let recorded: Vec<Attempt> = all("attempts").filter_map(|attempt| attempt_of(attempt, until_ms)).collect();
        let mut by_attempt: BTreeMap<u64, (i64, i64, usize)> = BTreeMap::new();
        for (attempt, (from_ms, to_ms)) in entries.iter().filter_map(|entry| Some((entry.attempt?, entry.span()?))) {
            let of = by_attempt.entry(attempt).or_insert((from_ms, to_ms, 0));
            *of = (of.0.min(from_ms), of.1.max(to_ms), of.2 + 1);
        }
        let first = recorded.first().map_or(u64::MAX, |attempt| attempt.number);
        let guess = |(attempt, (from_ms, to_ms, entries)): (&u64, &(i64, i64, usize))| Attempt {
            number: *attempt,
            from_ms: *from_ms,
            to_ms: *to_ms,
            end: End::Unknown,
            reason: None,
            entries: *entries,
        };
        let mut attempts: Vec<Attempt> = by_attempt.range(..first).map(guess).collect();
        let guessed_attempts = attempts.len();
        attempts.extend(recorded.into_iter().map(|attempt| Attempt {
            entries: by_attempt.get(&attempt.number).map_or(0, |(_, _, entries)| *entries),
            ..attempt
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

    /// The times between attempts, before the first one, and since the last one if the task goes on.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        let (mut waits, mut from_ms, mut after) = (Vec::new(), self.created_ms, None);
        for attempt in &self.attempts {
            waits.push(Wait { from_ms, to_ms: attempt.from_ms, after });
            (from_ms, after) = (attempt.to_ms, Some(attempt.end));
        }
        waits.push(Wait { from_ms, to_ms: self.until_ms, after });
        waits.retain(|wait| wait.to_ms > wait.from_ms);
        waits
    }
}

fn attempt_of(attempt: &Value, until_ms: i64) -> Option<Attempt> {
    let from_ms = attempt["from"].as_str().and_then(moment_ms)?;
    let to_ms = attempt["to"].as_str().and_then(moment_ms);
    Some(Attempt {
        number: attempt["attempt"].as_u64()?,
        from_ms,
        to_ms: to_ms.unwrap_or(until_ms).max(from_ms),
        end: End::of(attempt["end"].as_str()),
        reason: attempt["reason"].as_str().map(str::to_owned),
        entries: 0,
    })
}

/// So many attempts are named that went wrong: the last ones.
const PROBLEMS_MAX: usize = 5;

/// Characters of a reason.
const REASON_MAX: usize = 300;

/// What a reader learns at one look.
pub(crate) fn summary(timeline: &Timeline) -> String {
    let attempts =
        usize::try_from(timeline.unknown_attempts).unwrap_or(usize::MAX).saturating_add(timeline.attempts.len());
    if attempts == 0 {
        let waited = in_words_ms(timeline.until_ms - timeline.created_ms);
        let so_far = if timeline.has_ended { "It ended before it ran" } else { "It has not run yet" };
        return format!("{so_far}: {waited} in the queue.");
    }
    let all = in_words_ms(timeline.until_ms - timeline.created_ms);
    let steps = timeline.entries.iter().filter(|entry| entry.kind == "step").count();
    let steps = if steps == 0 { String::new() } else { format!(", {}", count(steps, "step", "steps")) };
    let mut parts = vec![format!(
        "{} of work",
        in_words_ms(total(timeline.attempts.iter().map(|attempt| attempt.to_ms - attempt.from_ms)))
    )];
    let waits = timeline.waits();
    for words in ["asleep", "waiting for answers", "until it was tried again", "in older waits", "in the queue"] {
        let of = |wait: &&Wait| wait.after.map_or("in the queue", End::wait_words) == words;
        let ms = total(waits.iter().filter(of).map(|wait| wait.to_ms - wait.from_ms));
        if ms >= 1_000 {
            parts.push(format!("{} {words}", in_words_ms(ms)));
        }
    }
    let mut text = format!("{}{steps} in {all}: {}.", count(attempts, "attempt", "attempts"), parts.join(", "));
    text.push_str(&gone_wrong(timeline, attempts));
    text
}

/// How many attempts died and failed. The server knows how the last ones ended, and nothing of older ones.
fn gone_wrong(timeline: &Timeline, attempts: usize) -> String {
    let known = timeline.attempts.iter().filter(|attempt| attempt.end != End::Unknown).count();
    let mut text = String::new();
    for (end, verb) in [(End::Died, "died"), (End::Failed, "failed")] {
        let number = timeline.attempts.iter().filter(|attempt| attempt.end == end).count();
        if number > 0 && known < attempts {
            text.push_str(&format!(" Of the last {}, {number} {verb}.", count(known, "attempt", "attempts")));
        } else if number > 0 {
            text.push_str(&format!(" {} {verb}.", count(number, "attempt", "attempts")));
        }
    }
    text
}

fn total(lengths: impl Iterator<Item = i64>) -> i64 {
    lengths.map(|ms| ms.max(0)).fold(0, i64::saturating_add)
}

/// The last attempts that went wrong, and how.
pub(crate) fn problems(timeline: &Timeline) -> Vec<String> {
    let is_wrong = |attempt: &&Attempt| matches!(attempt.end, End::Died | End::Failed);
    let said = |attempt: &Attempt| {
        let after = in_words_ms(attempt.to_ms - attempt.from_ms);
        let reason =
            attempt.reason.as_deref().map(|reason| format!(": {}", line(reason, REASON_MAX))).unwrap_or_default();
        format!("Attempt {} {} after {after}{reason}", attempt.number, attempt.end.words())
    };
    timeline.attempts.iter().rev().filter(is_wrong).take(PROBLEMS_MAX).map(said).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A moment so many seconds after the creation of the task.
    pub(crate) fn at(seconds: i64) -> String {
        crate::clock::written(1_763_870_400_000 + seconds * 1_000).replace(' ', "T").replace("TUTC", "Z")
    }

    pub(crate) fn now_ms(seconds: i64) -> i64 {
        1_763_870_400_000 + seconds * 1_000
    }

    /// A task with so many attempts of ten seconds, an hour apart, and so many steps in each: the third attempt from
    /// the end died.
    pub(crate) fn long(attempts: i64, steps: i64) -> Value {
        let attempt = |number: i64| {
            let from = number * 3_600;
            let end = if number == attempts - 3 {
                "died"
            } else if number == attempts - 1 {
                "task"
            } else {
                "timer"
            };
            json!({"attempt": number + 1, "from": at(from), "to": at(from + 10), "end": end})
        };
        let entry = |attempt: i64, step: i64| {
            json!({"kind": "step", "name": format!("step {attempt}.{step}"), "at":
                at(attempt * 3_600 + 1 + step * 9 / steps),
                "tookMs": 300, "attempt": attempt + 1, "bytes": 2, "value": step})
        };
        let journal: Vec<Value> =
            (0..attempts).flat_map(|attempt| (0..steps).map(move |step| entry(attempt, step))).collect();
        let kept: Vec<Value> = (attempts.saturating_sub(16).max(0)..attempts).map(attempt).collect();
        json!({"task": {"taskId": "t", "status": "completed", "createdAt": at(-2)}, "tool": "etl", "attempt": attempts,
            "endedAt": at((attempts - 1) * 3_600 + 10), "attempts": kept, "journal": journal, "failures": 0})
    }

    #[test]
    fn waits_are_the_times_between_attempts() {
        let line = Timeline::of(&long(3, 1), now_ms(0)).unwrap();
        let waits: Vec<_> = line.waits().iter().map(|wait| (wait.to_ms - wait.from_ms, wait.after)).collect();
        assert_eq!(waits, [(2_000, None), (3_590_000, Some(End::Died)), (3_590_000, Some(End::Timer))]);
    }

    #[test]
    fn attempts_that_are_not_on_record_any_more_are_known_by_what_they_recorded() {
        let line = Timeline::of(&long(40, 25), now_ms(0)).unwrap();
        assert_eq!((line.attempts.len(), line.guessed_attempts, line.unknown_attempts), (40, 24, 0));
        assert_eq!(
            (line.attempts[0].end, line.attempts[37].end, line.attempts[39].end),
            (End::Unknown, End::Died, End::Task)
        );
        assert!(line.attempts.iter().all(|attempt| attempt.entries == 25));
    }

    #[test]
    fn attempts_that_left_nothing_are_counted() {
        let line = Timeline::of(&long(40, 0), now_ms(0)).unwrap();
        assert_eq!((line.attempts.len(), line.unknown_attempts), (16, 24));
    }

    #[test]
    fn what_is_no_record_is_no_timeline() {
        for shown in [json!(null), json!({"attempts": 3, "journal": "x"}), json!({"task": {"createdAt": "yesterday"}})]
        {
            assert!(Timeline::of(&shown, 0).is_none(), "{shown}");
        }
        let odd = json!({"task": {"createdAt": at(0)}, "attempts": [{"attempt": -1}, 3], "journal": [{"at": 5}, null]});
        let line = Timeline::of(&odd, now_ms(5)).unwrap();
        assert_eq!((line.attempts.len(), line.entries.len()), (0, 2));
    }

    #[test]
    fn forty_attempts_and_a_thousand_steps_are_one_sentence() {
        let line = Timeline::of(&long(40, 25), now_ms(0)).unwrap();
        let expected = "40 attempts, 1000 steps in 39 h: 5 min of work, 13 h 57 min asleep, 59 min until it was tried \
                        again, 23 h 56 min in older waits, 2 s in the queue. Of the last 16 attempts, 1 died.";
        assert_eq!(summary(&line), expected);
        assert_eq!(problems(&line), ["Attempt 38 died after 10 s"]);
    }

    #[test]
    fn a_task_without_attempts_waits_in_the_queue() {
        let shown = json!({"task": {"createdAt": at(0)}, "attempts": [], "journal": []});
        let line = Timeline::of(&shown, now_ms(5)).unwrap();
        assert_eq!(summary(&line), "It has not run yet: 5 s in the queue.");
    }
}
