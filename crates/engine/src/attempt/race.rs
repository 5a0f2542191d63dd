//! Races of branches, and timeouts: the branch that came first is recorded, so that every attempt continues with it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures::future::Either;
use longhaul_core::{EntryKind, FailureKind, Timestamp, strict_json};
use serde::{Deserialize, Serialize};

use super::place::{SINCE, Shown};
use crate::suspension::Wait;
use crate::{Attempt, IsRecorded};

/// How the name of a timer ends that is the deadline of a timeout. The names of sleeps end with a number.
const TIMEOUT: &str = "#timeout";

/// The outcome of a race, as it is recorded.
#[derive(Serialize, Deserialize)]
struct Decided {
    /// The number of the branch that came first.
    won: usize,
    /// The entries to which the other branches had come. Later attempts do not run these branches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lost: Vec<(EntryKind, String)>,
}

struct Branch<B> {
    /// `None` after its end.
    future: Option<Pin<Box<B>>>,
    came_to: Vec<(EntryKind, String)>,
}

impl<B: Future> Branch<B> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<B::Output> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let polled = future.as_mut().poll(context);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl Attempt {
    /// Runs `branches` until the first one ends, records which one that was as step `name`, and drops the others. In
    /// every later attempt, only that branch runs. If several are ready at the same time, the first of them counts.
    pub async fn race<B: Future>(&self, name: &str, branches: impl IntoIterator<Item = B>) -> B::Output {
        let branches: Vec<B> = branches.into_iter().collect();
        self.name_race(name).await;
        if branches.is_empty() {
            let message = format!("the race `{name}` has no branches: give it at least one");
            return self.fail(FailureKind::Misuse, message).await;
        }
        self.first_of(name, branches).await
    }

    /// Runs `future`, for at most `ms` milliseconds after this was first called, in whichever attempt that was. `None`
    /// after that time. The deadline is recorded as a timer, and the outcome as step `name`, so that every later
    /// attempt has the same one. A future that is ready when the tool comes here counts, even after the deadline.
    pub async fn timeout<F: Future>(&self, name: &str, ms: u64, future: F) -> Option<F::Output> {
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
        self.first_of(name, vec![Either::Left(in_time), Either::Right(late)]).await
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
        let (timer, until) = (format!("{name}{TIMEOUT}"), self.now().plus_ms(ms));
        let is_recorded = self.lock_journal().contains_key(&(EntryKind::Timer, timer.clone()));
        if !is_recorded && !self.is_replay() {
            self.fits_until(&format!("the timeout `{name}`"), until).await;
        }
        // A question that is asked concurrently must not end the attempt before the deadline is recorded.
        let _recording = self.0.suspend.step_running();
        self.recorded_moment(&timer, until).await
    }

    /// Waits in this attempt. If the attempt ends because everything else waits, the next one begins at the deadline.
    async fn until_deadline(&self, deadline: Timestamp) {
        let left_ms = deadline.since_ms(self.now());
        if left_ms > 0 && !self.is_replay() {
            let _waiting = self.0.suspend.wait(Wait::ShortSleep(deadline));
            self.0.engine.ports.clock.sleep_ms(left_ms).await;
        }
    }

