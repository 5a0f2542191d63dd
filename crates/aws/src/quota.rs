//! The limits per owner: of unfinished tasks, of stored bytes, and of new tasks in a minute. One item has all counts.
//! Creations raise them before they write their task, and ends lower them after they have written theirs. An end never
//! depends on the count.
//!
//! The count may be wrong: a process died between two writes, a write with a lost answer was repeated, or a task
//! expired unfinished. So before an owner is refused, its tasks are counted one by one, and the count is corrected.
//! This happens at most once a minute.
//!
//! Under a limit of [`SAMPLED_FROM`] or more, one task in [`SAMPLE`] is counted, as that many. The counts of a task
//! then cost half a write unit on average, and are right to a few in a hundred. All other creations read it.
//!
//! New tasks are counted from the time of the first one on. Only a creation that the count would refuse checks whether
//! a minute has ended, and begins to count again. So a wrong count is right again after a minute, and counting costs no
//! call of its own. Under a limit of [`SAMPLED_FROM`] or more in a minute they are counted by the same sample.
//!
//! Bytes are counted together with the hour in which they expire, and taken off the count when an owner would be
//! refused after that.

use futures::future::try_join_all;
use longhaul_core::ports::{CreateError, NewTask, StoreError};
use longhaul_core::{OwnerId, Payload, TaskId, Timestamp, limits};

use crate::change::Change;
use crate::error::{Unexpected, Written};
use crate::expressions::counts::{self, NextCount, Reserved, Window, room_in};
use crate::item::{
    BYTES_UNTIL, EXPIRES_AT, Fields, Item, NEW, NEW_SINCE, OPEN, PK, RECOUNT_AFTER, STORED, Unreadable, text,
};
use crate::keys::{self, SHARDS};
use crate::record::Stored;
use crate::store::{DynamoStore, QuotaMode};

/// The smallest limit under which a sample is counted. Under a smaller one the sample would say too little.
const SAMPLED_FROM: u32 = 2_000;

/// One task in so many is counted.
const SAMPLE: u8 = 4;

/// How long a count is believed: an owner at the limit does not have all its tasks read by each refusal.
const COUNT_AGAIN_MS: u64 = 60_000;

/// How often a reservation is tried: each further try is because of another instance that just changed the count.
const TRIES_MAX: usize = 8;

const HOUR_MS: u64 = 3_600_000;

/// Pages of 1 MB that a count reads per shard before it gives up.
const PAGES_MAX: usize = 64;

/// Whether there is room for one more task, by the count.
enum Room {
    /// There are too many tasks.
    NoSlot,
    /// There are too many bytes.
    NoBytes,
    /// There are too many new ones, for so long.
    NoNew { retry_ms: u64 },
    /// There is, in a new window after the one that began at this time.
    InNewWindow { since: Timestamp },
    /// The count was corrected, by this instance or another one, or the next count has to be earlier: the next try
    /// decides.
    OnceMore,
}

struct Counted {
    open: u32,
    /// The earliest expiry among them.
    next_expiry: Option<Timestamp>,
}

