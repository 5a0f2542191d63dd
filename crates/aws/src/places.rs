//! The limit of running legs per owner: one item for each owner, with an attribute for each place that is taken, and
//! their number.
//!
//! Every write changes the places and their number together, so the number is right. A place says until when its leg may
//! run, and which lease it claims. Only a leg that finds no place looks at the others: those whose time is over are
//! cleared by the write that takes one of them.

use async_trait::async_trait;
use longhaul_core::Timestamp;
use longhaul_core::ports::{LegPlace, LegPlaces, StoreError, Taken};

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

/// What happens to the place of another leg of the same task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Another {
    Keeps,
    Yields,
}

/// The places of an owner, as a leg without one finds them.
struct Seen {
    revision: u64,
    /// What the task's own attribute says, unless its time is over.
    own: Option<String>,
    /// Places of other tasks.
    others: u32,
    /// Attributes of other tasks whose time is over, no more than one write clears.
    over: Vec<String>,
    /// Those above that.
    over_left: u32,
}

impl Seen {
    fn read(item: &Item, place: &Place, now: Timestamp) -> Result<Self, Unreadable> {
        let revision = Fields(item).number(REVISION)?;
        let mut seen = Self { revision, own: None, others: 0, over: Vec::new(), over_left: 0 };
        for (name, value) in item.iter().filter(|(name, _)| is_place(name)) {
            let text = value.as_s().map_err(|_other_type| Unreadable { attribute: LEG })?;
            let until = text.split_once('#').and_then(|(until_ms, _lease)| until_ms.parse().ok());
            let is_over = Timestamp::from_ms(until.ok_or(Unreadable { attribute: LEG })?) <= now;
            match (*name == place.name, is_over) {
                (true, true) => {}
                (true, false) => seen.own = Some(text.clone()),
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
        value: format!("{}#{}", place.until.as_ms(), place.lease),
        ttl: place.until.plus_ms(KEPT_MS),
    }
}

impl DynamoStore {
    async fn take_place(
        &self,
        leg: &LegPlace,
        legs_max: u32,
        another: Another,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        let (key, place) = (keys::legs(&leg.task.owner), attribute(leg));
        let mut change = match another {
            Another::Keeps => expressions::take_place(&place, legs_max),
            Another::Yields => expressions::take_over_place(&place),
        };
        for _ in 0..TRIES_MAX {
            let seen = match self.table.update(&key, change).await? {
                Written::Done(_) => return Ok(Taken::Place),
                Written::Refused(Some(item)) => Seen::read(&item, &place, now)?,
                Written::Refused(None) => {
                    change = expressions::take_place(&place, legs_max);
                    continue;
                }
            };
            match (&seen.own, another) {
                // The write was sent twice, and the first one arrived.
                (Some(own), _) if *own == place.value => return Ok(Taken::Place),
                (Some(_), Another::Keeps) => return Ok(Taken::Held),
                (Some(_), Another::Yields) => {}
                (None, _) if seen.others >= legs_max => return Ok(Taken::Full),
                (None, _) => {}
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
        self.take_place(place, legs_max, Another::Keeps, now).await
    }

    async fn take_over(&self, place: &LegPlace, legs_max: u32, now: Timestamp) -> Result<Taken, StoreError> {
        self.take_place(place, legs_max, Another::Yields, now).await
    }

    async fn give_back(&self, place: &LegPlace) -> Result<(), StoreError> {
        let change = expressions::give_place_back(&attribute(place));
        // Refused if it was taken over, or cleared because its time was over.
        self.table.update(&keys::legs(&place.task.owner), change).await.map(drop)
    }
}
