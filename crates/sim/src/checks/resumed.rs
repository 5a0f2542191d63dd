//! Checkers of tasks that continue a failed one. They do not repeat what was recorded before the failure, and do again
//! what depends on it. The failed task stays as it is.

use longhaul_core::ports::{NewEntry, NewTask};
use longhaul_core::{Cleanup, Entry, EntryKind, State, Task, TaskKey};
use longhaul_engine::ResumeError;
use longhaul_testkit::models::{Promise, StoreModel};

use super::super::kernel::Actor;
use super::record::text_of;
use super::state::{Checks, Inherited, RecordedEntry, Resuming, StepRun, Trace};

impl Checks {
    /// The actor whose turn it is asks to resume `failed`.
    pub(crate) fn resumption_begins(&mut self, failed: &TaskKey, from: Option<&str>) {
        let actor = self.actor();
        self.resuming.push(Resuming { actor, failed: *failed, from: from.map(str::to_owned), seq: self.seq });
    }

    /// That request has ended.
    pub(crate) fn resumption_ends(&mut self) {
        let actor = self.actor();
        self.resuming.retain(|resuming| resuming.actor != actor);
    }

    /// An actor writes to a task, which is not the one that it resumes.
    pub(super) fn must_not_be_resuming(&mut self, actor: Actor, key: &TaskKey) {
        if self.resuming.iter().any(|resuming| resuming.actor == actor && resuming.failed == *key) {
            let what = format!("{} is changed by the request to resume it", self.name(key));
            self.fail(Promise::FailedTaskStays, what);
        }
    }

    /// A task was created, perhaps to continue a failed one.
    pub(super) fn check_resumed(&mut self, store: &StoreModel, task: &Task, new: &NewTask) {
        let Some(resumes) = &task.resumes else { return };
        let (actor, failed, name) = (self.actor(), TaskKey::new(task.owner, resumes.task), self.name(&task.key()));
        let request = self.resuming.iter().find(|resuming| resuming.actor == actor && resuming.failed == failed);
        let request = request.map(|request| (request.from.clone(), request.seq));
        let seq = self.seq;
        let failed =
            self.traces.iter().find(|trace| trace.key == failed).zip(request).filter(|(trace, _)| trace.has_failed());
        let Some((failed, (from, begun))) = failed else {
            let what = format!("{name} continues a task that is not failed, or that no client resumes");
            return self.fail(Promise::ResumesAtTheFailure, what);
        };
        let text = |entry: &Entry| text_of(store, &task.key(), &entry.value).unwrap_or_default();
        let taken_over = |new: &NewEntry| {
            let entry = RecordedEntry::of(&new.entry, seq, text(&new.entry));
            let is_same =
                |held: &&RecordedEntry| (held.kind, &held.name, &held.text) == (entry.kind, &entry.name, &entry.text);
            failed.entries.iter().find(is_same).cloned().unwrap_or(entry)
        };
        let entries = new.journal.iter().map(taken_over).collect();
        let (inherited, sleeps, runs) =
            (failed.inherited_from(from.as_deref(), begun), failed.sleeps.clone(), failed.runs.clone());
        if let Some(trace) = self.traces.last_mut() {
            (trace.inherited, trace.sleeps, trace.runs, trace.entries) = (inherited, sleeps, runs, entries);
        }
    }

    /// The work of a step runs.
    pub(super) fn must_not_be_inherited(&mut self, key: &TaskKey, step: &str) {
        let name = self.name(key);
        let is_inherited = self.trace(key).is_some_and(|trace| trace.inherited.kept.iter().any(|kept| kept == step));
        if is_inherited {
            let what = format!("step `{step}` of {name} runs again, which the failed task has recorded");
            self.fail(Promise::ResumesAtTheFailure, what);
        }
    }

