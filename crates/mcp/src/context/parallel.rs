//! Branches that run concurrently, with a limit, and a rule for their end.

use std::collections::BTreeSet;
use std::future::Future;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::{TaskContext, read};

/// How many branches run at a time, and when the others no longer matter.
///
/// ```
/// use longhaul_mcp::Parallel;
///
/// let three_answers_are_enough = Parallel::at_least(3).limit(10);
/// let all_or_none = Parallel::until_first_error();
/// # let _ = (three_answers_are_enough, all_or_none);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallel {
    completion: Completion,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Completion {
    All,
    FirstError,
    AtLeast(usize),
}

/// Branches that run at a time, unless there is another limit. Each may have a connection to somewhere.
const LIMIT: usize = 32;

impl Parallel {
    /// Every branch runs to its end, even if others fail.
    #[must_use]
    pub const fn all() -> Self {
        Self { completion: Completion::All, limit: LIMIT }
    }

    /// Every branch runs to its end, until one fails: then no other one is begun or waited for.
    #[must_use]
    pub const fn until_first_error() -> Self {
        Self { completion: Completion::FirstError, limit: LIMIT }
    }

    /// Until so many branches have succeeded, or so many have failed that they cannot.
    #[must_use]
    pub const fn at_least(successes: usize) -> Self {
        Self { completion: Completion::AtLeast(successes), limit: LIMIT }
    }

    /// How many branches run at a time: 32 by default, and one at least.
    #[must_use]
    pub const fn limit(mut self, branches: usize) -> Self {
        self.limit = if branches == 0 { 1 } else { branches };
        self
    }
}

/// The outcomes of branches, in the order of the branches.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// use longhaul::Outcomes;
///
/// fn all(offers: Outcomes<u64, String>) -> Result<Vec<u64>, String> {
///     offers.into_result()
/// }
///
/// fn failures(offers: Outcomes<u64, String>) -> usize {
///     offers.errors().len()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcomes<T, E>(Vec<Option<Result<T, E>>>);

impl<T, E> Outcomes<T, E> {
    /// The outcome of each branch; `None` for one that was not waited for.
    #[must_use]
    pub fn each(self) -> Vec<Option<Result<T, E>>> {
        self.0
    }

    /// The values of those that succeeded.
    #[must_use]
    pub fn values(self) -> Vec<T> {
        self.0.into_iter().flatten().filter_map(Result::ok).collect()
    }

    /// The errors of those that failed.
    #[must_use]
    pub fn errors(self) -> Vec<E> {
        self.0.into_iter().flatten().filter_map(Result::err).collect()
    }

    /// The values, unless a branch has failed.
    ///
    /// # Errors
    /// The error of the first branch that failed, in the order of the branches.
    pub fn into_result(self) -> Result<Vec<T>, E> {
        self.0.into_iter().flatten().collect()
    }
}

impl TaskContext {
    /// Runs branches concurrently: steps, calls of other tools, or anything else that is made of them.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::{Parallel, TaskContext};
    /// # use rmcp::ErrorData;
    /// # async fn ask(_supplier: &str) -> Result<u64, ErrorData> { Ok(17) }
    /// async fn lowest(suppliers: &[String], task: TaskContext) -> Result<Option<u64>, ErrorData> {
    ///     let offers = suppliers.iter().map(|supplier| {
    ///         let task = task.clone();
    ///         async move { task.try_step(&format!("ask {supplier}"), || ask(supplier)).await }
    ///     });
    ///     let offers = task.parallel("offers", Parallel::at_least(3).limit(10), offers).await;
    ///     Ok(offers.values().into_iter().min())
    /// }
    /// ```
    ///
    /// Unless all branches have to end, those that count are recorded as a step of this name, which takes one more
    /// write. So every replay returns the same ones. The others are dropped at their next await point. A step among
    /// them may have been done. A tool that one of them called runs on, unless this task fails. In a plain call nothing
    /// is recorded.
    pub async fn parallel<T, E, B>(
        &self,
        name: &str,
        parallel: Parallel,
        branches: impl IntoIterator<Item = B>,
    ) -> Outcomes<T, E>
    where
        B: Future<Output = Result<T, E>>,
    {
        let branches: Vec<B> = branches.into_iter().collect();
        let (Completion::FirstError | Completion::AtLeast(_)) = parallel.completion else {
            return run(parallel, branches, None).await;
        };
        let attempt = &self.0.attempt;
        let recorded: Option<BTreeSet<usize>> = match attempt.peek_at_step(name).await {
            Some(text) => Some(read(attempt, name, &text).await),
            None => None,
        };
        let outcomes = run(parallel, branches, recorded).await;
        let counted = outcomes.0.iter().enumerate().filter(|(_, outcome)| outcome.is_some()).map(|(index, _)| index);
        let counted: BTreeSet<usize> = counted.collect();
        // An attempt that recorded it first decides.
        let counting = self.step(name, async move || counted).await;
        let count = |(index, outcome): (usize, Option<Result<T, E>>)| outcome.filter(|_| counting.contains(&index));
        Outcomes(outcomes.0.into_iter().enumerate().map(count).collect())
    }
}

