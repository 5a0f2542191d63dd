//! Races of branches, and timeouts: the branch that came first is recorded, so that every attempt continues with it.
//!
//! In later attempts, the branches that lost replay what they had seen when they lost, and wait there. So names, sleeps
//! and compensations stay the same, and a future that was passed by reference continues from there.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::future::Either;
use longhaul_core::{EntryKind, FailureKind, Timestamp, strict_json};
use serde::{Deserialize, Serialize};

use super::journal::Began;
use super::place::{Branch, Key, SINCE, Shown};
use crate::suspension::Wait;
use crate::{Attempt, IsRecorded};

/// How the name of a timer ends that is the deadline of a timeout. The names of sleeps end with a number.
pub(crate) const TIMEOUT: &str = "#timeout";

/// The outcome of a race, as it is recorded. It fits into an entry: a journal has at most 4,096 names.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Decided {
    /// The number of the branch that came first.
    won: usize,
    /// The entries that the other branches had seen.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    lost: BTreeSet<Key>,
    /// The entries that they had begun and not seen. They may be recorded later.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    open: BTreeSet<Key>,
}

struct Runner<B: Future> {
    /// `None` after its end.
    future: Option<Pin<Box<B>>>,
    output: Option<B::Output>,
    branch: Branch,
}

impl<B: Future> Runner<B> {
    /// Whether a replay need not wait for it: it has ended, is held, or has no step ahead.
    fn has_settled(&self, is_ahead: bool) -> bool {
        self.future.is_none() || !self.branch.held.is_empty() || !is_ahead
    }
}

impl Attempt {
    /// Runs `branches` until the first one ends, records which one that was as step `name`, and drops the others. In
    /// every later attempt, that branch wins, and the others replay only the entries that they had seen by then. If
    /// several are ready at the same time, the first of them counts. No branch begins a step once another one is ready.
    pub fn race<'a, B: Future + 'a>(
        &'a self,
        name: &'a str,
        branches: impl IntoIterator<Item = B>,
    ) -> impl Future<Output = B::Output> {
        // Branches are boxed at once: races inside races would be too large for the stack.
        let branches: Vec<_> = branches.into_iter().map(Box::pin).collect();
        async move {
            self.name_race(name).await;
            if branches.is_empty() {
                let message = format!("the race `{name}` has no branches: give it at least one");
                return self.fail(FailureKind::Misuse, message).await;
            }
            self.first_of(name, branches).await
        }
    }

