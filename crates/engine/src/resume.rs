//! Resuming a failed task: a new task takes over a part of its journal, and does the rest again.
//!
//! The new task begins with the entries that the failed one had recorded before a step failed, or before the step that
//! the caller names. That is the journal of a task whose worker died at that point, so its tool replays it like any
//! other. The entries are written together with the record, all or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longhaul_core::audit::{Entry as AuditEntry, Event, Outcome};
use longhaul_core::ports::NewEntry;
use longhaul_core::{
    AttemptOutcome, Cleanup, Entry, EntryKind, PastAttempt, Payload, Recording, Resumed, Status, Task, TaskKey, limits,
    split, strict_json,
};

use crate::accept::Origin;
use crate::attempt::{SINCE, TIMEOUT, outcome};
use crate::child::Called;
use crate::signals::Token;
use crate::{AcceptError, Accepted, Call, ChildEnd, Engine, Idempotency, LoadError, PollError};

/// A request to resume a task.
#[derive(Clone, Debug, Default)]
pub struct Resumption {
    /// The step from which on the work is done again; `None` for the first one that failed.
    pub from: Option<String>,
    /// The caller's identity, for people to read.
    pub by: Option<String>,
    /// How a retry of the same request is recognised, if the caller sent a key.
    pub idempotency: Option<Idempotency>,
    /// Whether the tool has cleanup: [`Cleanup::ARMED`], or [`Cleanup::None`].
    pub cleanup: Cleanup,
}