    /// The tool was given the value of a step.
    pub(super) fn must_be_redone(&mut self, key: &TaskKey, step: &str, text: &str) {
        let name = self.name(key);
        let is_invalid = |(redone, value): &(String, String)| redone == step && value == text;
        if self.trace(key).is_some_and(|trace| trace.inherited.redone.iter().any(is_invalid)) {
            let what = format!("{name} has a value of step `{step}` that depends on the failure");
            self.fail(Promise::ResumesAtTheFailure, what);
        }
    }

    /// A client got the task that continues `failed`.
    pub(crate) fn observed_resumed(&mut self, failed: &TaskKey, new: &Task) {
        let continued = new.resumes.as_ref().map(|resumes| TaskKey::new(new.owner, resumes.task));
        let before = self.trace(failed).and_then(|trace| trace.latest().cloned());
        let is_same = before.is_some_and(|before| before.terms == new.terms && before.tool == new.tool);
        if continued != Some(*failed) || !is_same {
            let what = format!("{} does not continue {}", self.name(&new.key()), self.name(failed));
            self.fail(Promise::ResumesAtTheFailure, what);
        }
    }

    /// A client got the reply that its task is not resumed, for this reason.
    pub(crate) fn observed_not_resumed(&mut self, task: &Task, from: Option<&str>, error: &ResumeError) {
        let name = self.name(&task.key());
        let Some(trace) = self.trace(&task.key()) else { return };
        let has_step =
            |step: &str| trace.entries.iter().any(|held| (held.kind, &*held.name) == (EntryKind::Step, step));
        let is_right = match error {
            ResumeError::NotFailed(status) => *status == task.status() && !matches!(task.state, State::Failed { .. }),
            ResumeError::Undone => task.cleanup != Cleanup::None,
            ResumeError::NothingRecorded => trace.entries.is_empty(),
            ResumeError::NoSuchStep(step) => from == Some(step) && !has_step(step),
            _ => false,
        };
        if !is_right {
            self.fail(Promise::ResumesAtTheFailure, format!("{name} is not resumed: {error}"));
        }
    }
}

impl Trace {
    /// Whether the task has failed, and no cleanup has undone its steps.
    fn has_failed(&self) -> bool {
        self.cleanups == 0 && self.latest().is_some_and(|task| matches!(task.state, State::Failed { .. }))
    }

    pub(super) fn note_run(&mut self, step: &str, attempt: u32, seq: u64) {
        self.runs.push(StepRun { step: step.to_owned(), attempt, seq });
    }

    /// The work that a task which continues this one takes over, up to its first failed step, or up to the step `from`.
    /// An attempt that lost its task may record more of them after the request has `begun`.
    fn inherited_from(&self, from: Option<&str>, begun: u64) -> Inherited {
        let is_known = |entry: &&RecordedEntry| entry.kind == EntryKind::Step && entry.seq <= begun;
        let steps = || self.entries.iter().filter(is_known);
        let is_cut = |entry: &&RecordedEntry| match from {
            Some(from) => entry.name == from,
            None => entry.text.starts_with(r#"{"dev.longhaul/failed":"#),
        };
        let cut = steps().find(is_cut);
        let mut inherited = Inherited::default();
        for entry in steps() {
            let runs = self.runs.iter().filter(|run| run.step == entry.name);
            let began = runs.filter(|run| run.attempt == entry.attempt).map(|run| run.seq).max();
            let began_before = |seq: u64| began.is_none_or(|began| began < seq);
            // The clocks say what was first if one of two attempts had lost its task to the other.
            let is_unknown = |cut: &RecordedEntry| cut.attempt != entry.attempt && (cut.is_late || entry.is_late);
            let follows = |cut: &RecordedEntry| !began_before(cut.got_seq.unwrap_or(u64::MAX));
            match cut {
                Some(cut) if std::ptr::eq(cut, entry) || follows(cut) && !is_unknown(cut) => {
                    inherited.redone.push((entry.name.clone(), entry.text.clone()));
                }
                Some(cut) if !began_before(cut.seq) || is_unknown(cut) => {}
                Some(_) | None => inherited.kept.push(entry.name.clone()),
            }
        }
        inherited
    }
}
