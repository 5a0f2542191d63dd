//! The permits of attempts: one item for each group, with an attribute for each permit that is taken, and their number.
//!
//! Every write changes the permits and their number together, so the number is right. A permit says until when its
//! attempt may run, and which lease it claims. Only an attempt that finds no permit reads the others. The write
//! that takes one of them clears those whose time has ended.

use async_trait::async_trait;
use longhaul_core::ports::{AttemptPermit, AttemptPermits, StoreError, Taken};
use longhaul_core::{LeaseToken, PermitGroup, TaskId, Timestamp};

use crate::change::Change;
use crate::error::Written;
use crate::expressions::permits::{self, Permit};
use crate::item::{Fields, Item, PERMIT, REVISION, Unreadable};
use crate::keys;
use crate::store::DynamoStore;

/// How often a permit is tried: each further try is because of another worker that just changed the item.
const TRIES_MAX: usize = 8;

/// How many permits are cleared in one write, whose expression may have 4 KB.
pub(crate) const CLEARED_MAX: usize = 32;

/// How long an item is kept after the time of its last permit, so that one with a longer time is not deleted with it.
const KEPT_MS: u64 = 24 * 3_600_000;

/// The digits of a task's id in the name of an attribute.
const DIGITS: usize = 32;

/// The separator of the parts of a permit's value: until when its attempt may run, which lease it claims, since when
/// it is taken.
const BETWEEN: char = '#';

/// The permits of a group, as an attempt without one finds them.
struct Seen {
    revision: u64,
    /// The permit of the task itself, unless its time has ended.
    own: Option<AttemptPermit>,
    /// Permits of other tasks.
    others: u32,
    /// Attributes of other tasks whose time has ended, no more than one write clears.
    over: Vec<String>,
    /// The permits above that.
    over_left: u32,
}

impl Seen {
    fn read(item: &Item, attempt: &AttemptPermit, now: Timestamp) -> Result<Self, Unreadable> {
        let own = attribute(attempt).name;
        let revision = Fields(item).number(REVISION)?;
        let mut seen = Self { revision, own: None, others: 0, over: Vec::new(), over_left: 0 };
        for (name, value) in item.iter().filter(|(name, _)| is_permit(name)) {
            let text = value.as_s().map_err(|_other_type| Unreadable { attribute: PERMIT })?;
            let permit = parsed(attempt, text).ok_or(Unreadable { attribute: PERMIT })?;
            match (*name == own, permit.until <= now) {
                (true, true) => {}
                (true, false) => seen.own = Some(permit),
                (false, false) => seen.others = seen.others.saturating_add(1),
                (false, true) if seen.over.len() < CLEARED_MAX => seen.over.push(name.clone()),
                (false, true) => seen.over_left = seen.over_left.saturating_add(1),
            }
        }
        Ok(seen)
    }

    /// The write that takes a permit, and clears others.
    fn take(&self, permit: &Permit) -> Change {
        let attempts = self.others.saturating_add(self.over_left).saturating_add(1);
        permits::clear_and_take_permit(permit, self.revision, &self.over, attempts)
    }
}

fn is_permit(name: &str) -> bool {
    name.strip_prefix(PERMIT).is_some_and(|id| id.len() == DIGITS)
}

fn attribute(permit: &AttemptPermit) -> Permit {
    let id = match permit.group {
        PermitGroup::Owner(_) => permit.task.id,
        // Another owner may have a task of the same id.
        PermitGroup::Running(_) | PermitGroup::Begun(_) => {
            TaskId::derived(permit.task.id.begins_at(), &[permit.task.owner.as_bytes(), permit.task.id.as_bytes()])
        }
    };
    let digits: String = id.to_string().split('-').collect();
    Permit {
        name: format!("{PERMIT}{digits}"),
        value: format!("{}{BETWEEN}{}{BETWEEN}{}", permit.until.as_ms(), permit.lease, permit.since.as_ms()),
        ttl: permit.until.plus_ms(KEPT_MS),
    }
}

/// The permit that an attribute's value describes. Whose it is matters only if it is that of the same task.
fn parsed(of: &AttemptPermit, value: &str) -> Option<AttemptPermit> {
    let (until, rest) = value.split_once(BETWEEN)?;
    let (lease, since) = rest.split_once(BETWEEN)?;
    let moment = |text: &str| text.parse().ok().map(Timestamp::from_ms);
    Some(AttemptPermit { group: of.group, task: of.task, lease: LeaseToken::parse(lease)?, since: moment(since)?, until: moment(until)? })
}

impl DynamoStore {
    /// Takes a permit; that of another attempt of the same task only if it is `yielded`.
    async fn take_permit(
        &self,
        attempt: &AttemptPermit,
        yielded: Option<&AttemptPermit>,
        attempts_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        let (key, permit) = (keys::permits(attempt.group), attribute(attempt));
        let mut change = match yielded {
            None => permits::take_permit(&permit, attempts_max),
            Some(held) => permits::take_over_permit(&permit, &attribute(held)),
        };
        for _ in 0..TRIES_MAX {
            let seen = match self.table.update(&key, change).await? {
                Written::Done(_) => return Ok(Taken::Permit),
                Written::Refused(Some(item)) => Seen::read(&item, attempt, now)?,
                Written::Refused(None) => {
                    change = permits::take_permit(&permit, attempts_max);
                    continue;
                }
            };
            match &seen.own {
                // The write was sent twice, and the first one arrived.
                Some(own) if own.lease == attempt.lease => return Ok(Taken::Permit),
                Some(own) if Some(own) != yielded => return Ok(Taken::Held(*own)),
                Some(_) => {}
                None if seen.others >= attempts_max => return Ok(Taken::Full),
                None => {}
            }
            change = seen.take(&permit);
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

    async fn give_back(&self, permit: &AttemptPermit) -> Result<(), StoreError> {
        let change = permits::give_permit_back(&attribute(permit));
        // Refused if it was taken over, or cleared because its time was over.
        self.table.update(&keys::permits(permit.group), change).await.map(drop)
    }
}
