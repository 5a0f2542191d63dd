//! One page of an owner's tasks: all shards at the same time, merged by id.

use std::collections::VecDeque;

use futures::future::try_join_all;
use longhaul_core::ports::{Page, StoreError};
use longhaul_core::{OwnerId, Task, TaskId, Timestamp, limits};

use crate::attributes::{EXPIRES_AT, FORMAT, PK, SK};
use crate::error::Unexpected;
use crate::item::{Item, moment, text};
use crate::keys::SHARDS;
use crate::store::DynamoStore;
use crate::{expressions, keys, record};

/// Rounds of queries after which a page fails. Only long runs of expired tasks that DynamoDB has not deleted yet take
/// more than one or two.
const ROUNDS_MAX: usize = 256;

/// Items to request from a shard if its first answer was not enough.
const REFILL_ITEMS: usize = 64;

/// What one shard has returned so far.
struct Shard {
    number: u8,
    /// Unexpired tasks that are not on the page yet, newest first.
    tasks: VecDeque<Task>,
    /// Where its next query begins.
    rest: Rest,
}

enum Rest {
    /// At the beginning of the page.
    All,
    /// After this item.
    After(Item),
    /// There is nothing more.
    Nothing,
}

impl Shard {
    const fn new(number: u8) -> Self {
        Self { number, tasks: VecDeque::new(), rest: Rest::All }
    }

    /// Whether its next task is unknown, so that it has to be queried again.
    fn has_to_be_asked(&self) -> bool {
        self.tasks.is_empty() && !matches!(self.rest, Rest::Nothing)
    }
}

impl DynamoStore {
    /// The unexpired tasks of `owner` before `before`, newest first. It reads one task more than requested, to know
    /// whether another page follows: a cursor must not lead to an empty page.
    pub(crate) async fn page_of(
        &self,
        owner: &OwnerId,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        let limit = limit.min(limits::PAGE_MAX);
        let wanted = limit.saturating_add(1);
        let mut shards: Vec<Shard> = (0..SHARDS).map(Shard::new).collect();
        let mut tasks = Vec::new();
        let mut items_max = first_items(wanted);
        for _ in 0..ROUNDS_MAX {
            let asked = shards.iter_mut().filter(|shard| shard.has_to_be_asked());
            try_join_all(asked.map(|shard| self.ask(owner, before, items_max, now, shard))).await?;
            items_max = REFILL_ITEMS;
            merge(&mut shards, &mut tasks, wanted);
            if tasks.len() >= wanted || shards.iter().all(|shard| matches!(shard.rest, Rest::Nothing)) {
                let more = tasks.len() > limit;
                tasks.truncate(limit);
                let next = tasks.last().filter(|_oldest| more).map(|oldest| oldest.id);
                return Ok(Page { tasks, next });
            }
        }
        Err(Unexpected::Endless("a list").into())
    }

    /// Gets the next tasks of a shard.
    async fn ask(
        &self,
        owner: &OwnerId,
        before: Option<TaskId>,
        items_max: usize,
        now: Timestamp,
        shard: &mut Shard,
    ) -> Result<(), StoreError> {
        let from = match std::mem::replace(&mut shard.rest, Rest::Nothing) {
            Rest::All => None,
            Rest::After(item) => Some(item),
            Rest::Nothing => return Ok(()),
        };
        let mut query = self
            .table
            .query()
            .key_condition_expression(if before.is_some() { "#pk = :pk AND #sk < :before" } else { "#pk = :pk" })
            .filter_expression(expressions::LISTED)
            .expression_attribute_names("#pk", PK)
            .expression_attribute_names("#expires_at", EXPIRES_AT)
            .expression_attribute_names("#format", FORMAT)
            .expression_attribute_values(":pk", text(keys::shard(owner, shard.number)))
            .expression_attribute_values(":now", moment(now))
            .scan_index_forward(false)
            .limit(i32::try_from(items_max).unwrap_or(i32::MAX))
            .set_exclusive_start_key(from);
        if let Some(before) = before {
            query = query
                .expression_attribute_names("#sk", SK)
                .expression_attribute_values(":before", text(before.to_string()));
        }
        let page = self.table.page(query).await?;
        for item in &page.items {
            shard.tasks.push_back(record::read(item)?.task);
        }
        shard.rest = page.rest.map_or(Rest::Nothing, Rest::After);
        Ok(())
    }
}

/// How many items to request from each shard first. Ids are spread evenly, so a shard has its share of a page, and
/// rarely more than twice that; the constant is for small pages. A shard that has more is queried again.
fn first_items(wanted: usize) -> usize {
    wanted.min(wanted.div_ceil(8).saturating_add(6))
}

/// Moves the newest tasks of all shards to the page, until it is full or a shard has to be queried again.
fn merge(shards: &mut [Shard], tasks: &mut Vec<Task>, wanted: usize) {
    while tasks.len() < wanted && !shards.iter().any(Shard::has_to_be_asked) {
        let newest = shards.iter_mut().max_by_key(|shard| shard.tasks.front().map(|task| task.id));
        match newest.and_then(|shard| shard.tasks.pop_front()) {
            Some(task) => tasks.push(task),
            None => return,
        }
    }
}