impl DynamoStore {
    /// Counts a new task, if there is room for it.
    pub(crate) async fn reserve(&self, new: &NewTask, now: Timestamp) -> Result<Reserved, CreateError> {
        let until = bytes_until(new.task.expires_at, now);
        if self.quota == QuotaMode::Off || new.task.has_ended() || new.task.is_webhook_delivery() {
            return Ok(Reserved { slots: 0, new: 0, bytes: 0, until });
        }
        if new.task.stored_bytes() > new.stored_max {
            return Err(CreateError::TooMuchStored { stored_max: new.stored_max });
        }
        let slots = slots(&new.task.id, new.open_max);
        let bytes = counted_bytes(&new.task.request, slots);
        let reserved = Reserved { slots, new: counted_new(new, slots), bytes, until };
        let mut next_count = NextCount::AsSet { unless_set: now.plus_ms(COUNT_AGAIN_MS) };
        let mut window = Window::Current;
        for _ in 0..TRIES_MAX {
            let change = counts::reserve(new, &reserved, next_count, window, now);
            let Some(quota) = self.refusing_quota(new, &reserved, change, now).await? else {
                return Ok(reserved);
            };
            window = Window::Current;
            if expires_first(new, &quota).map_err(StoreError::from)? {
                next_count = NextCount::WithThisTask;
            }
            match self.look_for_room(new, &quota, now).await? {
                Room::NoSlot => return Err(CreateError::TooManyOpen { open_max: new.open_max }),
                Room::NoBytes => return Err(CreateError::TooMuchStored { stored_max: new.stored_max }),
                Room::NoNew { retry_ms } => {
                    return Err(CreateError::TooManyNew { new_max: new.new_max.unwrap_or(u32::MAX), retry_ms });
                }
                Room::InNewWindow { since } => window = Window::After { since },
                Room::OnceMore => {}
            }
        }
        Err(StoreError::from(Unexpected::Contended).into())
    }

    /// The count that stands in the way of a new task; `None` if there is room. A task of which anything is counted is
    /// counted by this.
    async fn refusing_quota(
        &self,
        new: &NewTask,
        reserved: &Reserved,
        change: Change,
        now: Timestamp,
    ) -> Result<Option<Item>, StoreError> {
        let key = keys::quota(&new.task.owner);
        if reserved.counts() {
            return match self.table.update(&key, change).await? {
                Written::Done(_) => Ok(None),
                Written::Refused(Some(quota)) => Ok(Some(quota)),
                Written::Refused(None) => Err(Unexpected::Incomplete("UpdateItem").into()),
            };
        }
        let Some(quota) = self.table.get(&key).await? else { return Ok(None) };
        let has_room = open_of(&quota)? < i64::from(new.open_max) && stored_of(&quota)? <= room_in(new);
        let may_create = full_window(new, &quota)?.is_none_or(|since| limits::minute_left_ms(since, now) == 0);
        Ok(if has_room && may_create { None } else { Some(quota) })
    }

    /// Takes back what was counted for a task that was not created after all.
    pub(crate) async fn release(&self, owner: &OwnerId, reserved: &Reserved) {
        if reserved.counts() {
            self.change_count(owner, counts::release(reserved)).await;
        }
    }

    /// Counts the end of a task, and its result.
    pub(crate) async fn count_end(&self, ended: &Stored, now: Timestamp) {
        let slots = ended.slots;
        let bytes = ended.task.state.outcome().map_or(0, |outcome| counted_bytes(outcome, slots));
        if self.quota == QuotaMode::Counted && !ended.task.is_webhook_delivery() && (slots > 0 || bytes > 0) {
            let ended_as = Reserved { slots, new: 0, bytes, until: bytes_until(ended.task.expires_at, now) };
            self.change_count(&ended.task.owner, counts::end_of(&ended_as)).await;
        }
    }

