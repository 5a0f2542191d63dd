//! Applying events: one conditional write each, and what a refusal means.

use longhaul_core::ports::{ApplyError, StoreError};
use longhaul_core::{Refusal, Task, TaskEvent, TaskKey, Timestamp};

use crate::change::Change;
use crate::error::{Unexpected, Written};
use crate::item::{Item, Unreadable};
use crate::record::{self, Stored};
use crate::store::DynamoStore;
use crate::{expressions, keys, lifetimes};

/// How often an event is written again because the task changed between the read and the write. Only events that depend
/// on the state that was read, or that happen at the same time as others, take more than one write.
const TRIES_MAX: usize = 8;

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
            Some(change) => self.write(key, event, change, now).await?,
            None => Outcome::Refused(self.stored(key).await?),
        };
        for _ in 0..TRIES_MAX {
            let seen = match outcome {
                Outcome::Applied(task) => return Ok(task),
                Outcome::Refused(None) => return Err(ApplyError::NotFound),
                Outcome::Refused(Some(seen)) => seen,
            };
            let next = match seen.task.apply(event, now) {
                Err(Refusal::Expired) => return Err(ApplyError::NotFound),
                _ if seen.damage.is_some() => {
                    return Err(ApplyError::Refused { current: Box::new(seen.task), why: Refusal::Ended });
                }
                Ok(next) => next,
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
            let change = expressions::after_seeing(&seen, event, &next, now);
            outcome = self.write(key, event, change, now).await?;
        }
        match outcome {
            Outcome::Applied(task) => Ok(task),
            Outcome::Refused(_) => Err(StoreError::from(Unexpected::Contended).into()),
        }
    }

    /// The task as it is stored, expired or not.
    pub(crate) async fn stored(&self, key: &TaskKey) -> Result<Option<Stored>, StoreError> {
        match self.table.get(&keys::task(key)).await? {
            Some(item) => Ok(Some(self.read(&item).await?)),
            None => Ok(None),
        }
    }

    /// The task of an item, or what stands for it. Each damaged one is named in the log and set aside once.
    pub(crate) async fn read(&self, item: &Item) -> Result<Stored, StoreError> {
        let stored = record::read(item)?;
        if let Some(damage) = &stored.damage
            && self.damaged.note(&stored.task.key(), stored.task.expires_at)
        {
            self.set_aside(&stored, *damage).await;
        }
        Ok(stored)
    }

    async fn set_aside(&self, stored: &Stored, damage: Unreadable) {
        let task_id = stored.task.id;
        tracing::error!(
            %task_id, error = &damage as &dyn std::error::Error,
            "the record of a task cannot be read: its owner sees the task as failed"
        );
        if let Err(error) = self.table.update(&keys::task(&stored.task.key()), expressions::set_aside()).await {
            tracing::warn!(%task_id, error = &error as &dyn std::error::Error, "a damaged task was not set aside");
        }
    }

    async fn write(
        &self,
        key: &TaskKey,
        event: &TaskEvent,
        change: Change,
        now: Timestamp,
    ) -> Result<Outcome, StoreError> {
        let item = match self.table.update(&keys::task(key), change).await? {
            Written::Done(item) => item,
            Written::Refused(Some(item)) => return Ok(Outcome::Refused(Some(self.read(&item).await?))),
            Written::Refused(None) => return Ok(Outcome::Refused(None)),
        };
        let stored = self.read(&item).await?;
        if stored.damage.is_some() {
            return Ok(Outcome::Refused(Some(stored)));
        }
        if event.ends_task() {
            self.count_end(&stored, now).await;
        }
        Ok(Outcome::Applied(stored.task))
    }
}