/// Runs the branches until the rule says so, or those that count according to the record.
async fn run<T, E, B>(parallel: Parallel, branches: Vec<B>, counting: Option<BTreeSet<usize>>) -> Outcomes<T, E>
where
    B: Future<Output = Result<T, E>>,
{
    let total = branches.len();
    let mut outcomes: Vec<Option<Result<T, E>>> = (0..total).map(|_| None).collect();
    let counts = |index: &usize| counting.as_ref().is_none_or(|counting| counting.contains(index));
    let mut waiting = branches.into_iter().enumerate().filter(|(index, _)| counts(index)).map(numbered);
    let mut running: FuturesUnordered<_> = waiting.by_ref().take(parallel.limit).collect();
    let (mut succeeded, mut failed) = (0, 0);
    while let Some((index, outcome)) = running.next().await {
        if outcome.is_ok() {
            succeeded += 1
        } else {
            failed += 1
        }
        if let Some(place) = outcomes.get_mut(index) {
            *place = Some(outcome);
        }
        let is_over = match parallel.completion {
            Completion::All => false,
            Completion::FirstError => failed > 0,
            Completion::AtLeast(enough) => succeeded >= enough || total - failed < enough,
        };
        if is_over && counting.is_none() {
            break;
        }
        running.extend(waiting.next());
    }
    Outcomes(outcomes)
}

async fn numbered<B: Future>((index, branch): (usize, B)) -> (usize, B::Output) {
    (index, branch.await)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    async fn outcome(text: &str) -> Result<&str, &str> {
        if text.starts_with('!') { Err(text) } else { Ok(text) }
    }

    async fn each<'a>(parallel: Parallel, branches: &[&'a str]) -> Vec<Option<Result<&'a str, &'a str>>> {
        run(parallel, branches.iter().copied().map(outcome).collect(), None).await.each()
    }

    #[tokio::test]
    async fn the_rule_says_when_it_is_over() {
        let one_by_one = |parallel: Parallel| parallel.limit(1);
        let branches = ["a", "!b", "c", "d"];
        let all = each(one_by_one(Parallel::all()), &branches).await;
        assert_eq!(all, [Some(Ok("a")), Some(Err("!b")), Some(Ok("c")), Some(Ok("d"))]);
        let first = each(one_by_one(Parallel::until_first_error()), &branches).await;
        assert_eq!(first, [Some(Ok("a")), Some(Err("!b")), None, None]);
        assert_eq!(Outcomes(first).into_result(), Err("!b"));
        let two = each(one_by_one(Parallel::at_least(2)), &branches).await;
        assert_eq!(two, [Some(Ok("a")), Some(Err("!b")), Some(Ok("c")), None]);
        let never = each(one_by_one(Parallel::at_least(4)), &branches).await;
        assert_eq!(never, [Some(Ok("a")), Some(Err("!b")), None, None], "it can no longer be reached");
        assert!(each(Parallel::at_least(1), &[]).await.is_empty());
    }

    #[tokio::test]
    async fn no_more_branches_run_at_a_time_than_the_limit() {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let branch = |_number| async {
            most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            running.fetch_sub(1, Ordering::Relaxed);
            Ok::<(), ()>(())
        };
        let outcomes = run(Parallel::all().limit(3), (0..20).map(branch).collect(), None).await;
        assert_eq!((outcomes.values().len(), most.into_inner()), (20, 3));
    }

    #[tokio::test]
    async fn a_replay_waits_for_those_that_counted() {
        let branches = ["a", "b", "c"].map(outcome);
        let again = run(Parallel::at_least(1), branches.into(), Some([0, 2].into())).await;
        assert_eq!(again.each(), [Some(Ok("a")), None, Some(Ok("c"))]);
    }
}