    async fn first_of<B: Future>(&self, name: &str, branches: Vec<B>) -> B::Output {
        let branch = |future| Branch { future: Some(Box::pin(future)), came_to: Vec::new() };
        let mut branches: Vec<Branch<B>> = branches.into_iter().map(branch).collect();
        if let Some(text) = self.peek_at_step(name).await {
            let decided = self.read_decided(name, &text, branches.len()).await;
            return self.run_again(name, decided, branches).await;
        }
        if self.is_replay() {
            return self.run_to_the_end(branches).await;
        }
        let began_at = self.now();
        let (won, output) = self.decide(&mut branches).await;
        // If another attempt has recorded another one, the next attempt continues with that.
        let recording = self.0.suspend.step_running();
        let losers = branches.iter().enumerate().filter(|(index, _)| *index != won);
        let lost = losers.flat_map(|(_, branch)| branch.came_to.iter().cloned()).collect();
        // Numbers and names can always be written as JSON.
        let text = serde_json::to_string(&Decided { won, lost }).unwrap_or_default();
        let text = self.record(EntryKind::Step, name, text, Some(self.now().since_ms(began_at))).await;
        let decided = self.read_decided(name, &text, branches.len()).await;
        if decided.won == won {
            return output;
        }
        drop(recording);
        self.0.suspend.yield_attempt();
        std::future::pending().await
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

    /// The branch that comes first. Every branch is polled at least once, so that those that lose come to the entries
    /// that earlier attempts have recorded for them.
    async fn decide<B: Future>(&self, branches: &mut [Branch<B>]) -> (usize, B::Output) {
        poll_fn(|context| {
            let mut first = None;
            for (index, branch) in branches.iter_mut().enumerate() {
                let from = self.place().path.len();
                let polled = branch.poll(context);
                branch.came_to.extend(self.place().path.iter().skip(from).cloned());
                if let (Poll::Ready(output), None) = (polled, &first) {
                    first = Some((index, output));
                }
            }
            first.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The output of the branch that came first, in a later attempt.
    async fn run_again<B: Future>(&self, name: &str, decided: Decided, mut branches: Vec<Branch<B>>) -> B::Output {
        self.came_to(name, IsRecorded::Yes);
        let Decided { won, lost } = decided;
        let output = if self.is_replay() {
            self.run_with_losers(won, &lost, self.recorded_at(name), branches).await
        } else {
            let mut winner = branches.swap_remove(won);
            drop(branches);
            let output = poll_fn(|context| winner.poll(context)).await;
            lost.iter().for_each(|(kind, entry)| self.note_lost(*kind, entry));
            output
        };
        self.recorded(EntryKind::Step, name).await;
        output
    }

    /// The output of the winner, in a replay that registers compensations: those of the losers count too. They see
    /// what they had come to when they lost.
    async fn run_with_losers<B: Future>(
        &self,
        won: usize,
        lost: &[(EntryKind, String)],
        until: Timestamp,
        mut branches: Vec<Branch<B>>,
    ) -> B::Output {
        let mut winner = branches.swap_remove(won);
        let mut output = None;
        poll_fn(|context| {
            let seen = self.place().shown.replace(Shown { entries: lost.iter().cloned().collect(), until });
            for loser in &mut branches {
                // Nothing waits for the output of a loser.
                drop(loser.poll(context));
            }
            self.place().shown = seen;
            if let (None, Poll::Ready(first)) = (&output, winner.poll(context)) {
                output = Some(first);
            }
            let place = self.place();
            let is_ahead = |entry: &(EntryKind, String)| entry.0 == EntryKind::Step && !place.visited.contains(entry);
            if lost.iter().any(is_ahead) {
                return Poll::Pending;
            }
            output.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Runs all branches of a race that was not decided, to the end of its journal.
    async fn run_to_the_end<B: Future>(&self, mut branches: Vec<Branch<B>>) -> B::Output {
        let all = poll_fn(|context| {
            for branch in &mut branches {
                drop(branch.poll(context));
            }
            Poll::<B::Output>::Pending
        });
        match futures::future::select(Box::pin(all), Box::pin(self.stay_at_the_end())).await {
            Either::Left((output, _)) | Either::Right((output, _)) => output,
        }
    }

    /// Notes an entry to which a branch had come that lost. Sleeps after the race must not take the numbers of its own.
    fn note_lost(&self, kind: EntryKind, name: &str) {
        self.place().visit(kind, name);
        self.0.named.lock().unwrap_or_else(PoisonError::into_inner).insert((kind, name.to_owned()));
        if kind == EntryKind::Step {
            self.came_to(name, IsRecorded::Yes);
        }
        if kind != EntryKind::Timer || name.starts_with(SINCE) {
            return;
        }
        let is_number = |text: &str| text.parse::<u32>().is_ok();
        match name.rsplit_once('#') {
            Some((sleep, count)) if is_number(count) => {
                let mut sleeps = self.0.sleeps.lock().unwrap_or_else(PoisonError::into_inner);
                let count = sleeps.entry(sleep.to_owned()).or_default();
                *count = count.saturating_add(1);
            }
            None if is_number(name) => {}
            Some(_) | None => return,
        }
        self.0.timers.fetch_add(1, Ordering::Relaxed);
    }

    /// When the race was decided.
    fn recorded_at(&self, name: &str) -> Timestamp {
        let journal = self.lock_journal();
        let at = journal.get(&(EntryKind::Step, name.to_owned())).and_then(|(_value, at)| *at);
        at.unwrap_or(Timestamp::from_ms(u64::MAX))
    }

    /// Waits while this entry is hidden from a branch that lost a race before it came to it.
    pub(super) async fn until_shown(&self, kind: EntryKind, name: &str) {
        let entry = (kind, name.to_owned());
        self.until_seen(|shown| shown.entries.contains(&entry)).await;
    }

    /// Waits in a branch that lost a race before this time.
    pub(super) async fn until_shown_moment(&self, moment: Timestamp) {
        self.until_seen(|shown| moment <= shown.until).await;
    }

    async fn until_seen(&self, sees: impl Fn(&Shown) -> bool) {
        poll_fn(|_context| {
            if self.place().shown.as_ref().is_none_or(&sees) {
                return Poll::Ready(());
            }
            self.0.compensations.lock().is_at_the_end = true;
            Poll::Pending
        })
        .await;
    }
}
