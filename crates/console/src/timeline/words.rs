//! The events of a task, in sentences.

use longhaul_client::text::{count, line};

use super::{Attempt, End, Timeline, Why};
use crate::clock::in_words_ms;
use crate::limits::{PROBLEMS_MAX, REASON_MAX};

/// The summary for a reader.
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
    for why in Why::ALL {
        let ms = total(waits.iter().filter(|wait| wait.why == why).map(|wait| wait.to_ms - wait.from_ms));
        if ms >= 1_000 {
            parts.push(format!("{} {}", in_words_ms(ms), why.words()));
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
            text.push_str(&format!(" In the last {}, {number} {verb}.", count(known, "attempt", "attempts")));
        } else if number > 0 {
            text.push_str(&format!(" {} {verb}.", count(number, "attempt", "attempts")));
        }
    }
    text
}

fn total(lengths: impl Iterator<Item = i64>) -> i64 {
    lengths.map(|ms| ms.max(0)).fold(0, i64::saturating_add)
}

/// The last attempts that went wrong, and how, oldest first.
pub(crate) fn problems(timeline: &Timeline) -> Vec<String> {
    let is_wrong = |attempt: &&Attempt| matches!(attempt.end, End::Died | End::Failed);
    let mut last: Vec<String> =
        timeline.attempts.iter().rev().filter(is_wrong).take(PROBLEMS_MAX).map(problem).collect();
    last.reverse();
    last
}

fn problem(attempt: &Attempt) -> String {
    let after = in_words_ms(attempt.to_ms - attempt.from_ms);
    let how = match (attempt.end, attempt.entries) {
        (End::Died, 0) => "died before it recorded anything".to_owned(),
        (End::Died, _) => format!("died; its last entry is {after} after its start"),
        (end, _) => format!("{} after {after}", end.words()),
    };
    let reason = attempt.reason.as_deref().map(|reason| format!(": {}", line(reason, REASON_MAX)));
    format!("Attempt {} {how}{}", attempt.number, reason.unwrap_or_default())
}