/// Why a task was not resumed. Nothing is recorded then, except after an error of the store.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// It has another status.
    #[error("the task is `{}`; only a task that is `failed` can be resumed", .0.as_str())]
    NotFailed(Status),
    /// Its journal is empty.
    #[error("the task has recorded nothing that could be taken over; call its tool again")]
    NothingRecorded,
    /// Its journal does not have this step.
    #[error("the task has recorded no step `{0}`; its journal has the names of its steps")]
    NoSuchStep(String),
    /// Its cleanup has run or will run.
    #[error("the cleanup of the task undoes what its steps have done, so they are not taken over; call its tool again")]
    Undone,
    /// A step that runs at most once would run again.
    #[error("the step `{0}` runs at most once, and has begun; if its work may be done again, resume from this step")]
    MayHaveRun(String),
    /// The entries have too many bytes.
    #[error(
        "the steps before that have more than {} MiB; resume from an earlier step",
        limits::RESUMED_BYTES_MAX >> 20
    )]
    TooLarge,
    /// The journal could not be read.
    #[error(transparent)]
    NotRead(#[from] PollError),
    /// A recorded value could not be read.
    #[error(transparent)]
    NotLoaded(#[from] LoadError),
    /// The new task was not accepted.
    #[error(transparent)]
    NotAccepted(#[from] AcceptError),
}

impl Engine {
    /// Makes a new task that continues `failed`, which its owner has polled. It has the same owner, tool, request and
    /// terms. It begins with the entries that were recorded before the step of the request, or before the first step
    /// that failed. Their work is not done again. `failed` does not change.
    ///
    /// # Errors
    /// [`ResumeError`].
    pub async fn resume(&self, failed: &Task, resumption: Resumption) -> Result<Accepted, ResumeError> {
        let began_at = self.now();
        let resumed = self.resumed(failed, resumption).await;
        let entry = |outcome| AuditEntry::new(Event::Resume, outcome).task(&failed.key()).tool(&failed.tool);
        match &resumed {
            Ok(Accepted::New(task)) if task.created_at >= began_at => entry(Outcome::Done).task(&task.key()).log(),
            Ok(Accepted::New(task) | Accepted::Existing(task)) => entry(Outcome::Repeated).task(&task.key()).log(),
            Err(error) if error.is_of_the_store() => entry(Outcome::Unavailable).log(),
            Err(_refused) => entry(Outcome::Refused).because("not_resumable").log(),
        }
        resumed
    }

    async fn resumed(&self, failed: &Task, resumption: Resumption) -> Result<Accepted, ResumeError> {
        let Resumption { from, by, idempotency, cleanup } = resumption;
        if failed.status() != Status::Failed {
            return Err(ResumeError::NotFailed(failed.status()));
        }
        if failed.cleanup != Cleanup::None {
            return Err(ResumeError::Undone);
        }
        let key = failed.key();
        let journal = self.journal(&key).await?;
        if failed.attempt == 0 || journal.is_empty() {
            return Err(ResumeError::NothingRecorded);
        }
        let entries = self.taken_over(failed, journal, from.as_deref()).await?;
        let call = Call {
            owner: failed.owner,
            tool: failed.tool.clone(),
            request: self.load(&key, &failed.request).await?,
            terms: failed.terms,
            idempotency,
            trace: failed.trace,
            cleanup,
            not_before: None,
            flow: failed.flow.clone(),
            labels: failed.labels.clone(),
        };
        let origin = Origin {
            resumes: Some(Resumed { task: failed.id, by }),
            // The attempts that recorded the entries are before the first one of the new task, which reads them.
            attempt: failed.attempt,
            journal: entries,
            ..Origin::default()
        };
        let id = self.ports.ids.task_id(self.now());
        Ok(self.accept_from(origin, id, call).await?)
    }

    /// The entries before the step `from`, or before the first one that failed, with the parts of their values.
    async fn taken_over(
        &self,
        failed: &Task,
        journal: Vec<Entry>,
        from: Option<&str>,
    ) -> Result<Arc<[NewEntry]>, ResumeError> {
        let (key, past) = (&failed.key(), Past::of(&journal, &failed.attempts.past));
        let cut = match from {
            Some(from) => Some(past.begun(from).ok_or_else(|| ResumeError::NoSuchStep(from.to_owned()))?),
            None => self.first_failed(key, &past).await?,
        };
        let kept = past.before(cut);
        if let Some(step) = past.may_have_run(&kept).find(|step| Some(*step) != from) {
            return Err(ResumeError::MayHaveRun(step.to_owned()));
        }
        if kept.iter().map(|entry| entry.value.bytes()).sum::<u64>() > limits::RESUMED_BYTES_MAX {
            return Err(ResumeError::TooLarge);
        }
        let mut entries = Vec::new();
        for entry in kept {
            let parts = match &entry.value {
                Payload::Inline(_) => Vec::new(),
                value @ Payload::Parts { .. } => self.parts_of(key, value).await?,
            };
            entries.push(NewEntry { entry: entry.clone(), parts });
        }
        Ok(entries.into())
    }

    async fn parts_of(&self, key: &TaskKey, value: &Payload) -> Result<Vec<String>, LoadError> {
        let text = self.load(key, value).await?;
        Ok(split(&text, limits::PART_BYTES).into_iter().map(str::to_owned).collect())
    }

    /// The first step that has failed, or whose call of another tool has.
    async fn first_failed<'j>(&self, key: &TaskKey, past: &Past<'j>) -> Result<Option<&'j Entry>, LoadError> {
        for step in past.in_order() {
            let has_failed = match past.signal_of(step) {
                Some(signal) if past.calls.contains_key(&*step.name) => {
                    let end = self.load(key, &signal.value).await?;
                    !matches!(ChildEnd::read(&end), Ok(ChildEnd::Completed(_)))
                }
                Some(_) | None => outcome(self.load(key, &step.value).await?).is_err(),
            };
            if has_failed {
                return Ok(Some(step));
            }
        }
        Ok(None)
    }
}

impl ResumeError {
    fn is_of_the_store(&self) -> bool {
        match self {
            Self::NotRead(_) | Self::NotLoaded(_) | Self::NotAccepted(AcceptError::Unavailable(_)) => true,
            Self::NotFailed(_)
            | Self::NothingRecorded
            | Self::NoSuchStep(_)
            | Self::Undone
            | Self::MayHaveRun(_)
            | Self::TooLarge
            | Self::NotAccepted(_) => false,
        }
    }
}

