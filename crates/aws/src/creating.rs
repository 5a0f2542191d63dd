//! Creating tasks: one conditional put, or one transaction if there is an idempotency key or a slot to reserve.

use longhaul_core::ports::{CreateError, Created, NewTask, StoreError};
use longhaul_core::{OwnerId, Payload, TaskId, TaskKey, Timestamp};

use crate::attributes::{COUNTED, KEY, REQUEST, REVISION, TASK, TTL};
use crate::change::{Change, Condition};
use crate::error::{Unexpected, Written};
use crate::item::{Fields, Item, hash, number, seconds, text};
use crate::keys::ItemKey;
use crate::quota::Room;
use crate::record::Stored;
use crate::store::{DynamoStore, QuotaMode};
use crate::{expressions, keys, lifetimes, record};

/// How often a creation is written again after a conflict with something that may be replaced.
const TRIES_MAX: usize = 8;

/// What a creation writes.
struct Plan {
    task: Condition,
    /// For the idempotency key, if there is one.
    key: Option<Condition>,
    /// For a slot of the owner, if slots are counted.
    slot: Option<Change>,
}

/// Which member of the creation was refused, with the existing item.
enum Obstacle {
    Key(Option<Item>),
    Task(Option<Item>),
    Slot(Option<Item>),
}

/// What to do about an obstacle.
enum Next {
    Answer(Box<Created>),
    TryAgain,
}

impl DynamoStore {
    /// Writes a new task.
    pub(crate) async fn create_task(&self, new: &NewTask, now: Timestamp) -> Result<Created, CreateError> {
        self.extend_request_parts(new).await?;
        let is_counted = self.quota == QuotaMode::Counted && !new.task.has_ended();
        let mut plan = Plan {
            task: expressions::new_item(),
            key: new.idempotency.map(|_key| expressions::new_item()),
            slot: is_counted.then(|| expressions::reserve_slot(new.open_max, new.task.expires_at)),
        };
        for _ in 0..TRIES_MAX {
            let Some(obstacle) = self.write_new(new, &plan).await? else {
                return Ok(Created::New(new.task.clone()));
            };
            let next = match obstacle {
                Obstacle::Key(item) => self.key_is_taken(new, &mut plan, item, now).await?,
                Obstacle::Task(item) => self.id_is_taken(&mut plan, item, now).await?,
                Obstacle::Slot(item) => self.no_slot_is_free(new, &mut plan, item, now).await?,
            };
            match next {
                Next::Answer(created) => return Ok(*created),
                Next::TryAgain => {}
            }
        }
        Err(StoreError::from(Unexpected::Contended).into())
    }

    /// Writes everything in the plan, or nothing.
    async fn write_new(&self, new: &NewTask, plan: &Plan) -> Result<Option<Obstacle>, StoreError> {
        let owner = &new.task.owner;
        let task = keys::task(&new.task.key()).with(task_item(new, plan.slot.is_some()));
        if plan.key.is_none() && plan.slot.is_none() {
            return Ok(match self.table.put(task, plan.task.clone()).await? {
                Written::Done(()) => None,
                Written::Refused(item) => Some(Obstacle::Task(item)),
            });
        }
        // The first refusal counts: a retry has to be recognized even if no slot is free.
        let mut members = Vec::new();
        let mut obstacles: Vec<fn(Option<Item>) -> Obstacle> = Vec::new();
        if let (Some(condition), Some((key, item))) = (&plan.key, key_item(new)) {
            members.push(self.table.put_member(key.with(item), condition.clone())?);
            obstacles.push(Obstacle::Key);
        }
        members.push(self.table.put_member(task, plan.task.clone())?);
        obstacles.push(Obstacle::Task);
        if let Some(slot) = &plan.slot {
            members.push(self.table.update_member(&keys::quota(owner), slot.clone())?);
            obstacles.push(Obstacle::Slot);
        }
        match self.table.transact(members).await? {
            Ok(()) => Ok(None),
            Err((number, item)) => {
                let obstacle = obstacles.get(number).ok_or(Unexpected::Incomplete("TransactWriteItems"))?;
                Ok(Some(obstacle(item)))
            }
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
        let fields = Fields(&item);
        let id = fields.text(TASK).map_err(StoreError::from)?;
        let request = fields.hash(REQUEST).map_err(StoreError::from)?;
        let unexpired = self.find_unexpired(&new.task.owner, id, now).await?;
        match unexpired {
            Some(stored) if new.idempotency.is_some_and(|key| request == key.request) => {
                Ok(Next::Answer(Box::new(Created::Existing(stored.task))))
            }
            Some(_of_another_call) => Err(CreateError::KeyReused),
            None => {
                plan.key = Some(expressions::key_in_place_of(id));
                Ok(Next::TryAgain)
            }
        }
    }

    /// The id is taken: by an unexpired task, which this call creates a second time, or by an expired one.
    async fn id_is_taken(&self, plan: &mut Plan, item: Option<Item>, now: Timestamp) -> Result<Next, CreateError> {
        let Some(item) = item else { return Ok(Next::TryAgain) };
        let stored = record::read(&item)?;
        if !stored.task.has_expired(now) {
            return Ok(Next::Answer(Box::new(Created::Existing(stored.task))));
        }
        // The journal of the expired task must not be taken for work of the new one.
        self.delete_entries(&stored.task.key()).await?;
        plan.task = expressions::task_in_place_of(&stored);
        Ok(Next::TryAgain)
    }

    async fn no_slot_is_free(
        &self,
        new: &NewTask,
        plan: &mut Plan,
        item: Option<Item>,
        now: Timestamp,
    ) -> Result<Next, CreateError> {
        let Some(item) = item else { return Ok(Next::TryAgain) };
        match self.look_for_room(&new.task.owner, &item, new.open_max, now).await? {
            Room::None => return Err(CreateError::TooManyOpen { open_max: new.open_max }),
            Room::AfterCounting => {}
            Room::ExpiringFirst => {
                plan.slot = Some(expressions::reserve_slot_expiring_first(new.open_max, new.task.expires_at));
            }
        }
        Ok(Next::TryAgain)
    }

    async fn find_unexpired(&self, owner: &OwnerId, id: &str, now: Timestamp) -> Result<Option<Stored>, StoreError> {
        // A malformed id belongs to no task.
        let Ok(id) = id.parse::<TaskId>() else { return Ok(None) };
        Ok(self.stored(&TaskKey::new(*owner, id)).await?.filter(|stored| !stored.task.has_expired(now)))
    }

    /// Makes sure that the parts of the request are not deleted before the task: they were written before its expiry
    /// was known.
    async fn extend_request_parts(&self, new: &NewTask) -> Result<(), StoreError> {
        match &new.task.request {
            Payload::Parts { name, count, .. }
                if lifetimes::of(&new.task) > lifetimes::before_the_task(&new.task.id) =>
            {
                self.extend_parts(&new.task.key(), name, *count, lifetimes::of(&new.task)).await
            }
            Payload::Parts { .. } | Payload::Inline(_) => Ok(()),
        }
    }
}

fn task_item(new: &NewTask, is_counted: bool) -> Item {
    let mut item = record::attributes(&new.task);
    item.insert(REVISION.to_owned(), number(0));
    if is_counted {
        item.insert(COUNTED.to_owned(), number(1));
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
