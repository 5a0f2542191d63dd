//! The limit of unfinished tasks per owner: one count, which is right as long as every end is written. If tasks may
//! have expired without an end, they are counted one by one, and the count is corrected.

use futures::future::try_join_all;
use longhaul_core::ports::StoreError;
use longhaul_core::{OwnerId, Timestamp};

use crate::attributes::{EXPIRES_AT, OPEN, RECOUNT_AFTER, REVISION};
use crate::error::{Unexpected, Written};
use crate::item::{Fields, Item, moment};
use crate::keys::SHARDS;
use crate::store::DynamoStore;
use crate::{expressions, keys};

/// Pages of 1 MB that a count reads per shard before it fails.
const PAGES_MAX: usize = 64;

/// Whether there is room for one more task.
pub(crate) enum Room {
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
    /// What to do when the count refused a task. The tasks are counted one by one only if one of them may have expired
    /// since the last time, so that not every refusal of an owner at the limit reads all its tasks.
    pub(crate) async fn look_for_room(
        &self,
        owner: &OwnerId,
        quota: &Item,
        open_max: u32,
        now: Timestamp,
    ) -> Result<Room, StoreError> {
        let fields = Fields(quota);
        if fields.number::<u32>(OPEN)? < open_max {
            return Ok(Room::ExpiringFirst);
        }
        let recount_after = fields.optional(RECOUNT_AFTER, Fields::moment)?;
        if recount_after.is_some_and(|at| now < at) {
            return Ok(Room::None);
        }
        let counted = self.count(owner, now).await?;
        let change = expressions::counted(fields.number(REVISION)?, counted.open, counted.next_expiry);
        match self.table.update(&keys::quota(owner), change).await? {
            Written::Done(_) if counted.open >= open_max => Ok(Room::None),
            // A task was created or ended meanwhile: the next try uses the current count.
            Written::Done(_) | Written::Refused(_) => Ok(Room::AfterCounting),
        }
    }

    /// Counts the owner's unfinished tasks one by one.
    async fn count(&self, owner: &OwnerId, now: Timestamp) -> Result<Counted, StoreError> {
        let shards = try_join_all((0..SHARDS).map(|shard| self.count_shard(owner, shard, now))).await?;
        Ok(Counted {
            open: shards.iter().fold(0, |open, shard| shard.open.saturating_add(open)),
            next_expiry: shards.iter().filter_map(|shard| shard.next_expiry).min(),
        })
    }

    async fn count_shard(&self, owner: &OwnerId, shard: u8, now: Timestamp) -> Result<Counted, StoreError> {
        let mut counted = Counted { open: 0, next_expiry: None };
        let mut from = None;
        for _ in 0..PAGES_MAX {
            let query = self
                .table
                .query()
                .key_condition_expression("#pk = :pk")
                .filter_expression(expressions::COUNTED_UNEXPIRED)
                .projection_expression("#expires_at")
                .expression_attribute_names("#pk", crate::attributes::PK)
                .expression_attribute_names("#counted", crate::attributes::COUNTED)
                .expression_attribute_names("#expires_at", EXPIRES_AT)
                .expression_attribute_values(":pk", crate::item::text(keys::shard(owner, shard)))
                .expression_attribute_values(":now", moment(now))
                .set_exclusive_start_key(from);
            let page = self.table.page(query).await?;
            for item in &page.items {
                let expires_at = Fields(item).moment(EXPIRES_AT)?;
                counted.open = counted.open.saturating_add(1);
                counted.next_expiry = Some(counted.next_expiry.map_or(expires_at, |first| first.min(expires_at)));
            }
            from = page.rest;
            if from.is_none() {
                return Ok(counted);
            }
        }
        Err(Unexpected::Endless("a count of unfinished tasks").into())
    }
}
