//! What happened to a task, in a sentence.

use super::{Attempt, End, Timeline, Wait};
use crate::clock::in_words_ms;
use crate::text::{count, line};

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
mod tests {
    use serde_json::json;

    use super::super::tests::{at, long, now_ms};
    use super::*;

    #[test]
    fn forty_attempts_and_a_thousand_steps_are_one_sentence() {
        let line = Timeline::of(&long(40, 25), now_ms(0)).unwrap();
        let expected = "40 attempts, 1000 steps in 39 h: 5 min of work, 13 h 57 min asleep, 59 min until it was tried \
                        again, \
                        23 h 56 min in older waits, 2 s in the queue. Of the last 16 attempts, 1 died.";
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
