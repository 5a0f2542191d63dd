//! The limit of running legs per owner: one item for each owner, with an attribute for each place that is taken, and
//! their number.
//!
//! Every write changes the places and their number together, so the number is right. A place says until when its leg
//! may run, and which lease it claims. Only a leg that finds no place looks at the others: those whose time is over are
//! cleared by the write that takes one of them.

use async_trait::async_trait;
use longhaul_core::ports::{LegPlace, LegPlaces, StoreError, Taken};
use longhaul_core::{LeaseToken, TaskKey, Timestamp};

use crate::attributes::{LEG, REVISION};
use crate::change::Change;
use crate::error::Written;
use crate::expressions::{self, Place};
use crate::item::{Fields, Item, Unreadable};
use crate::keys;
use crate::store::DynamoStore;

/// How often a place is tried: each further try is because of another worker that just changed the item.
const TRIES_MAX: usize = 8;

/// How many places are cleared in one write, whose expression may have 4 KB.
pub(crate) const CLEARED_MAX: usize = 32;

/// How long an item is kept after the time of its last place, so that one with a longer time is not deleted with it.
const KEPT_MS: u64 = 24 * 3_600_000;

/// The digits of a task's id in the name of an attribute.
const DIGITS: usize = 32;

/// What is parted by this in the value of a place: until when its leg may run, which lease it claims, since when it is
/// taken.
const BETWEEN: char = '#';

/// The places of an owner, as a leg without one finds them.
struct Seen {
    revision: u64,
    /// The place of the task itself, unless its time is over.
    own: Option<LegPlace>,
    /// Places of other tasks.
    others: u32,
    /// Attributes of other tasks whose time is over, no more than one write clears.
    over: Vec<String>,
    /// Those above that.
    over_left: u32,
}

impl Seen {
    fn read(item: &Item, leg: &LegPlace, now: Timestamp) -> Result<Self, Unreadable> {
        let own = attribute(leg).name;
        let revision = Fields(item).number(REVISION)?;
        let mut seen = Self { revision, own: None, others: 0, over: Vec::new(), over_left: 0 };
        for (name, value) in item.iter().filter(|(name, _)| is_place(name)) {
            let text = value.as_s().map_err(|_other_type| Unreadable { attribute: LEG })?;
            let place = parsed(leg.task, text).ok_or(Unreadable { attribute: LEG })?;
            match (*name == own, place.until <= now) {
                (true, true) => {}
                (true, false) => seen.own = Some(place),
                (false, false) => seen.others = seen.others.saturating_add(1),
                (false, true) if seen.over.len() < CLEARED_MAX => seen.over.push(name.clone()),
                (false, true) => seen.over_left = seen.over_left.saturating_add(1),
            }
        }
        Ok(seen)
    }

    /// The write that takes a place, with what it clears.
    fn take(&self, place: &Place) -> Change {
        let legs = self.others.saturating_add(self.over_left).saturating_add(1);
        expressions::clear_and_take_place(place, self.revision, &self.over, legs)
    }
}

fn is_place(name: &str) -> bool {
    name.strip_prefix(LEG).is_some_and(|id| id.len() == DIGITS)
}

fn attribute(place: &LegPlace) -> Place {
    let id: String = place.task.id.to_string().split('-').collect();
    Place {
        name: format!("{LEG}{id}"),
        value: format!("{}{BETWEEN}{}{BETWEEN}{}", place.until.as_ms(), place.lease, place.since.as_ms()),
        ttl: place.until.plus_ms(KEPT_MS),
    }
}

/// The place of a leg of `task` that an attribute's value describes.
fn parsed(task: TaskKey, value: &str) -> Option<LegPlace> {
    let (until, rest) = value.split_once(BETWEEN)?;
    let (lease, since) = rest.split_once(BETWEEN)?;
    let moment = |text: &str| text.parse().ok().map(Timestamp::from_ms);
    Some(LegPlace { task, lease: LeaseToken::parse(lease)?, since: moment(since)?, until: moment(until)? })
}

impl DynamoStore {
    /// Takes a place; that of another leg of the same task only if it is `yielded`.
    async fn take_place(
        &self,
        leg: &LegPlace,
        yielded: Option<&LegPlace>,
        legs_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        let (key, place) = (keys::legs(&leg.task.owner), attribute(leg));
        let mut change = match yielded {
            None => expressions::take_place(&place, legs_max),
            Some(held) => expressions::take_over_place(&place, &attribute(held)),
        };
        for _ in 0..TRIES_MAX {
            let seen = match self.table.update(&key, change).await? {
                Written::Done(_) => return Ok(Taken::Place),
                Written::Refused(Some(item)) => Seen::read(&item, leg, now)?,
                Written::Refused(None) => {
                    change = expressions::take_place(&place, legs_max);
                    continue;
                }
            };
            match &seen.own {
                // The write was sent twice, and the first one arrived.
                Some(own) if own.lease == leg.lease => return Ok(Taken::Place),
                Some(own) if Some(own) != yielded => return Ok(Taken::Held(*own)),
                Some(_) => {}
                None if seen.others >= legs_max => return Ok(Taken::Full),
                None => {}
            }
            change = seen.take(&place);
        }
        // So many workers change the item that this one looks again later.
        Ok(Taken::Full)
    }
}

#[async_trait]
impl LegPlaces for DynamoStore {
    async fn take(&self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Result<Taken, StoreError> {
        self.take_place(place, None, legs_max, now).await
    }

    async fn take_over(
        &self,
        place: &LegPlace,
        held: &LegPlace,
        legs_max: u32,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        self.take_place(place, Some(held), legs_max, now).await
    }

    async fn give_back(&self, place: &LegPlace) -> Result<(), StoreError> {
        let change = expressions::give_place_back(&attribute(place));
        // Refused if it was taken over, or cleared because its time was over.
        self.table.update(&keys::legs(&place.task.owner), change).await.map(drop)
    }
}