    /// Runs `future`, for at most `ms` milliseconds after this was first called, in whichever attempt that was. `None`
    /// after that time. The deadline is recorded as a timer, and the outcome as step `name`, so that every later
    /// attempt has the same one. A future that ends by a replay counts, even after the deadline. After the deadline, it
    /// begins no step.
    pub fn timeout<'a, F: Future + 'a>(
        &'a self,
        name: &'a str,
        ms: u64,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> {
        let future = Box::pin(future);
        async move {
            self.name_race(name).await;
            if name.starts_with(SINCE) {
                let message = format!("the name of a timeout cannot begin with `{SINCE}`: give `{name}` another one");
                return self.fail(FailureKind::Misuse, message).await;
            }
            let deadline = self.deadline_of(name, ms).await;
            let in_time = async { Some(future.await) };
            let late = async {
                self.until_deadline(deadline).await;
                None
            };
            let branches = [Either::Left(in_time), Either::Right(late)];
            self.first_of(name, branches.map(Box::pin).into()).await
        }
    }

    async fn name_race(&self, name: &str) {
        self.check_name(EntryKind::Step, name).await;
        if self.has_named(EntryKind::Step, name) {
            let message =
                format!("two of the tool's steps, races and timeouts have the name `{name}`; give each its own");
            return self.fail(FailureKind::Misuse, message).await;
        }
        self.name_once(EntryKind::Step, name).await;
    }

    async fn deadline_of(&self, name: &str, ms: u64) -> Timestamp {
        let timer = format!("{name}{TIMEOUT}");
        self.until_shown(EntryKind::Timer, &timer).await;
        let until = self.now().plus_ms(ms);
        let is_recorded = self.lock_journal().contains_key(&(EntryKind::Timer, timer.clone()));
        if !is_recorded && !self.is_replay() {
            self.fits_until(&format!("the timeout `{name}`"), until).await;
        }
        // A question that is asked concurrently must not end the attempt before the deadline is recorded.
        let _recording = self.step_running();
        self.recorded_moment(&timer, until).await
    }

    /// Waits in this attempt. If the attempt ends because everything else waits, the next one begins at the deadline.
    async fn until_deadline(&self, deadline: Timestamp) {
        self.until_shown_moment(deadline).await;
        let left_ms = deadline.since_ms(self.now());
        if left_ms > 0 && !self.is_replay() {
            let _waiting = self.0.suspend.wait(Wait::ShortSleep(deadline));
            self.0.engine.ports.clock.sleep_ms(left_ms).await;
        }
    }

    async fn first_of<B: Future>(&self, name: &str, branches: Vec<Pin<Box<B>>>) -> B::Output {
        let at = self.place().cursor().at;
        let runner =
            |(number, future)| Runner { future: Some(future), output: None, branch: Branch::of(name, number, at) };
        let mut runners: Vec<Runner<B>> = branches.into_iter().enumerate().map(runner).collect();
        self.place().begin(EntryKind::Step, name);
        self.run_hidden(name, &mut runners).await;
        if let Some(text) = self.peek_at_step(name).await {
            let decided = self.read_decided(name, &text, runners.len()).await;
            return self.run_again(name, decided, runners).await;
        }
        if self.is_replay() {
            return self.run_to_the_end(runners).await;
        }
        let began_at = self.now();
        let won = self.decide(&mut runners).await;
        let recording = self.step_running();
        let decided = decided(won, &runners);
        // Numbers and names can always be written as JSON.
        let text = serde_json::to_string(&decided).unwrap_or_default();
        let text = self.record(EntryKind::Step, name, text, Some(Began::depending_on_all(began_at))).await;
        if self.read_decided(name, &text, runners.len()).await != decided {
            // Another attempt has recorded another outcome, with which the next attempt continues.
            drop(recording);
            self.end(runners);
            self.0.suspend.yield_attempt();
            return std::future::pending().await;
        }
        self.output_of(won, runners).await
    }

    async fn read_decided(&self, name: &str, text: &str, branches: usize) -> Decided {
        let message = match strict_json::from_str::<Decided>(text) {
            Ok(decided) if decided.won < branches => return decided,
            Ok(decided) => {
                let number = decided.won.saturating_add(1);
                format!("branch {number} of the race `{name}` is recorded as the first, and the tool has {branches}")
            }
            Err(error) => format!("step `{name}` is recorded, and is not the race that the tool expects: {error}"),
        };
        self.fail(FailureKind::Corrupt, message).await
    }

    fn poll_branch<B: Future>(&self, runner: &mut Runner<B>, context: &mut Context<'_>) {
        let Some(future) = &mut runner.future else { return };
        self.place().enter(std::mem::take(&mut runner.branch));
        let polled = future.as_mut().poll(context);
        runner.branch = self.place().leave();
        if let Poll::Ready(output) = polled {
            runner.output = Some(output);
            runner.future = None;
        }
    }

    /// The number of the branch that comes first. All branches replay their entries first. They begin work only if none
    /// of them has ended by then.
    async fn decide<B: Future>(&self, runners: &mut [Runner<B>]) -> usize {
        poll_fn(|context| self.poll_race(runners, context)).await
    }

    fn poll_race<B: Future>(&self, runners: &mut [Runner<B>], context: &mut Context<'_>) -> Poll<usize> {
        for holds in [true, false] {
            self.poll_in_turn(runners, holds, context);
            if runners.iter().any(|runner| runner.branch.reading > 0) {
                return Poll::Pending;
            }
            if let Some(won) = runners.iter().position(|runner| runner.output.is_some()) {
                return Poll::Ready(won);
            }
            if !release(runners) {
                return Poll::Pending;
            }
        }
        Poll::Pending
    }

    fn poll_in_turn<B: Future>(&self, runners: &mut [Runner<B>], holds: bool, context: &mut Context<'_>) {
        for runner in runners {
            runner.branch.holds = holds;
            self.poll_branch(runner, context);
            if !holds && runner.output.is_some() {
                return;
            }
        }
    }

    /// The output of the branch that came first, in a later attempt.
    async fn run_again<B: Future>(&self, name: &str, decided: Decided, mut runners: Vec<Runner<B>>) -> B::Output {
        let Decided { won, lost, open } = decided;
        let shown = Arc::new(Shown { entries: lost, until: self.recorded_at(name) });
        for (number, runner) in runners.iter_mut().enumerate() {
            runner.branch.holds = number != won;
            runner.branch.shown = runner.branch.holds.then(|| Arc::clone(&shown));
        }
        poll_fn(|context| {
            runners.iter_mut().for_each(|runner| self.poll_branch(runner, context));
            let has_won = runners.get(won).is_some_and(|runner| runner.output.is_some());
            if !has_won || runners.iter().any(|runner| runner.branch.reading > 0) {
                return Poll::Pending;
            }
            let is_ahead = self.is_replay() && self.is_step_ahead(&shown.entries);
            let have_settled = runners.iter().all(|runner| runner.has_settled(is_ahead));
            if have_settled { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        for (kind, entry) in shown.entries.iter().chain(&open) {
            self.place().visited.insert((*kind, entry.clone()));
            if *kind == EntryKind::Step {
                self.0.compensations.came_to(entry);
            }
        }
        self.came_to(name, IsRecorded::Yes);
        self.recorded(EntryKind::Step, name).await;
        self.output_of(won, runners).await
    }

    /// The output of this branch. Drops the others, and withdraws their waits with them.
    async fn output_of<B: Future>(&self, won: usize, mut runners: Vec<Runner<B>>) -> B::Output {
        release(&mut runners);
        let winner = runners.get_mut(won).and_then(|runner| Some((runner.output.take()?, runner.branch.cursor.at)));
        self.end(runners);
        let Some((output, at)) = winner else {
            // The callers have polled it to its end.
            return std::future::pending().await;
        };
        let mut place = self.place();
        let cursor = place.cursor();
        cursor.at = cursor.at.max(at);
        output
    }

    /// Drops these branches. If one was passed by reference, a step of it delays the end of the attempt only once it is
    /// polled again.
    fn end<B: Future>(&self, runners: Vec<Runner<B>>) {
        let scopes: Vec<String> = runners.iter().map(|runner| runner.branch.scope.clone()).collect();
        drop(runners);
        self.0.suspend.leave_out(&scopes);
    }

    /// Runs the branches of a race inside a branch of another one that lost before it saw the outcome of this one. A
    /// future that was passed by reference may see it later.
    async fn run_hidden<B: Future>(&self, name: &str, runners: &mut [Runner<B>]) {
        poll_fn(|context| {
            if self.is_shown(EntryKind::Step, name, context) {
                return Poll::Ready(());
            }
            runners.iter_mut().for_each(|runner| self.poll_branch(runner, context));
            Poll::Pending
        })
        .await;
    }

    /// Runs all branches of a race that was not decided, to the end of its journal.
    async fn run_to_the_end<B: Future>(&self, mut runners: Vec<Runner<B>>) -> B::Output {
        let all = poll_fn(|context| {
            runners.iter_mut().for_each(|runner| self.poll_branch(runner, context));
            Poll::<B::Output>::Pending
        });
        match futures::future::select(Box::pin(all), Box::pin(self.stay_at_the_end())).await {
            Either::Left((output, _)) | Either::Right((output, _)) => output,
        }
    }

    /// Whether the tool has not come to one of these steps yet.
    fn is_step_ahead(&self, entries: &BTreeSet<Key>) -> bool {
        let place = self.place();
        entries.iter().any(|entry| entry.0 == EntryKind::Step && !place.visited.contains(entry))
    }

    /// When the race was decided.
    fn recorded_at(&self, name: &str) -> Timestamp {
        let journal = self.lock_journal();
        let at = journal.get(&(EntryKind::Step, name.to_owned())).and_then(|(_value, at)| *at);
        at.unwrap_or(Timestamp::from_ms(u64::MAX))
    }

    /// Waits while this branch may begin no work.
    pub(super) async fn until_released(&self) {
        self.until(|attempt| !attempt.place().holds()).await;
    }

    /// Waits while this entry is hidden from a branch that lost a race before it saw it.
    pub(super) async fn until_shown(&self, kind: EntryKind, name: &str) {
        self.place().begin(kind, name);
        poll_fn(|context| if self.is_shown(kind, name, context) { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Waits in a branch that lost a race before this time.
    pub(super) async fn until_shown_moment(&self, moment: Timestamp) {
        self.until(|attempt| attempt.shows_moment(moment)).await;
    }

    /// Whether a branch has not lost a race before this time.
    pub(super) fn shows_moment(&self, moment: Timestamp) -> bool {
        self.place().shown().is_none_or(|shown| moment <= shown.until)
    }

    fn is_shown(&self, kind: EntryKind, name: &str, context: &Context<'_>) -> bool {
        let mut place = self.place();
        let is_shown = place.shows(kind, name);
        if !is_shown {
            place.hold(context.waker());
        }
        is_shown
    }

    async fn until(&self, may_continue: impl Fn(&Self) -> bool + Send + Sync) {
        poll_fn(|context| {
            if may_continue(self) {
                return Poll::Ready(());
            }
            self.place().hold(context.waker());
            Poll::Pending
        })
        .await;
    }
}

fn decided<B: Future>(won: usize, runners: &[Runner<B>]) -> Decided {
    let losers = || runners.iter().enumerate().filter(|(number, _)| *number != won).map(|(_, runner)| &runner.branch);
    let lost: BTreeSet<Key> = losers().flat_map(|branch| branch.seen.iter().cloned()).collect();
    let open = losers().flat_map(|branch| branch.begun.iter()).filter(|key| !lost.contains(*key)).cloned().collect();
    Decided { won, lost, open }
}

/// Wakes what waits in these branches. False if nothing does.
fn release<B: Future>(runners: &mut [Runner<B>]) -> bool {
    let held: Vec<Waker> = runners.iter_mut().flat_map(|runner| std::mem::take(&mut runner.branch.held)).collect();
    let any = !held.is_empty();
    held.into_iter().for_each(Waker::wake);
    any
}
