//! One run for each point at which a process can die.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use longhaul_core::{EntryKind, Status};

use super::call::Order;
use super::script::{Moment, Seen};
use super::{Call, Run, TestError};

/// Further runs with a crash at the last point, in addition to the one of every point. They show effects of chance.
const REPEATED: usize = 4;

/// Real time before each run, so that what depends on a clock shows itself.
const PAUSE: Duration = Duration::from_millis(2);

/// Differences that are reported.
const DIFFERENCES_MAX: usize = 20;

/// Characters of a result in a sentence about it.
const RESULT_CHARACTERS_MAX: usize = 200;

impl Call {
    /// Runs the call once as it is, and then once for each moment at which its process can die, and compares: each run
    /// has to come to the same end, by the same steps, in the same order. Compensations are steps too: processes die
    /// between them, before their records and after. If the server cleans up after the task, that has to come to the
    /// same end too, also after a crash that makes it run twice.
    ///
    /// Names and values that depend on the time, on random numbers or on the order of a `HashMap` are found unless they
    /// happen to be the same in all runs. What a tool does outside its process is not looked at.
    ///
    /// A task that fails without a crash fails the test, unless it is said to ([`Call::expect_failure`]).
    ///
    /// # Errors
    /// [`TestError::Differs`] with one sentence for each difference; others as for [`Call::to_end`].
    pub async fn crash_everywhere(self) -> Result<(), TestError> {
        crash_everywhere(&self).await
    }
}

async fn crash_everywhere(call: &Call) -> Result<(), TestError> {
    let expected = call.clone().begin().await?.run_to_an_end().await?;
    if expected.has_timed_out {
        return Err(TestError::TimedOut { message: expected.text() });
    }
    expected.check_end(call.end)?;
    expected.check_asked(call.answers.keys().cloned())?;
    let mut differences = within(&expected, call.order, "the run without a crash");
    let moments = expected.moments();
    let repeated = moments.iter().rev().filter(|moment| matches!(moment, Moment::AfterRecord(..))).take(1);
    for moment in moments.iter().chain(repeated.cycle().take(REPEATED)) {
        if differences.len() >= DIFFERENCES_MAX {
            break;
        }
        pause().await;
        // After a crash in the work of a step that runs at most once, a tool may ask something else.
        let crashed = match call.clone().crash(moment.clone()).begin().await {
            Ok(running) => running.run_to_an_end().await,
            Err(error) => Err(error),
        };
        let where_ = moment.to_string();
        match crashed {
            // What may have run is another end than one that is known: only the tool can say what follows.
            Ok(crashed) if expected.may_have_run(moment) => differences.extend(within(&crashed, call.order, &where_)),
            Ok(crashed) => differences.extend(between(&expected, &crashed, call.order, &where_)),
            Err(TestError::NeverReached { steps, .. }) => {
                differences.push(format!("{where_}: the tool never came there; its steps were {steps:?}"));
            }
            Err(TestError::Unanswered { questions }) => {
                differences
                    .push(format!("{where_}: the tool asked {questions:?}, which it did not ask without a crash"));
            }
            Err(error) => return Err(error),
        }
    }
    let mut seen = BTreeSet::new();
    differences.retain(|difference| seen.insert(difference.clone()));
    differences.truncate(DIFFERENCES_MAX);
    if differences.is_empty() { Ok(()) } else { Err(TestError::Differs { differences }) }
}

#[expect(clippy::disallowed_methods, reason = "real time is what a tool must not depend on")]
async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

/// How a run with a crash differs from the one without.
fn between(expected: &Run, crashed: &Run, order: Order, where_: &str) -> Vec<String> {
    let mut differences = within(crashed, order, where_);
    let (wanted, had) = (names(expected), names(crashed));
    for (kind, name) in had.difference(&wanted) {
        differences
            .push(format!("{where_}: the tool came to {kind} `{name}`, to which it did not come without a crash"));
    }
    for (kind, name) in wanted.difference(&had) {
        differences.push(format!("{where_}: the tool did not come to {kind} `{name}`"));
    }
    if expected.end() != crashed.end() {
        let (one, other) = (cut(&expected.end()), cut(&crashed.end()));
        differences.push(format!("{where_}: the task ended with {other} instead of {one}"));
    }
    if expected.cleanups().last() != crashed.cleanups().last() {
        let (one, other) = (cleanup(expected), cleanup(crashed));
        differences.push(format!("{where_}: cleaning up ended with {other} instead of {one}"));
    }
    if order == Order::Matters
        && !runs_concurrently(expected)
        && !runs_concurrently(crashed)
        && let (Some(one), Some(other)) = (expected.seen().last(), crashed.seen().last())
        && let Some((first, then)) = swapped(one, other)
    {
        differences
            .push(format!("{where_}: the tool came to step `{then}` before `{first}`, and after it without a crash"));
    }
    differences
}

