//! Answers of the client to what a task asked.

use std::collections::BTreeMap;

use longhaul_core::planted::{Fault, planted};
use longhaul_core::ports::ApplyError;
use longhaul_core::{Entry, EntryKind, PartsName, State, Task, TaskEvent, TaskKey, limits};

use crate::{AnswerError, Engine};

impl Engine {
    /// Takes the client's answers, JSON texts by key. Each goes into the journal first, where the first one wins;
    /// then the record changes, and where nothing is open any more the next leg is queued. Keys that are not open,
    /// and tasks that have ended, are passed over without an error (Tasks extension, "Task Update Requests").
    ///
    /// # Errors
    /// [`AnswerError`]; after an error the same answers may be sent again.
    pub async fn answer(&self, key: &TaskKey, answers: &BTreeMap<String, String>) -> Result<(), AnswerError> {
        let found = self.surely(|| self.store().get(key, self.now())).await.map_err(AnswerError::Unavailable)?;
        let task = found.ok_or(AnswerError::NotFound)?;
        let State::InputRequired { asks, .. } = &task.state else {
            self.recover(task).await;
            return Ok(());
        };
        let open: BTreeMap<&String, &String> =
            answers.iter().filter(|(key, _)| asks.iter().any(|ask| ask.key == **key)).collect();
        if open.is_empty() {
            return Ok(());
        }
        for (name, answer) in &open {
            if !planted(Fault::AnswerWithoutRecord) {
                self.record_answer(key, name, answer).await?;
            }
        }
        let event = TaskEvent::Answer { keys: open.into_keys().cloned().collect() };
        match self.apply_surely(key, &event).await {
            Ok(task) => self.resume(&task).await,
            // Another request was quicker, or this one's first try was written: either way the journal has an answer.
            Err(ApplyError::Refused { current, .. }) => self.resume(&current).await,
            Err(ApplyError::NotFound) => return Err(AnswerError::NotFound),
            Err(ApplyError::Store(error)) => return Err(AnswerError::Unavailable(error)),
        }
        Ok(())
    }

    async fn record_answer(&self, key: &TaskKey, name: &str, answer: &str) -> Result<(), AnswerError> {
        if answer.len() > limits::ENTRY_BYTES_MAX {
            let (bytes, bytes_max) = (answer.len(), limits::ENTRY_BYTES_MAX);
            return Err(AnswerError::TooLarge { key: name.to_owned(), bytes, bytes_max });
        }
        // Two clients may answer at once, and parts of a name are replaced: each writer has a name of its own.
        let parts = PartsName::Entry { attempt: 0, entry: format!("answer#{name}#{}", self.ports.ids.lease_token()) };
        let value = self.keep(key, parts, answer.to_owned(), limits::ENTRY_INLINE_BYTES_MAX).await;
        let value = value.map_err(AnswerError::Unavailable)?;
        let entry = Entry { kind: EntryKind::Answer, name: name.to_owned(), value };
        self.surely(|| self.store().record(key, &entry)).await.map_err(AnswerError::Unavailable)?;
        Ok(())
    }

    /// The answer is on record whether or not the message goes out: a poll sends a lost one again.
    async fn resume(&self, task: &Task) {
        if task.state == State::Queued && !planted(Fault::AnswerWithoutMessage) {
            let _logged = self.send(task, 0).await;
        }
    }
}
