//! One run for each point at which a process can die.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::{EntryKind, Status};

use super::call::Order;
use super::crash::{AtACrash, MakeServer, Processes};
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
    /// Runs the call without a crash, and then once for each point at which its process can die, or its worker can
    /// stop. Each run has to come to the same end, by the same steps, in the same order. Compensations are steps too:
    /// processes die between them, before their records and after. If the server cleans up the task, the cleanup has to
    /// come to the same end, even if a crash makes it run twice.
    ///
    /// Names and values may not depend on the time, on random numbers or on the order of a `HashMap`. Each run shows
    /// that, unless they are the same by chance. Effects outside of the process are not compared.
    ///
    /// A task that fails without a crash fails the test, unless the test expects that ([`Call::expect_failure`]).
    ///
    /// # Errors
    /// [`TestError::Differs`] with one sentence for each difference; others as for [`Call::to_end`].
    pub async fn crash_everywhere(self) -> Result<(), TestError> {
        compare(|_at_a_crash| self.clone(), &[AtACrash::Dropped]).await
    }
}

/// [`Call::crash_everywhere`] for a tool that keeps files, programs or connections. `world` makes the outside world of
/// a run. It returns a closure that makes the server and the call, once for each process.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use longhaul::rmcp::ErrorData;
/// use longhaul::{TaskContext, testing};
///
/// async fn convert(folder: &Path, task: &TaskContext) -> Result<u64, ErrorData> {
///     let write = async || tokio::fs::write(folder.join("out"), "converted").await.map_err(error);
///     task.try_step("convert", write).await?;
///     let size = async || tokio::fs::metadata(folder.join("out")).await.map(|file| file.len()).map_err(error);
///     task.try_step("measure", size).await
/// }
///
/// fn error(error: std::io::Error) -> ErrorData {
///     ErrorData::internal_error(error.to_string(), None)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), testing::TestError> {
/// testing::crash_everywhere_with(|| {
///     let folder = Arc::new(tempfile::tempdir().unwrap());
///     move || {
///         let folder = folder.clone();
///         testing::tool(move |task: TaskContext| {
///             let folder = folder.clone();
///             async move { convert(folder.path(), &task).await.map(|bytes| bytes.to_string()) }
///         })
///     }
/// })
/// .await
/// # }
/// ```
///
/// Each crash comes twice: once the process is killed, and once its attempt is dropped, so that destructors run. A
/// destructor that removes something that a later attempt needs makes a difference between the two, and the error says
/// so. The values of a killed attempt are leaked until the test program ends.
///
/// # Errors
/// As [`Call::crash_everywhere`].
pub async fn crash_everywhere_with<W, P>(world: W) -> Result<(), TestError>
where
    W: Fn() -> P + Send + Sync,
    P: Fn() -> Call + Send + Sync + 'static,
{
    let make = |at_a_crash| {
        let process = world();
        let call = process();
        let make_server: MakeServer = Arc::new(move || process().server);
        Call { processes: Processes::Of { make_server, at_a_crash }, ..call }
    };
    compare(make, &[AtACrash::Killed, AtACrash::Dropped]).await
}

/// The end of the sentence about a crash after which only destructors make a difference.
const BY_A_DESTRUCTOR: &str = "; it is the same if the process is killed, so a destructor of the attempt removes \
    something that a later attempt needs";

async fn compare(make: impl Fn(AtACrash) -> Call, crashes: &[AtACrash]) -> Result<(), TestError> {
    let call = make(AtACrash::Dropped);
    let (order, end, answered) = (call.order, call.end, call.answers.keys().cloned().collect::<Vec<_>>());
    let expected = call.begin().await?.run_to_an_end().await?;
    if expected.has_timed_out {
        return Err(TestError::TimedOut { message: expected.text() });
    }
    expected.check_end(end)?;
    expected.check_asked(answered)?;
    let mut differences = within(&expected, order, "the run without a crash");
    let moments = expected.moments();
    let repeated = moments.iter().rev().filter(|moment| matches!(moment, Moment::AfterRecord(..))).take(1);
    for moment in moments.iter().chain(repeated.cycle().take(REPEATED)) {
        if differences.len() >= DIFFERENCES_MAX {
            break;
        }
        let mut is_killed_without = false;
        for at_a_crash in crashes.iter().copied().filter(|crash| moment.can_end_by(*crash)) {
            pause().await;
            let mut found = differences_at(moment, &expected, make(at_a_crash), order).await?;
            match at_a_crash {
                AtACrash::Killed => is_killed_without = found.is_empty(),
                AtACrash::Dropped if is_killed_without => {
                    found.iter_mut().for_each(|difference| difference.push_str(BY_A_DESTRUCTOR));
                }
                AtACrash::Dropped => {}
            }
            differences.extend(found);
        }
    }
    let mut seen = BTreeSet::new();
    differences.retain(|difference| seen.insert(difference.clone()));
    differences.truncate(DIFFERENCES_MAX);
    if differences.is_empty() { Ok(()) } else { Err(TestError::Differs { differences }) }
}

/// How the run differs in which the process ends at `moment`.
async fn differences_at(moment: &Moment, expected: &Run, call: Call, order: Order) -> Result<Vec<String>, TestError> {
    // After a crash in the work of a step that runs at most once, a tool may ask something else.
    let crashed = match call.crash(moment.clone()).begin().await {
        Ok(running) => running.run_to_an_end().await,
        Err(error) => Err(error),
    };
    let where_ = moment.to_string();
    match crashed {
        // Nothing says whether the work has run. Only the tool knows what follows.
        Ok(crashed) if expected.may_have_run(moment) => Ok(within(&crashed, order, &where_)),
        Ok(crashed) => Ok(between(expected, &crashed, order, &where_)),
        Err(TestError::NeverReached { steps, .. }) => {
            Ok(vec![format!("{where_}: the tool never came there; its steps were {steps:?}")])
        }
        Err(TestError::Unanswered { questions }) => {
            Ok(vec![format!("{where_}: the tool asked {questions:?}, which it did not ask without a crash")])
        }
        Err(error) => Err(error),
    }
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

/// The differences between two attempts of one run.
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

/// The recorded entries, by kind and name.
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

/// The first two steps that a tool began in one order in one attempt, and in the other order in another one. A tool
/// that had two steps under way at a time is not compared, because it does not decide which of its branches is first.
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

/// Whether two steps were under way at a time. A step that failed, or that polls, looks as if it still were.
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