/// How the last try to clean up ended.
fn cleanup(run: &Run) -> String {
    match run.cleanups().last() {
        None => "nothing to clean up".to_owned(),
        Some(Ok(())) => "success".to_owned(),
        Some(Err(error)) => format!("the error `{}`", cut(error)),
    }
}

/// What is not the same in two attempts of one run.
fn within(run: &Run, order: Order, where_: &str) -> Vec<String> {
    let attempts = run.seen();
    let mut differences = Vec::new();
    let is_whole = matches!(run.status(), Status::Completed | Status::Failed);
    if let Some(last) = attempts.last().filter(|_| is_whole) {
        let came: BTreeSet<&str> = last.iter().map(Seen::step).collect();
        let forgotten = run.steps().into_iter().filter(|step| !came.contains(step.as_str()));
        differences.extend(forgotten.map(|step| {
            format!("{where_}: step `{step}` is recorded, but the attempt that ended the task did not reach it")
        }));
    }
    if run.replay_differs() {
        differences.push(format!(
            "{where_}: the tool failed, and succeeded when it was replayed to undo its work: do in a step what may end \
             otherwise the next time"
        ));
    }
    if order == Order::Matters && !runs_concurrently(run) {
        let swaps = attempts.iter().zip(attempts.iter().skip(1)).filter_map(|(one, other)| swapped(one, other));
        differences.extend(swaps.map(|(first, then)| {
            format!("{where_}: the tool came to step `{then}` before `{first}`, and after it in the attempt before")
        }));
    }
    differences
}

/// What is recorded, by kind and name.
fn names(run: &Run) -> BTreeSet<(&'static str, String)> {
    let named = run.journal().iter().filter(|entry| entry.kind != EntryKind::Round);
    named.map(|entry| (entry.kind.as_str(), entry.name.clone())).collect()
}

fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(RESULT_CHARACTERS_MAX).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// Two steps to which a tool came in one order in one attempt, and in the other order in another one: the first such
/// pair, in the order of `one`. Nothing is said about a tool that had two steps under way at a time: which of its
/// branches gets on first is not decided by the tool.
pub(super) fn swapped<'a>(one: &'a [Seen], other: &[Seen]) -> Option<(&'a str, &'a str)> {
    if has_branches(one) || has_branches(other) {
        return None;
    }
    let places: BTreeMap<&str, usize> = came_to(other).into_iter().zip(0..).collect();
    let common: Vec<(&str, usize)> =
        came_to(one).into_iter().filter_map(|step| Some((step, *places.get(step)?))).collect();
    let pairs = common.iter().zip(common.iter().skip(1));
    let mut swapped = pairs.filter(|((_, first), (_, then))| then < first);
    swapped.next().map(|((first, _), (then, _))| (*first, *then))
}

/// The steps in the order in which the tool came to them, each once: one that failed may be tried again.
fn came_to(attempt: &[Seen]) -> Vec<&str> {
    let mut steps: Vec<&str> = Vec::new();
    for seen in attempt {
        if !steps.contains(&seen.step()) {
            steps.push(seen.step());
        }
    }
    steps
}

/// Whether two steps were under way at a time in any attempt. The other attempts replay one of these steps, and begin
/// the other one.
fn runs_concurrently(run: &Run) -> bool {
    run.seen().iter().any(|attempt| has_branches(attempt))
}

/// Whether two steps were under way at a time. One that failed looks as if it still were, and so does one that looks
/// for something.
fn has_branches(attempt: &[Seen]) -> bool {
    let mut under_way = BTreeSet::new();
    attempt.iter().any(|seen| {
        match seen {
            Seen::Replayed(_) => false,
            Seen::Began(step) => under_way.insert(step),
            Seen::Recorded(step) => under_way.remove(step),
        };
        under_way.len() > 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(text: &str) -> Vec<Seen> {
        let seen = |word: &str| match word.split_at(1) {
            ("+", name) => Seen::Began(name.to_owned()),
            ("-", name) => Seen::Recorded(name.to_owned()),
            _ => Seen::Replayed(word.to_owned()),
        };
        text.split_whitespace().map(seen).collect()
    }

    #[test]
    fn steps_one_after_the_other_have_an_order_and_steps_of_branches_have_none() {
        let cases = [
            ("+a -a +b -b", "+b -b +a -a", Some(("a", "b"))),
            ("+a -a +b -b", "a +b -b", None),
            ("+a -a +b -b", "b a", Some(("a", "b"))),
            ("+a -a +b -b +c -c", "a +x -x c b", Some(("b", "c"))),
            ("+a +b -b -a", "b a", None),
            ("a b", "+b +a -a -b", None),
            ("+a +a +a -a +b -b", "+b -b +a +a -a", Some(("a", "b"))),
            ("", "+a -a", None),
        ];
        for (one, other, expected) in cases {
            assert_eq!(swapped(&attempt(one), &attempt(other)), expected, "{one}, then {other}");
        }
    }
}