/// The journal of a task that has ended.
struct Past<'j> {
    journal: &'j [Entry],
    attempts: &'j [PastAttempt],
    steps: BTreeMap<&'j str, &'j Entry>,
    signals: BTreeMap<&'j str, &'j Entry>,
    /// The signals for the ends of the tasks that the tool made by calling others, by the name of the step.
    calls: BTreeMap<&'j str, String>,
    /// The names of callbacks, which are those of their steps and signals.
    callbacks: BTreeSet<String>,
}

impl<'j> Past<'j> {
    fn of(journal: &'j [Entry], attempts: &'j [PastAttempt]) -> Self {
        let of_kind = |kind| journal.iter().filter(move |entry| entry.kind == kind);
        let by_name = |kind| of_kind(kind).map(|entry| (&*entry.name, entry)).collect::<BTreeMap<_, _>>();
        let (steps, signals) = (by_name(EntryKind::Step), by_name(EntryKind::Signal));
        let called = |entry: &'j Entry| Some((&*entry.name, read::<Called>(entry)?.child.to_string()));
        let calls = of_kind(EntryKind::Step).filter_map(called).collect();
        let callbacks = of_kind(EntryKind::Token).filter_map(|entry| Some(read::<Token>(entry)?.signal)).collect();
        Self { journal, attempts, steps, signals, calls, callbacks }
    }

