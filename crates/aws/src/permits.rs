//! The permits of attempts: one item for each group. It has an attribute for each permit, one for each task that waits,
//! and the numbers of both.
//!
//! Every write changes the attributes and their numbers together, so the numbers are right. A permit says until when
//! its attempt may run, and which lease it claims. An attempt reads the others only if it finds no permit, or if other
//! tasks wait. A write clears those whose time has ended.

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_core::ports::{AttemptPermit, AttemptPermits, StoreError, Taken};
use longhaul_core::{GroupPermits, LeaseToken, OwnerId, PermitGroup, TaskId, TaskKey, Timestamp, Turn, WaitingTask};

use crate::change::Change;
use crate::error::Written;
use crate::expressions::permits::{self, Permit};
use crate::item::{ATTEMPTS, AWAITED, Fields, Item, PERMIT, REVISION, Unreadable, WAITING, number, text};
use crate::keys;
use crate::store::DynamoStore;

/// How often a permit is tried: each further try is because of another worker that just changed the item.
const TRIES_MAX: usize = 8;

/// How many attributes are cleared in one write, whose expression may have 4 KB.
pub(crate) const CLEARED_MAX: usize = 16;

/// How long an item is kept after the time of its last permit, so that one with a longer time is not deleted with it.
const KEPT_MS: u64 = 24 * 3_600_000;

/// The digits of a task's id in the name of an attribute.
const DIGITS: usize = 32;

/// The separator of the parts of a value. A permit has its end, its lease and its begin. A task that waits has the time
/// until which it is noted, its priority, and the time since which it waits.
const BETWEEN: char = '#';

/// A group as an attempt finds it.
struct Seen {
    revision: u64,
    permits: GroupPermits,
    /// The names of all attributes.
    names: Vec<String>,
}

impl Seen {
    fn read(item: &Item, group: PermitGroup) -> Result<Self, Unreadable> {
        let (mut permits, mut names) = (GroupPermits::default(), Vec::new());
        for (name, value) in item {
            if let Some(task) = task_of(name, PERMIT, group) {
                permits.taken.push(permit_in(value, group, task).ok_or(Unreadable { attribute: PERMIT })?);
            } else if let Some(task) = task_of(name, WAITING, group) {
                permits.waiting.push(waiting_in(value, task).ok_or(Unreadable { attribute: WAITING })?);
            } else {
                continue;
            }
            names.push(name.clone());
        }
        Ok(Self { revision: Fields(item).number(REVISION)?, permits, names })
    }

    /// The write that leaves only these, if the item is as it was seen. Expired attributes that it may not clear stay.
    fn become_these(&self, after: &GroupPermits, permit: &AttemptPermit) -> Change {
        let mut change = permits::unchanged(self.revision, permit.until.plus_ms(KEPT_MS));
        let name = |prefix, task| attribute_name(prefix, permit.group, task);
        let kept: Vec<String> = after.taken.iter().map(|held| name(PERMIT, held.task)).collect();
        let noted: Vec<String> = after.waiting.iter().map(|waiting| name(WAITING, waiting.task)).collect();
        let gone = self.names.iter().filter(|name| !kept.contains(name) && !noted.contains(name));
        // What the attempt itself changes comes first.
        let own = [name(PERMIT, permit.task), name(WAITING, permit.task)];
        let (first, others): (Vec<&String>, Vec<&String>) = gone.partition(|name| own.contains(name));
        let cleared: Vec<&String> = first.into_iter().chain(others).take(CLEARED_MAX).collect();
        for held in after.taken.iter().filter(|held| !self.permits.taken.contains(held)) {
            change = change.set(&name(PERMIT, held.task), text(value_of(held)));
        }
        for waiting in after.waiting.iter().filter(|waiting| !self.permits.waiting.contains(waiting)) {
            let WaitingTask { task, turn: Turn { priority, since }, until } = waiting;
            let value = format!("{}{BETWEEN}{priority}{BETWEEN}{}", until.as_ms(), since.as_ms());
            change = change.set(&name(WAITING, *task), text(value));
        }
        let is_left = |prefix: &str, kept: &[String]| {
            let left = |name: &&String| name.starts_with(prefix) && !kept.contains(name) && !cleared.contains(name);
            u64::try_from(kept.len() + self.names.iter().filter(left).count()).unwrap_or(u64::MAX)
        };
        change = change.set(ATTEMPTS, number(is_left(PERMIT, &kept)));
        change = match is_left(WAITING, &noted) {
            0 => change.remove(AWAITED),
            awaited => change.set(AWAITED, number(awaited)),
        };
        cleared.iter().fold(change, |change, name| change.remove(name.as_str()))
    }
}

/// The name of the attribute of a task. Another owner may have a task of the same id, and no permits of its own.
fn attribute_name(prefix: &str, group: PermitGroup, task: TaskKey) -> String {
    let id: String = task.id.to_string().split('-').collect();
    match group {
        PermitGroup::Owner(_) => format!("{prefix}{id}"),
        PermitGroup::Running(_) | PermitGroup::Begun(_) => format!("{prefix}{id}{}", task.owner),
    }
}

