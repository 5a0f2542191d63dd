//! The client's answers to a task's questions.

use std::collections::BTreeMap;

use longhaul_core::audit::{Entry, Event, Outcome};
use longhaul_core::ports::ApplyError;
use longhaul_core::{EntryKind, State, Task, TaskEvent, TaskKey, limits};

use crate::{AnswerError, Engine};

pub(crate) enum Taken {
    /// The answers to open questions are recorded.
    Recorded(Task),
    /// None of them is to an open question.
    Ignored(Task),
}

impl Engine {
    /// Takes the client's answers: JSON text by key. Each goes into the journal first, where the first one wins. Then
    /// the record changes. Once no question is open, the next attempt is queued. Keys that are not open, and tasks that
    /// have ended, are ignored without an error (Tasks extension, "Task Update Requests").
    ///
    /// A question that a tool asks next to other work counts as open while an attempt does that work. So the process
    /// that is second sees the other. An attempt that reads the journal later finds the answer there. An attempt that
    /// has read it before finds in the record that it need not suspend the task on that question.
    ///
    /// # Errors
    /// [`AnswerError`]. If an answer is too large, none of them is recorded. After another error the same answers may
    /// be sent again.
    pub async fn answer(&self, key: &TaskKey, answers: &BTreeMap<String, String>) -> Result<(), AnswerError> {
        let taken = self.take(key, answers).await;
        audit(key, &taken);
        taken.map(drop)
    }

    async fn take(&self, key: &TaskKey, answers: &BTreeMap<String, String>) -> Result<Taken, AnswerError> {
        let found = self
            .with_retry(|| self.store().get(key, self.now()))
            .await
            .map_err(self.unavailable(AnswerError::Unavailable))?;
        let task = found.ok_or(AnswerError::NotFound)?;
        let open: BTreeMap<&String, &String> =
            answers.iter().filter(|(key, _)| task.answerable().any(|ask| ask.key == **key)).collect();
        if open.is_empty() {
            return Ok(Taken::Ignored(self.recover(task).await));
        }
        if let Some((name, answer)) = open.iter().find(|(_, answer)| answer.len() > limits::ENTRY_BYTES_MAX) {
            return Err(AnswerError::TooLarge { key: (*name).clone(), bytes: answer.len() });
        }
        for (name, answer) in &open {
            self.record_from_outside(key, EntryKind::Answer, name, answer)
                .await
                .map_err(self.unavailable(AnswerError::Unavailable))?;
        }
        let event = TaskEvent::Answer { keys: open.into_keys().cloned().collect() };
        match self.apply_with_retry(key, &event).await {
            Ok(task) => Ok(self.start_answered(task).await),
            // Another request was faster, or this one's first try was written: either way the journal has an answer.
            Err(ApplyError::Refused { current, .. }) => Ok(self.start_answered(*current).await),
            Err(ApplyError::NotFound) => Err(AnswerError::NotFound),
            Err(ApplyError::Store(error)) => Err(self.unavailable(AnswerError::Unavailable)(error)),
        }
    }

    /// The answer is recorded even if the message could not be sent: a poll sends it again. A task that was queued
    /// before has its message.
    async fn start_answered(&self, task: Task) -> Taken {
        if task.state == State::Queued && task.asked.is_empty() {
            let _logged = self.send(&task, 0).await;
        }
        Taken::Recorded(task)
    }
}

/// Answers to a task's questions were taken, or were not.
fn audit(key: &TaskKey, taken: &Result<Taken, AnswerError>) {
    let entry = |outcome| Entry::new(Event::Answer, outcome).task(key);
    match taken {
        Ok(Taken::Recorded(task)) => entry(Outcome::Done).tool(&task.tool).log(),
        Ok(Taken::Ignored(task)) => entry(Outcome::Unchanged).tool(&task.tool).log(),
        Err(AnswerError::NotFound) => entry(Outcome::NotFound).log(),
        Err(AnswerError::TooLarge { .. }) => entry(Outcome::Refused).because("too_large").log(),
        Err(AnswerError::Unavailable(_)) => entry(Outcome::Unavailable).log(),
    }
}