    /// The recorded steps, in the order in which they were recorded.
    fn in_order(&self) -> Vec<&'j Entry> {
        let mut steps: Vec<_> = self.steps.values().copied().collect();
        steps.sort_by_key(|entry| {
            entry.recording.map(|made| (made.attempt, made.order.map(|[_began, recorded]| recorded), made.at))
        });
        steps
    }

    /// The step of this name, or the mark that its work has begun.
    fn begun(&self, step: &str) -> Option<&'j Entry> {
        let is_mark = |entry: &&Entry| entry.kind == EntryKind::Try && marked(entry) == Some(step);
        self.steps.get(step).copied().or_else(|| self.journal.iter().find(is_mark))
    }

    /// The signal for which a step waits: that of a callback, or of the end of a call.
    fn signal_of(&self, step: &Entry) -> Option<&'j Entry> {
        let signal = self.calls.get(&*step.name).map_or(&*step.name, String::as_str);
        self.signals.get(signal).copied()
    }

    fn waits_for_a_signal(&self, step: &Entry) -> bool {
        self.calls.contains_key(&*step.name) || self.callbacks.contains(&step.name)
    }

    /// The entries that do not depend on `cut`. A step that waits for a callback or a child is left out unless that has
    /// come: the new task has its own. Failed tries and the deadlines of work that is done again are left out, too.
    fn before(&self, cut: Option<&Entry>) -> Vec<&'j Entry> {
        let is_before = |entry: &Entry| cut.is_none_or(|cut| self.is_before(entry, cut));
        let is_signal_kept = |step: &Entry| self.signal_of(step).is_some();
        let steps: BTreeMap<&str, &Entry> = self
            .steps
            .iter()
            .filter(|(_name, step)| is_before(step) && (!self.waits_for_a_signal(step) || is_signal_kept(step)))
            .map(|(name, step)| (*name, *step))
            .collect();
        let awaited: BTreeSet<&str> =
            steps.values().filter_map(|step| self.signal_of(step)).map(|signal| &*signal.name).collect();
        let is_kept = |entry: &&Entry| match entry.kind {
            EntryKind::Step => steps.contains_key(&*entry.name),
            EntryKind::Signal => awaited.contains(&*entry.name) || !self.is_awaited(entry) && is_before(entry),
            EntryKind::Timer => {
                let timed = entry.name.strip_suffix(TIMEOUT).or_else(|| entry.name.strip_prefix(SINCE));
                is_before(entry) && timed.is_none_or(|step| steps.contains_key(step))
            }
            EntryKind::Try => marked(entry)
                .is_some_and(|step| steps.contains_key(step) || !self.steps.contains_key(step) && is_before(entry)),
            EntryKind::Answer | EntryKind::Round => is_before(entry),
            EntryKind::Token => false,
        };
        self.journal.iter().filter(is_kept).collect()
    }

    /// Whether an entry does not depend on `cut`: it, or the work of its step, began before that was recorded.
    fn is_before(&self, entry: &Entry, cut: &Entry) -> bool {
        if (entry.kind, &entry.name) == (cut.kind, &cut.name) {
            return false;
        }
        // Entries of older versions say nothing. Their work is rather not done again.
        let (Some(entry), Some(cut)) = (entry.recording, cut.recording) else { return true };
        let is_from_outside = |made: Recording| made.attempt == 0;
        if is_from_outside(entry) || is_from_outside(cut) {
            return entry.at <= cut.at;
        }
        if entry.attempt != cut.attempt {
            let earlier = if entry.attempt < cut.attempt { entry } else { cut };
            return match self.had_lost_its_task(earlier) {
                true => entry.at.minus_ms(entry.took_ms.unwrap_or(0)) <= cut.at,
                false => entry.attempt < cut.attempt,
            };
        }
        match (entry.order, cut.order) {
            (Some([began, _]), Some([_, recorded])) => began <= recorded,
            _ => entry.at <= cut.at,
        }
    }

    /// Whether the attempt that recorded this had lost its task to a later one, by its own clock.
    fn had_lost_its_task(&self, made: Recording) -> bool {
        let is_over = |past: &PastAttempt| past.end == AttemptOutcome::Died && past.to <= made.at;
        self.attempts.iter().any(|past| past.number == made.attempt && is_over(past))
    }

    /// Whether a signal is that of a callback or of a call.
    fn is_awaited(&self, signal: &Entry) -> bool {
        self.callbacks.contains(&signal.name) || self.calls.values().any(|child| *child == signal.name)
    }

    /// The steps that run at most once, have begun, and would run again if only these entries were taken over.
    fn may_have_run(&self, kept: &[&'j Entry]) -> impl Iterator<Item = &'j str> {
        let is_kept = |mark: &&Entry| kept.iter().any(|entry| entry.kind == EntryKind::Try && entry.name == mark.name);
        self.journal.iter().filter(move |mark| !is_kept(mark)).filter_map(marked)
    }
}

/// The step whose beginning this entry marks.
fn marked(entry: &Entry) -> Option<&str> {
    entry.name.strip_suffix("#0").filter(|_| entry.kind == EntryKind::Try)
}

/// The small value of an entry, if it is of this kind.
fn read<T: serde::de::DeserializeOwned>(entry: &Entry) -> Option<T> {
    match &entry.value {
        Payload::Inline(text) => strict_json::from_str(text).ok(),
        Payload::Parts { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::Timestamp;

    use super::*;

    /// A step that an attempt recorded at this time, and whose work took so long.
    fn step(name: &str, attempt: u32, at_ms: u64, took_ms: u64) -> Entry {
        let at = Timestamp::from_ms(at_ms);
        let recording = Some(Recording { at, took_ms: Some(took_ms), attempt, order: None });
        Entry { kind: EntryKind::Step, name: name.to_owned(), value: Payload::Inline("1".to_owned()), recording }
    }

    /// The entries before `cut`, of a task whose first attempt held it until 100.
    fn before(cut: &str, journal: &[Entry]) -> Vec<String> {
        let [from, to] = [0, 100].map(Timestamp::from_ms);
        let attempts = [PastAttempt { number: 1, from, to, end: AttemptOutcome::Died }];
        let past = Past::of(journal, &attempts);
        past.before(past.begun(cut)).iter().map(|entry| entry.name.clone()).collect()
    }

    #[test]
    fn work_that_began_before_an_attempt_without_its_task_recorded_the_failure_is_kept() {
        let journal = [step("failed", 1, 150, 10), step("under way", 2, 200, 80), step("after", 2, 210, 10)];
        assert_eq!(before("failed", &journal), ["under way"]);
    }

    #[test]
    fn work_that_an_attempt_without_its_task_began_after_the_failure_is_not_kept() {
        let journal = [step("early", 1, 90, 10), step("failed", 2, 150, 10), step("late", 1, 180, 10)];
        assert_eq!(before("failed", &journal), ["early"]);
    }
}
