//! The conditions and changes of the item that has the permits of an owner's attempts.

use longhaul_core::Timestamp;

use super::UNCHANGED;
use crate::change::{Change, Condition};
use crate::item::{ATTEMPTS, TTL, number, seconds, text};

/// May the owner run one more attempt?
const PERMIT_IS_FREE: &str = "attribute_not_exists(#legs) OR #legs < :attempts_max";

/// The permit of an attempt, as an attribute of its owner's item.
#[derive(Clone, Debug)]
pub(crate) struct Permit {
    pub(crate) name: String,
    pub(crate) value: String,
    /// When the item may be deleted, if nothing else is written to it.
    pub(crate) ttl: Timestamp,
}

/// Takes a permit, if the task has none and its owner not too many.
pub(crate) fn take_permit(permit: &Permit, attempts_max: u32) -> Change {
    let has_none = format!("attribute_not_exists(#{})", permit.name);
    let condition = Condition::all(&[&has_none, PERMIT_IS_FREE]).with(":attempts_max", number(attempts_max));
    set_permit(Change::upsert(condition), permit).add_or_insert(ATTEMPTS, 1)
}

/// Takes over the permit that another attempt of the task has, if it is still this one.
pub(crate) fn take_over_permit(permit: &Permit, held: &Permit) -> Change {
    let condition = Condition::that(&format!("#{} = :held", held.name)).with(":held", text(&held.value));
    set_permit(Change::when(condition), permit)
}

/// Takes a permit, after those called `over` have been cleared: then there are so many. The item is as it was seen.
pub(crate) fn clear_and_take_permit(permit: &Permit, revision: u64, over: &[String], attempts: u32) -> Change {
    let change = Change::when(Condition::that(UNCHANGED).with(":revision", number(revision)));
    let change = set_permit(change, permit).set(ATTEMPTS, number(attempts));
    over.iter().fold(change, |change, name| change.remove(name))
}

fn set_permit(change: Change, permit: &Permit) -> Change {
    change.set(&permit.name, text(&permit.value)).set(TTL, seconds(permit.ttl))
}

/// Gives a permit back.
pub(crate) fn give_permit_back(permit: &Permit) -> Change {
    let condition = Condition::that(&format!("#{} = :permit", permit.name)).with(":permit", text(&permit.value));
    Change::when(condition).add(ATTEMPTS, -1).remove(&permit.name)
}
