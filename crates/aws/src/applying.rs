//! Applying events: one conditional write each, and what a refusal means.

use longhaul_core::ports::{ApplyError, StoreError};
use longhaul_core::{Refusal, Task, TaskEvent, TaskKey, Timestamp};

use crate::change::Change;
use crate::error::{Unexpected, Written};
use crate::item::Item;
use crate::record::Stored;
use crate::store::{DynamoStore, QuotaMode};
use crate::{expressions, keys, lifetimes, record};

/// How often an event is written again because the task changed between the read and the write. Only events that depend
/// on what was read, or that happen at the same time as others, take more than one write.
const TRIES_MAX: usize = 8;

/// The outcome of a write.
enum Outcome {
    Applied(Task),
    /// The task as it was, if there was one.
    Refused(Option<Stored>),
}

impl DynamoStore {
    /// Does what [`Task::apply`] does.
    pub(crate) async fn apply_event(
        &self,
        key: &TaskKey,
        event: &TaskEvent,
        now: Timestamp,
    ) -> Result<Task, ApplyError> {
        let mut outcome = match expressions::at_once(event, now) {
            Some(change) => self.write(key, event, change, self.quota).await?,
            None => Outcome::Refused(self.stored(key).await?),
        };
        for _ in 0..TRIES_MAX {
            let seen = match outcome {
                Outcome::Applied(task) => return Ok(task),
                Outcome::Refused(None) => return Err(ApplyError::NotFound),
                Outcome::Refused(Some(seen)) => seen,
            };
            let next = match seen.task.apply(event, now) {
                Ok(next) => next,
                Err(Refusal::Expired) => return Err(ApplyError::NotFound),
                Err(why) => return Err(ApplyError::Refused { current: Box::new(seen.task), why }),
            };
            if next == seen.task {
                return Ok(next);
            }
            if lifetimes::of(&next) > lifetimes::of(&seen.task) {
                // The attachments first, so that the task never outlives them.
                self.extend_retention(&next).await?;
                self.extend_key(&seen, &next).await?;
            }
            // The task accepts the event: a condition could not express that, or the task has just changed.
            let quota = if seen.is_counted { self.quota } else { QuotaMode::Off };
            let change = expressions::after_seeing(&seen, event, &next, now);
            outcome = self.write(key, event, change, quota).await?;
        }
        match outcome {
            Outcome::Applied(task) => Ok(task),
            Outcome::Refused(_) => Err(StoreError::from(Unexpected::Contended).into()),
        }
    }

    /// The task as it is stored, expired or not.
    pub(crate) async fn stored(&self, key: &TaskKey) -> Result<Option<Stored>, StoreError> {
        self.table.get(&keys::task(key)).await?.as_ref().map(record::read).transpose()
    }

    async fn write(
        &self,
        key: &TaskKey,
        event: &TaskEvent,
        change: Change,
        quota: QuotaMode,
    ) -> Result<Outcome, StoreError> {
        match quota {
            QuotaMode::Counted if event.ends_task() => self.write_end(key, change).await,
            QuotaMode::Counted | QuotaMode::Off => outcome_of(self.table.update(&keys::task(key), change).await?),
        }
    }

    /// An end that releases the task's slot in the same transaction. The answer of a transaction has no items, so
    /// the task is read afterwards: nothing changes it any more.
    async fn write_end(&self, key: &TaskKey, end: Change) -> Result<Outcome, StoreError> {
        let task = keys::task(key);
        let members = vec![
            self.table.update_member(&task, expressions::uncounted(end.clone()))?,
            self.table.update_member(&keys::quota(&key.owner), expressions::release_slot())?,
        ];
        match self.table.transact(members).await? {
            Ok(()) => {
                let ended = self.stored(key).await?.ok_or(Unexpected::Incomplete("TransactWriteItems"))?;
                Ok(Outcome::Applied(ended.task))
            }
            Err((0, item)) => refused(item),
            // The count is lower than the number of tasks: it repairs itself when it next refuses a task.
            Err(_) => outcome_of(self.table.update(&task, expressions::uncounted(end)).await?),
        }
    }
}

fn outcome_of(written: Written<Item>) -> Result<Outcome, StoreError> {
    match written {
        Written::Done(item) => Ok(Outcome::Applied(record::read(&item)?.task)),
        Written::Refused(item) => refused(item),
    }
}

fn refused(item: Option<Item>) -> Result<Outcome, StoreError> {
    Ok(Outcome::Refused(item.as_ref().map(record::read).transpose()?))
}
