//! The conditions and changes of the item that has the permits of a group's attempts.

use longhaul_core::Timestamp;

use super::UNCHANGED;
use crate::change::{Change, Condition};
use crate::item::{ATTEMPTS, TTL, number, seconds, text};

/// May the group run one more attempt?
const PERMIT_IS_FREE: &str = "attribute_not_exists(#legs) OR #legs < :attempts_max";

/// The permit of an attempt, as an attribute of its group's item.
#[derive(Clone, Debug)]
pub(crate) struct Permit {
    pub(crate) name: String,
    pub(crate) value: String,
    /// When the item may be deleted, if nothing else is written to it.
    pub(crate) ttl: Timestamp,
}

/// Does every task have its permit, so that none waits?
const NOT_AWAITED: &str = "attribute_not_exists(#awaited)";

/// Takes a permit, if the task has none, its group not too many, and no other task waits.
pub(crate) fn take_permit(permit: &Permit, attempts_max: u32) -> Change {
    let has_none = format!("attribute_not_exists(#{})", permit.name);
    let condition =
        Condition::all(&[&has_none, PERMIT_IS_FREE, NOT_AWAITED]).with(":attempts_max", number(attempts_max));
    set_permit(Change::upsert(condition), permit).add_or_insert(ATTEMPTS, 1)
}

/// Takes over the permit that another attempt of the task has, if it is still this one.
pub(crate) fn take_over_permit(permit: &Permit, held: &Permit) -> Change {
    let condition = Condition::that(&format!("#{} = :held", held.name)).with(":held", text(&held.value));
    set_permit(Change::when(condition), permit)
}

/// A change of the item as it was seen. It is kept until `ttl` at least, unless something is written to it.
pub(crate) fn unchanged(revision: u64, ttl: Timestamp) -> Change {
    Change::when(Condition::that(UNCHANGED).with(":revision", number(revision))).set(TTL, seconds(ttl))
}

fn set_permit(change: Change, permit: &Permit) -> Change {
    change.set(&permit.name, text(&permit.value)).set(TTL, seconds(permit.ttl))
}

/// Gives a permit back, if no task waits for it.
pub(crate) fn give_permit_back(permit: &Permit) -> Change {
    let is_it = format!("#{} = :permit", permit.name);
    let condition = Condition::all(&[&is_it, NOT_AWAITED]).with(":permit", text(&permit.value));
    Change::when(condition).add(ATTEMPTS, -1).remove(&permit.name)
}