/// The task whose attribute has this name, if it is one of these.
fn task_of(name: &str, prefix: &str, group: PermitGroup) -> Option<TaskKey> {
    let (id, owner) = name.strip_prefix(prefix)?.split_at_checked(DIGITS)?;
    let owner: OwnerId = match group {
        PermitGroup::Owner(of) => owner.is_empty().then_some(of)?,
        PermitGroup::Running(_) | PermitGroup::Begun(_) => owner.parse().ok()?,
    };
    let id = TaskId::from_bytes(u128::from_str_radix(id, 16).ok()?.to_be_bytes()).ok()?;
    Some(TaskKey::new(owner, id))
}

fn value_of(permit: &AttemptPermit) -> String {
    format!("{}{BETWEEN}{}{BETWEEN}{}", permit.until.as_ms(), permit.lease, permit.since.as_ms())
}

/// The permit that an attribute describes.
fn permit_in(value: &AttributeValue, group: PermitGroup, task: TaskKey) -> Option<AttemptPermit> {
    let (until, lease, since) = parts(value)?;
    let lease = LeaseToken::parse(lease)?;
    Some(AttemptPermit { group, task, lease, since: moment(since)?, until: moment(until)?, turn: None })
}

/// The task that waits, as an attribute describes it.
fn waiting_in(value: &AttributeValue, task: TaskKey) -> Option<WaitingTask> {
    let (until, priority, since) = parts(value)?;
    let turn = Turn { priority: priority.parse().ok()?, since: moment(since)? };
    Some(WaitingTask { task, turn, until: moment(until)? })
}

fn parts(value: &AttributeValue) -> Option<(&str, &str, &str)> {
    let (first, rest) = value.as_s().ok()?.split_once(BETWEEN)?;
    let (second, third) = rest.split_once(BETWEEN)?;
    Some((first, second, third))
}

fn moment(text: &str) -> Option<Timestamp> {
    text.parse().ok().map(Timestamp::from_ms)
}

fn attribute(permit: &AttemptPermit) -> Permit {
    Permit {
        name: attribute_name(PERMIT, permit.group, permit.task),
        value: value_of(permit),
        ttl: permit.until.plus_ms(KEPT_MS),
    }
}

impl DynamoStore {
    /// Takes a permit; that of another attempt of the same task only if it is `yielded`.
    async fn take_permit(
        &self,
        permit: &AttemptPermit,
        yielded: Option<&AttemptPermit>,
        attempts_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        let key = keys::permits(permit.group);
        let at_once = || match yielded {
            // A permit whose time has passed is free, and a task that waits may come first.
            Some(held) if held.until > now => permits::take_over_permit(&attribute(permit), &attribute(held)),
            _ => permits::take_permit(&attribute(permit), attempts_max),
        };
        let (mut change, mut taken) = (at_once(), Taken::Permit);
        for _ in 0..TRIES_MAX {
            let seen = match self.table.update(&key, change).await? {
                Written::Done(_) => return Ok(taken),
                Written::Refused(Some(item)) => Seen::read(&item, permit.group)?,
                Written::Refused(None) => {
                    (change, taken) = (permits::take_permit(&attribute(permit), attempts_max), Taken::Permit);
                    continue;
                }
            };
            let mut after = seen.permits.clone();
            taken = after.take(permit, yielded, attempts_max, now);
            let is_written = match taken {
                // The write was sent twice, and the first one arrived.
                Taken::Permit => !seen.permits.taken.iter().any(|held| *held == permit.stored()),
                Taken::Held(_) => false,
                Taken::Full => permit.turn.is_some() && after.waiting != seen.permits.waiting,
            };
            if !is_written {
                return Ok(taken);
            }
            change = seen.become_these(&after, permit);
        }
        // So many workers change the item that this one looks again later.
        Ok(Taken::Full)
    }
}

#[async_trait]
impl AttemptPermits for DynamoStore {
    async fn take(&self, permit: &AttemptPermit, attempts_max: u32, now: Timestamp) -> Result<Taken, StoreError> {
        self.take_permit(permit, None, attempts_max, now).await
    }

    async fn take_over(
        &self,
        permit: &AttemptPermit,
        held: &AttemptPermit,
        attempts_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        self.take_permit(permit, Some(held), attempts_max, now).await
    }

    async fn give_back(&self, permit: &AttemptPermit, now: Timestamp) -> Result<Option<TaskKey>, StoreError> {
        let key = keys::permits(permit.group);
        let (mut change, mut next) = (permits::give_permit_back(&attribute(permit)), None);
        for _ in 0..TRIES_MAX {
            let seen = match self.table.update(&key, change).await? {
                Written::Done(_) => return Ok(next),
                Written::Refused(Some(item)) => Seen::read(&item, permit.group)?,
                Written::Refused(None) => return Ok(None),
            };
            let mut after = seen.permits.clone();
            next = after.give_back(permit, now);
            if after.taken.len() == seen.permits.taken.len() {
                // It was taken over, or cleared because its time was over.
                return Ok(None);
            }
            change = seen.become_these(&after, permit);
        }
        Err(StoreError::Unavailable("other workers change the permits all the time".into()))
    }
}
