//! One page of an owner's tasks, or of some of them: all shards at the same time, merged by id.

use std::cmp::Reverse;
use std::collections::VecDeque;

use futures::future::try_join_all;
use longhaul_core::ports::{Page, StoreError};
use longhaul_core::{OwnerId, Task, TaskFilter, TaskId, Timestamp, limits};

use crate::change::Expression;
use crate::error::Unexpected;
use crate::expressions;
use crate::item::{Item, PK, SK, text};
use crate::keys::{self, SHARDS};
use crate::store::DynamoStore;

/// Rounds of queries after which a page fails. Only long runs of expired tasks that DynamoDB has not deleted yet take
/// more than one or two.
const ROUNDS_MAX: usize = 256;

/// Items to request from a shard if its first answer was not enough.
const REFILL_ITEMS: usize = 64;

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
    After(Item),
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

    /// The oldest task that it has read, if there are older ones.
    fn reached(&self) -> Option<TaskId> {
        match &self.rest {
            Rest::After(item) => keys::task_key(item).map(|key| key.id),
            Rest::All | Rest::Nothing => None,
        }
    }
}

/// The subject of a list.
struct Wanted<'a> {
    owner: &'a OwnerId,
    before: Option<TaskId>,
    filter: Option<&'a TaskFilter>,
    condition: Expression,
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
        let wanted = Wanted { owner, before, filter: None, condition: expressions::listed(now) };
        match self.page_from(&wanted, limit, usize::MAX).await? {
            Found::Page(page) => Ok(page),
            Found::Stopped(_) => Err(Unexpected::Endless("a list").into()),
        }
    }

    /// The same of those tasks that `filter` takes. `DynamoDB` reads the others, too, and bills them: so it stops after
    /// [`CHOSEN_FROM_MAX`](limits::CHOSEN_FROM_MAX).
    pub(crate) async fn filtered_page_of(
        &self,
        owner: &OwnerId,
        filter: &TaskFilter,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        if filter.statuses.is_empty() {
            return Ok(Page { tasks: Vec::new(), next: None });
        }
        let wanted = Wanted { owner, before, filter: Some(filter), condition: expressions::listed_by(filter, now) };
        match self.page_from(&wanted, limit, limits::CHOSEN_FROM_MAX).await? {
            Found::Page(page) | Found::Stopped(page) => Ok(page),
        }
    }

    /// A page from at most `items_left` items.
    async fn page_from(&self, wanted: &Wanted<'_>, limit: usize, mut items_left: usize) -> Result<Found, StoreError> {
        let limit = limit.min(limits::PAGE_MAX);
        let tasks_max = limit.saturating_add(1);
        let mut shards: Vec<Shard> = (0..SHARDS).map(Shard::new).collect();
        let mut tasks = Vec::new();
        let mut items_max = first_items(tasks_max);
        for _ in 0..ROUNDS_MAX {
            let asked: Vec<&mut Shard> = shards.iter_mut().filter(|shard| shard.has_to_be_asked()).collect();
            let items = items_max.min(items_left.checked_div(asked.len()).unwrap_or(0));
            if items == 0 {
                break;
            }
            items_left = items_left.saturating_sub(items.saturating_mul(asked.len()));
            try_join_all(asked.into_iter().map(|shard| self.ask(wanted, items, shard))).await?;
            items_max = REFILL_ITEMS;
            merge(&mut shards, &mut tasks, tasks_max);
            if tasks.len() >= tasks_max || shards.iter().all(|shard| matches!(shard.rest, Rest::Nothing)) {
                return Ok(Found::Page(Page::of(tasks, limit, None)));
            }
        }
        // All tasks that are not older than this have been read.
        let reached = shards.iter().filter_map(Shard::reached).max();
        let mut found: Vec<Task> = shards.into_iter().flat_map(|shard| shard.tasks).collect();
        found.retain(|task| reached.is_none_or(|reached| task.id >= reached));
        found.sort_unstable_by_key(|task| Reverse(task.id));
        tasks.extend(found);
        Ok(Found::Stopped(Page::of(tasks, limit, reached)))
    }

    /// Gets the next tasks of a shard.
    async fn ask(&self, wanted: &Wanted<'_>, items_max: usize, shard: &mut Shard) -> Result<(), StoreError> {
        let from = match std::mem::replace(&mut shard.rest, Rest::Nothing) {
            Rest::All => None,
            Rest::After(item) => Some(item),
            Rest::Nothing => return Ok(()),
        };
        let Wanted { owner, before, condition, filter: _ } = wanted;
        let mut query = self
            .table
            .query()
            .key_condition_expression(if before.is_some() { "#pk = :pk AND #sk < :before" } else { "#pk = :pk" })
            .filter_expression(&condition.condition)
            .set_expression_attribute_names(Some(condition.names.clone()))
            .set_expression_attribute_values(condition.values())
            .expression_attribute_names("#pk", PK)
            .expression_attribute_values(":pk", text(keys::shard(owner, shard.number)))
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
            let task = match self.read(item).await {
                Ok(stored) => stored.task,
                // Its sort key is no id: nobody can ask for it.
                Err(StoreError::Corrupt(_)) => continue,
                Err(error) => return Err(error),
            };
            // A damaged task may say something else than what it is shown as.
            if wanted.filter.is_none_or(|filter| filter.statuses.contains(&task.status())) {
                shard.tasks.push_back(task);
            }
        }
        shard.rest = page.rest.map_or(Rest::Nothing, Rest::After);
        Ok(())
    }
}

enum Found {
    /// A whole page, or all that there is.
    Page(Page),
    /// The tasks that were found until enough was read.
    Stopped(Page),
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
