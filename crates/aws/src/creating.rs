//! Creating tasks: one conditional put, or one transaction if there is an idempotency key.

use longhaul_core::ports::{CreateError, Created, NewEntry, NewTask, StoreError};
use longhaul_core::{OwnerId, PartsName, Payload, TaskId, TaskKey, Timestamp};

use crate::attachments::{entry_item, part_item};
use crate::change::Condition;
use crate::error::{Unexpected, Written};
use crate::item::{COUNTED, Fields, Item, KEY, REQUEST, REVISION, TASK, TTL, hash, number, seconds, text};
use crate::keys::{self, ItemKey};
use crate::record::{self, Stored};
use crate::store::DynamoStore;
use crate::{expressions, lifetimes};

/// How often a creation is written again after a conflict with something that may be replaced.
const TRIES_MAX: usize = 8;

struct Plan {
    task: Condition,
    /// For the idempotency key, if there is one.
    key: Option<Condition>,
}

/// Which member of the creation was refused, with the existing item.
enum Obstacle {
    Key(Option<Item>),
    Task(Option<Item>),
}

enum Next {
    Answer(Box<Created>),
    TryAgain,
}

impl DynamoStore {
    /// Writes a new task, after the count of the owner's tasks. A process that dies between the two leaves a count that
    /// is too high. It is corrected before it refuses anything.
    pub(crate) async fn create_task(&self, new: &NewTask, now: Timestamp) -> Result<Created, CreateError> {
        let reserved = match self.reserve(new, now).await {
            Ok(reserved) => reserved,
            // A retry needs no room.
            Err(
                refusal @ (CreateError::TooManyOpen { .. }
                | CreateError::TooMuchStored { .. }
                | CreateError::TooManyNew { .. }),
            ) => {
                return self.earlier(new, now).await?.ok_or(refusal);
            }
            Err(error @ (CreateError::KeyReused | CreateError::Store(_))) => return Err(error),
        };
        let created = self.write_task(new, reserved.slots, now).await;
        match &created {
            Ok(Created::New(_) | Created::NewAndSent(_)) | Err(CreateError::Store(_)) => {}
            Ok(Created::Existing(_)) | Err(_) => self.release(&new.task.owner, &reserved).await,
        }
        created
    }

    /// The task that an earlier creation with the same key or id made.
    async fn earlier(&self, new: &NewTask, now: Timestamp) -> Result<Option<Created>, CreateError> {
        if let Some((key, _)) = key_item(new)
            && let Some(item) = self.table.get(&key).await?
            && let Some(created) = self.by_key(new, &item, now).await?
        {
            return Ok(Some(created));
        }
        let stored = self.stored(&new.task.key()).await?.filter(|stored| !stored.task.has_expired(now));
        Ok(stored.map(|stored| Created::Existing(stored.task)))
    }

    async fn write_task(&self, new: &NewTask, slots: u32, now: Timestamp) -> Result<Created, CreateError> {
        if new.request_parts.is_empty() && new.journal.is_empty() {
            return self.write_record(new, slots, now).await;
        }
        // A look before anything large is written: most calls that will be refused, or are retries, write nothing.
        if let Some(created) = self.earlier(new, now).await? {
            return Ok(created);
        }
        self.write_attachments(new).await?;
        let created = self.write_record(new, slots, now).await;
        let is_own = match &created {
            Ok(Created::New(_) | Created::NewAndSent(_)) => true,
            // They belong to the task that has this id. After a failure it is not known whether it was written.
            Ok(Created::Existing(task)) => task.id == new.task.id,
            Err(CreateError::Store(_)) => true,
            Err(
                CreateError::KeyReused
                | CreateError::TooManyOpen { .. }
                | CreateError::TooMuchStored { .. }
                | CreateError::TooManyNew { .. },
            ) => false,
        };
        if !is_own {
            self.discard_attachments(new).await;
        }
        created
    }

    /// Writes the parts of the request, and the journal. Nothing reads them before the record is written.
    async fn write_attachments(&self, new: &NewTask) -> Result<(), StoreError> {
        self.write_items(written_before(new).into_iter().map(|(key, item)| key.with(item))).await
    }