    /// If this fails, the count is wrong until it is corrected. The write before it does not fail for that.
    async fn change_count(&self, owner: &OwnerId, change: Change) {
        if let Err(error) = self.table.update(&keys::quota(owner), change).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the count of an owner's tasks was not changed; it will be corrected later");
        }
    }

    /// The recovery after the count refused a task. The tasks are counted one by one only if one of them may have
    /// expired since the last time, or that was long ago.
    async fn look_for_room(&self, new: &NewTask, quota: &Item, now: Timestamp) -> Result<Room, StoreError> {
        let (owner, open_max, open) = (&new.task.owner, new.open_max, open_of(quota)?);
        let due = Fields(quota).optional(RECOUNT_AFTER, Fields::moment)?;
        if open < i64::from(open_max) {
            if stored_of(quota)? > room_in(new) {
                return self.forget_expired_bytes(owner, quota, now).await;
            }
            if let Some(since) = full_window(new, quota)? {
                return Ok(after_window(since, now));
            }
            return Ok(Room::OnceMore);
        }
        if due.is_some_and(|due| now < due) {
            return Ok(Room::NoSlot);
        }
        let begun = counts::begin_to_count(due, now.plus_ms(COUNT_AGAIN_MS));
        match self.table.update(&keys::quota(owner), begun).await? {
            Written::Done(_) => {}
            Written::Refused(_) => return Ok(Room::OnceMore),
        }
        let Some(counted) = self.count(owner, now).await? else {
            tracing::warn!("an owner at the limit of unfinished tasks has too many tasks to count them");
            return Ok(Room::NoSlot);
        };
        let next = counted.next_expiry.map_or(now.plus_ms(COUNT_AGAIN_MS), |at| at.min(now.plus_ms(COUNT_AGAIN_MS)));
        let by = i64::from(counted.open).saturating_sub(open);
        self.table.update(&keys::quota(owner), counts::correct_count(by, next)).await?;
        Ok(if counted.open >= open_max { Room::NoSlot } else { Room::OnceMore })
    }

    /// Takes the bytes off the count that have expired, if there are any.
    async fn forget_expired_bytes(&self, owner: &OwnerId, quota: &Item, now: Timestamp) -> Result<Room, StoreError> {
        let mut expired = Vec::new();
        for (name, value) in quota {
            let hours: Option<u64> = name.strip_prefix(BYTES_UNTIL).and_then(|hours| hours.parse().ok());
            if hours.is_some_and(|hours| hours.saturating_mul(HOUR_MS) <= now.as_ms()) {
                let bytes = value.as_n().ok().and_then(|digits| digits.parse::<i64>().ok());
                expired.push((name.clone(), bytes.ok_or(Unreadable { attribute: BYTES_UNTIL })?));
            }
        }
        expired.sort();
        let Some((first, _)) = expired.first() else { return Ok(Room::NoBytes) };
        // If another instance was faster, the next try finds what it left.
        let _forgotten = self.table.update(&keys::quota(owner), counts::forget_bytes(first, &expired)).await?;
        Ok(Room::OnceMore)
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
        let filter = counts::open_unexpired(now);
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

fn open_of(quota: &Item) -> Result<i64, Unreadable> {
    Ok(Fields(quota).optional(OPEN, Fields::number)?.unwrap_or(0))
}

fn stored_of(quota: &Item) -> Result<i128, Unreadable> {
    Ok(Fields(quota).optional(STORED, Fields::number)?.unwrap_or(0))
}

/// Whether the new task expires before all others, so that the next count has to be earlier.
fn expires_first(new: &NewTask, quota: &Item) -> Result<bool, Unreadable> {
    let due = Fields(quota).optional(RECOUNT_AFTER, Fields::moment)?;
    Ok(due.is_some_and(|due| due > new.task.expires_at))
}

/// The next step of a creation that finds a full window, which began at `since`.
fn after_window(since: Timestamp, now: Timestamp) -> Room {
    let retry_ms = limits::minute_left_ms(since, now);
    if retry_ms > 0 { Room::NoNew { retry_ms } } else { Room::InNewWindow { since } }
}

/// When the owner's window of new tasks began, if it has no room for another one.
fn full_window(new: &NewTask, quota: &Item) -> Result<Option<Timestamp>, Unreadable> {
    let Some(new_max) = new.new_max else { return Ok(None) };
    let fields = Fields(quota);
    let count: i64 = fields.optional(NEW, Fields::number)?.unwrap_or(0);
    if count < i64::from(new_max) {
        return Ok(None);
    }
    fields.moment(NEW_SINCE).map(Some)
}

/// The number of bytes that a text counts as. A text in parts counts as it is, since its write costs much more than the
/// count. A small one counts once for each task that its task stands for in the sample.
fn counted_bytes(payload: &Payload, slots: u32) -> i64 {
    let counted = match payload {
        Payload::Inline(text) => (text.len() as u64).saturating_mul(u64::from(slots)),
        Payload::Parts { bytes, .. } => *bytes,
    };
    i64::try_from(counted).unwrap_or(i64::MAX)
}

/// The attribute for bytes that expire at this time. Times are rounded to hours, for weeks
/// to days, and for months to steps of sixteen days. So an item has few of them.
fn bytes_until(expires_at: Timestamp, now: Timestamp) -> String {
    let hours = expires_at.as_ms().div_ceil(HOUR_MS);
    let hours = match expires_at.since_ms(now).div_ceil(HOUR_MS) {
        0..=48 => hours,
        49..=384 => hours.next_multiple_of(24),
        _ => hours.next_multiple_of(384),
    };
    format!("{BYTES_UNTIL}{hours}")
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

/// As how many new tasks a task is counted, of which so many slots are counted. A low limit counts each of them.
fn counted_new(new: &NewTask, slots: u32) -> u32 {
    match new.new_max {
        None => 0,
        Some(new_max) if new_max < SAMPLED_FROM => 1,
        Some(_) => slots,
    }
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
        for open_max in [SAMPLED_FROM, 10_000] {
            let writes = ids.iter().filter(|id| slots(id, open_max) > 0).count();
            assert!((2_375..2_625).contains(&writes), "{writes}");
        }
    }

    #[test]
    fn bytes_are_counted_until_a_whole_hour_or_for_weeks_until_a_day_or_for_months_until_one_of_few_days() {
        let (now, hour) = (Timestamp::from_ms(5 * HOUR_MS), |hour: u64| Timestamp::from_ms(hour * HOUR_MS));
        let until = |expires_at| bytes_until(expires_at, now);
        assert_eq!([until(hour(6)), until(hour(6).plus_ms(1)), until(hour(53))], ["b6", "b7", "b53"]);
        assert_eq!(until(hour(53).plus_ms(1)), "b72");
        assert_eq!([until(hour(96)), until(hour(97)), until(hour(389))], ["b96", "b120", "b408"]);
        assert_eq!([until(hour(390)), until(hour(768)), until(hour(769))], ["b768", "b768", "b1152"]);
    }

    #[test]
    fn new_tasks_are_counted_one_by_one_under_a_low_limit_and_by_the_same_sample_under_a_high_one() {
        let ids = SeededIds::new(1);
        let counted = |open_max, new_max| {
            let one =
                || NewTask { open_max, new_max, ..given::new(given::task(&ids, given::owner("alice"), given::NOW)) };
            let tasks: Vec<NewTask> = (0..10_000).map(|_| one()).collect();
            tasks.iter().map(|new| counted_new(new, slots(&new.task.id, open_max))).sum::<u32>()
        };
        assert_eq!([counted(1_000, None), counted(10_000, None)], [0, 0]);
        assert_eq!([counted(1_000, Some(60)), counted(10_000, Some(60)), counted(1_000, Some(10_000))], [10_000; 3]);
        assert!((9_500..10_500).contains(&counted(10_000, Some(10_000))));
        let task = given::task(&ids, given::owner("alice"), given::NOW);
        let new = NewTask { new_max: Some(SAMPLED_FROM), ..given::new(task) };
        assert_eq!([counted_new(&new, 0), counted_new(&new, 4)], [0, 4], "the limit from which on a sample is counted");
    }

    #[test]
    fn a_task_of_which_anything_is_counted_is_counted() {
        let reserved = |slots, new, bytes| Reserved { slots, new, bytes, until: String::new() };
        assert!([reserved(1, 0, 0), reserved(0, 1, 0), reserved(0, 0, 1)].iter().all(Reserved::counts));
        assert!(!reserved(0, 0, 0).counts());
    }
}
