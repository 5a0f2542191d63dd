//! The limit of unfinished tasks per owner: one count, which creations raise before they write their task, and ends
//! lower after they have written theirs. An end never depends on the count.
//!
//! The count may be wrong: a process died between two writes, a write whose answer was lost was sent again, or a task
//! expired without an end. So before an owner is refused, its tasks are counted one by one, at most once a minute, and
//! the count is corrected.
//!
//! Under a limit of [`SAMPLED_FROM`] or more, one task in [`SAMPLE`] is counted, as that many: a life costs half a write
//! unit on average, and the count is right to a few in a hundred. All other creations read it.

use futures::future::try_join_all;
use longhaul_core::ports::{NewTask, StoreError};
use longhaul_core::{OwnerId, TaskId, Timestamp};

use crate::attributes::{EXPIRES_AT, OPEN, PK, RECOUNT_AFTER};
use crate::change::Change;
use crate::error::{Unexpected, Written};
use crate::item::{Fields, Item, text};
use crate::keys::SHARDS;
use crate::store::{DynamoStore, QuotaMode};
use crate::{expressions, keys};

/// The smallest limit under which a sample is counted. Under a smaller one the sample would say too little.
const SAMPLED_FROM: u32 = 2_000;

/// One task in so many is counted.
const SAMPLE: u8 = 4;

/// How long a count is believed: an owner at the limit does not have all its tasks read by each refusal.
const COUNT_AGAIN_MS: u64 = 60_000;

/// How often a reservation is tried: each further try is because of another instance that just changed the count.
const TRIES_MAX: usize = 8;

/// Pages of 1 MB that a count reads per shard before it gives up.
const PAGES_MAX: usize = 64;

/// Whether the owner may have one more task.
pub(crate) enum Slot {
    /// It may, and the task is counted as so many.
    Reserved(u32),
    /// It may not.
    None,
}

/// Whether there is room for one more task, after a look at the count.
enum Room {
    /// There is not.
    None,
    /// The count was corrected: the next try decides.
    AfterCounting,
    /// There is, but the new task expires before all others, so the next count has to be earlier.
    ExpiringFirst,
}

/// What a count found.
struct Counted {
    open: u32,
    /// The earliest expiry among them.
    next_expiry: Option<Timestamp>,
}

impl DynamoStore {
    /// Reserves a slot for a new task, if there is one.
    pub(crate) async fn reserve_slot(&self, new: &NewTask, now: Timestamp) -> Result<Slot, StoreError> {
        if self.quota == QuotaMode::Off || new.task.has_ended() {
            return Ok(Slot::Reserved(0));
        }
        let slots = slots(&new.task.id, new.open_max);
        let expires_at = new.task.expires_at;
        let mut change = expressions::reserve_slot(new.open_max, slots, expires_at, now.plus_ms(COUNT_AGAIN_MS));
        for _ in 0..TRIES_MAX {
            let Some(quota) = self.refusing_quota(new, slots, change.clone()).await? else {
                return Ok(Slot::Reserved(slots));
            };
            match self.look_for_room(&new.task.owner, &quota, new.open_max, now).await? {
                Room::None => return Ok(Slot::None),
                Room::AfterCounting => {}
                Room::ExpiringFirst => {
                    change = expressions::reserve_slot_expiring_first(new.open_max, slots, expires_at);
                }
            }
        }
        Err(Unexpected::Contended.into())
    }

    /// The count that stands in the way of a new task; `None` if there is room. A task in the sample is counted by this.
    async fn refusing_quota(&self, new: &NewTask, slots: u32, change: Change) -> Result<Option<Item>, StoreError> {
        let key = keys::quota(&new.task.owner);
        if slots > 0 {
            return Ok(match self.table.update(&key, change).await? {
                Written::Done(_) => None,
                Written::Refused(Some(quota)) => Some(quota),
                Written::Refused(None) => return Err(Unexpected::Incomplete("UpdateItem").into()),
            });
        }
        let Some(quota) = self.table.get(&key).await? else { return Ok(None) };
        let is_full = Fields(&quota).number::<i64>(OPEN)? >= i64::from(new.open_max);
        Ok(is_full.then_some(quota))
    }

    /// Releases the slots of a task that has ended, or that was not created after all. If this fails, the count is too
    /// high until it is corrected, which is no reason to fail what has been done.
    pub(crate) async fn release_slot(&self, owner: &OwnerId, slots: u32) {
        if slots == 0 || self.quota == QuotaMode::Off {
            return;
        }
        let released = self.table.update(&keys::quota(owner), expressions::release_slot(slots)).await;
        if let Err(error) = released {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the owner's count of unfinished tasks was not lowered; it will be corrected later");
        }
    }