    /// Deletes the attachments of a task that was refused after they were written. If this fails, they are deleted when
    /// the task would have expired.
    async fn discard_attachments(&self, new: &NewTask) {
        let items: Vec<ItemKey> = written_before(new).into_iter().map(|(key, _item)| key).collect();
        if let Err(error) = self.delete_items(&items).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(task_id = %new.task.id, error, "the parts of a refused request were not deleted yet");
        }
    }

    async fn write_record(&self, new: &NewTask, slots: u32, now: Timestamp) -> Result<Created, CreateError> {
        let mut plan = Plan { task: expressions::new_item(), key: new.idempotency.map(|_key| expressions::new_item()) };
        for _ in 0..TRIES_MAX {
            let Some(obstacle) = self.write_new(new, slots, &plan).await? else {
                return Ok(Created::New(new.task.clone()));
            };
            let next = match obstacle {
                Obstacle::Key(item) => self.key_is_taken(new, &mut plan, item, now).await?,
                Obstacle::Task(item) => self.id_is_taken(new, &mut plan, item, now).await?,
            };
            match next {
                Next::Answer(created) => return Ok(*created),
                Next::TryAgain => {}
            }
        }
        Err(StoreError::from(Unexpected::Contended).into())
    }

    async fn write_new(&self, new: &NewTask, slots: u32, plan: &Plan) -> Result<Option<Obstacle>, StoreError> {
        let task = keys::task(&new.task.key()).with(task_item(new, slots));
        let (Some(condition), Some((key, item))) = (&plan.key, key_item(new)) else {
            return Ok(match self.table.put(task, plan.task.clone()).await? {
                Written::Done(()) => None,
                Written::Refused(item) => Some(Obstacle::Task(item)),
            });
        };
        let members = vec![
            self.table.put_member(key.with(item), condition.clone())?,
            self.table.put_member(task, plan.task.clone())?,
        ];
        match self.table.transact(members).await? {
            Ok(()) => Ok(None),
            // The first refusal counts: a retry is recognized by its key.
            Err((0, item)) => Ok(Some(Obstacle::Key(item))),
            Err((_, item)) => Ok(Some(Obstacle::Task(item))),
        }
    }

    /// The idempotency key belongs to a task. If that has expired, the key may be used again.
    async fn key_is_taken(
        &self,
        new: &NewTask,
        plan: &mut Plan,
        item: Option<Item>,
        now: Timestamp,
    ) -> Result<Next, CreateError> {
        // Deleted between the refusal and its answer.
        let Some(item) = item else { return Ok(Next::TryAgain) };
        match self.by_key(new, &item, now).await? {
            Some(created) => Ok(Next::Answer(Box::new(created))),
            None => {
                plan.key = Some(expressions::key_in_place_of(Fields(&item).text(TASK).map_err(StoreError::from)?));
                Ok(Next::TryAgain)
            }
        }
    }

    /// The answer to a creation whose idempotency key is taken; `None` if that belongs to an expired task.
    async fn by_key(&self, new: &NewTask, item: &Item, now: Timestamp) -> Result<Option<Created>, CreateError> {
        let fields = Fields(item);
        let id = fields.text(TASK).map_err(StoreError::from)?;
        let request = fields.hash(REQUEST).map_err(StoreError::from)?;
        match self.find_unexpired(&new.task.owner, id, now).await? {
            Some(stored) if new.idempotency.is_some_and(|key| request == key.request) => {
                Ok(Some(Created::Existing(stored.task)))
            }
            Some(_of_another_call) => Err(CreateError::KeyReused),
            None => Ok(None),
        }
    }

    /// The id is taken: by an unexpired task, which this call creates a second time, or by an expired one.
    async fn id_is_taken(
        &self,
        new: &NewTask,
        plan: &mut Plan,
        item: Option<Item>,
        now: Timestamp,
    ) -> Result<Next, CreateError> {
        let Some(item) = item else { return Ok(Next::TryAgain) };
        let stored = self.read(&item).await?;
        if !stored.task.has_expired(now) {
            return Ok(Next::Answer(Box::new(Created::Existing(stored.task))));
        }
        // The journal of the expired task must not be taken for work of the new one.
        self.delete_entries(&stored.task.key()).await?;
        if !new.journal.is_empty() {
            self.write_attachments(new).await?;
        }
        plan.task = expressions::task_in_place_of(&stored);
        Ok(Next::TryAgain)
    }

    async fn find_unexpired(&self, owner: &OwnerId, id: &str, now: Timestamp) -> Result<Option<Stored>, StoreError> {
        // A malformed id belongs to no task.
        let Ok(id) = id.parse::<TaskId>() else { return Ok(None) };
        Ok(self.stored(&TaskKey::new(*owner, id)).await?.filter(|stored| !stored.task.has_expired(now)))
    }
}

/// The parts of the request, and the journal.
fn written_before(new: &NewTask) -> Vec<(ItemKey, Item)> {
    let (key, ttl) = (new.task.key(), lifetimes::of(&new.task));
    let mut items = part_items(&key, &PartsName::Request, &new.request_parts, ttl);
    for NewEntry { entry, parts } in new.journal.iter() {
        if let Payload::Parts { name, .. } = &entry.value {
            items.extend(part_items(&key, name, parts, ttl));
        }
        items.push((keys::entry(&key, entry.kind, &entry.name), entry_item(entry, ttl)));
    }
    items
}

fn part_items(key: &TaskKey, name: &PartsName, parts: &[String], ttl: Timestamp) -> Vec<(ItemKey, Item)> {
    parts.iter().enumerate().map(|(number, part)| (keys::part(key, name, number), part_item(part, ttl))).collect()
}

fn task_item(new: &NewTask, slots: u32) -> Item {
    let mut item = record::attributes(&new.task);
    item.insert(REVISION.to_owned(), number(0));
    if slots > 0 {
        item.insert(COUNTED.to_owned(), number(slots));
    }
    item.extend(new.idempotency.map(|idempotency| (KEY.to_owned(), hash(idempotency.key))));
    item
}

/// The key is kept as long as its task may be; only the task itself shows whether it has expired.
fn key_item(new: &NewTask) -> Option<(ItemKey, Item)> {
    let idempotency = new.idempotency?;
    let attributes = Item::from([
        (TASK.to_owned(), text(new.task.id.to_string())),
        (REQUEST.to_owned(), hash(idempotency.request)),
        (TTL.to_owned(), seconds(lifetimes::of(&new.task))),
    ]);
    Some((keys::idempotency(&new.task.owner, &idempotency.key), attributes))
}