    /// What to do when the count refused a task. The tasks are counted one by one only if one of them may have expired
    /// since the last time, or that was long ago.
    async fn look_for_room(
        &self,
        owner: &OwnerId,
        quota: &Item,
        open_max: u32,
        now: Timestamp,
    ) -> Result<Room, StoreError> {
        let fields = Fields(quota);
        let open = fields.optional(OPEN, Fields::number::<i64>)?.unwrap_or(0);
        if open < i64::from(open_max) {
            return Ok(Room::ExpiringFirst);
        }
        let due = fields.optional(RECOUNT_AFTER, Fields::moment)?;
        if due.is_some_and(|due| now < due) {
            return Ok(Room::None);
        }
        let begun = expressions::begin_to_count(due, now.plus_ms(COUNT_AGAIN_MS));
        match self.table.update(&keys::quota(owner), begun).await? {
            Written::Done(_) => {}
            Written::Refused(_) => return Ok(Room::AfterCounting),
        }
        let Some(counted) = self.count(owner, now).await? else {
            tracing::warn!("an owner at the limit of unfinished tasks has too many tasks to count them");
            return Ok(Room::None);
        };
        let next = counted.next_expiry.map_or(now.plus_ms(COUNT_AGAIN_MS), |at| at.min(now.plus_ms(COUNT_AGAIN_MS)));
        let by = i64::from(counted.open).saturating_sub(open);
        self.table.update(&keys::quota(owner), expressions::correct_count(by, next)).await?;
        Ok(if counted.open >= open_max { Room::None } else { Room::AfterCounting })
    }

    /// Counts the owner's unfinished tasks one by one; `None` if there are too many items to read.
    async fn count(&self, owner: &OwnerId, now: Timestamp) -> Result<Option<Counted>, StoreError> {
        let shards = try_join_all((0..SHARDS).map(|shard| self.count_shard(owner, shard, now))).await?;
        let Some(shards) = shards.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        Ok(Some(Counted {
            open: shards.iter().fold(0, |open, shard| shard.open.saturating_add(open)),
            next_expiry: shards.iter().filter_map(|shard| shard.next_expiry).min(),
        }))
    }

    async fn count_shard(&self, owner: &OwnerId, shard: u8, now: Timestamp) -> Result<Option<Counted>, StoreError> {
        let mut counted = Counted { open: 0, next_expiry: None };
        let mut from = None;
        let filter = expressions::open_unexpired(now);
        for _ in 0..PAGES_MAX {
            let query = self
                .table
                .query()
                .key_condition_expression("#pk = :pk")
                .filter_expression(&filter.condition)
                .projection_expression("#expires_at")
                .set_expression_attribute_names(Some(filter.names.clone()))
                .set_expression_attribute_values(filter.values())
                .expression_attribute_names("#pk", PK)
                .expression_attribute_values(":pk", text(keys::shard(owner, shard)))
                .set_exclusive_start_key(from);
            let page = self.table.page(query).await?;
            for item in &page.items {
                let expires_at = Fields(item).moment(EXPIRES_AT)?;
                counted.open = counted.open.saturating_add(1);
                counted.next_expiry = Some(counted.next_expiry.map_or(expires_at, |first| first.min(expires_at)));
            }
            from = page.rest;
            if from.is_none() {
                return Ok(Some(counted));
            }
        }
        Ok(None)
    }
}

/// As how many a task is counted; 0 if it is not in the sample. By its random bits, other ones than those that choose
/// its shard.
fn slots(id: &TaskId, open_max: u32) -> u32 {
    if open_max < SAMPLED_FROM {
        return 1;
    }
    let [.., random, _shard] = *id.as_bytes();
    if random % SAMPLE == 0 { u32::from(SAMPLE) } else { 0 }
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::{SeededIds, given};

    use super::*;

    #[test]
    fn under_a_high_limit_a_quarter_of_the_tasks_counts_for_all() {
        let ids = SeededIds::new(1);
        let ids: Vec<TaskId> = (0..10_000).map(|_| given::task(&ids, given::owner("alice"), given::NOW).id).collect();
        let counted = |open_max| ids.iter().map(|id| slots(id, open_max)).sum::<u32>();
        assert_eq!(counted(SAMPLED_FROM - 1), 10_000);
        assert!((9_500..10_500).contains(&counted(SAMPLED_FROM)), "{}", counted(SAMPLED_FROM));
        let writes = ids.iter().filter(|id| slots(id, 10_000) > 0).count();
        assert!((2_375..2_625).contains(&writes), "{writes}");
    }
}
