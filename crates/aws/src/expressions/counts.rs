//! The conditions and changes of the item that counts what an owner has.

use longhaul_core::ports::NewTask;
use longhaul_core::{Timestamp, WEBHOOK_DELIVERY_TOOL};

use super::EXISTS;
use crate::change::{Change, Condition, Expression};
use crate::item::{NEW, NEW_SINCE, OPEN, RECOUNT_AFTER, STORED, moment, number, text};

/// Is the task that a query found unfinished, and no webhook delivery?
const OPEN_UNEXPIRED: &str = "#expires_at > :now AND #state IN (:queued, :running, :sleeping, :input_required) AND \
                              #tool <> :webhook_delivery_tool";

/// Has no other process begun to count since the item was read?
const COUNT_IS_DUE: &str = "attribute_exists(#pk) AND (attribute_not_exists(#recount_after) OR #recount_after = :seen)";

/// May the owner have one more task, and is the next count due before this one expires?
const SLOT_IS_FREE: &str = "(attribute_not_exists(#open) OR #open < :open_max) \
     AND (attribute_not_exists(#recount_after) OR #recount_after <= :expires_at)";

/// The same, if this task expires before all others.
const SLOT_IS_FREE_EXPIRING_FIRST: &str = "attribute_not_exists(#open) OR #open < :open_max";

/// Do the new task's bytes fit?
const BYTES_FIT: &str = "attribute_not_exists(#stored) OR #stored <= :room";

/// May the owner create one more task in this window?
const NEW_FITS: &str = "attribute_not_exists(#new) OR #new < :new_max";

/// Has no other process begun a window since the item was read?
const WINDOW_IS_AS_SEEN: &str = "#new_since = :window_seen";

/// Is there a slot to release?
const SLOT_IS_RESERVED: &str = "#open >= :slots";

/// The counts of a task.
#[derive(Clone, Debug)]
pub(crate) struct Reserved {
    /// As how many unfinished tasks.
    pub(crate) slots: u32,
    /// As how many new ones.
    pub(crate) new: u32,
    /// As how many bytes.
    pub(crate) bytes: i64,
    /// The attribute for bytes that expire when the task does.
    pub(crate) until: String,
}

/// When the tasks are counted one by one the next time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NextCount {
    /// When the item says; if it does not say, then.
    AsSet { unless_set: Timestamp },
    /// When this task expires, before all others.
    WithThisTask,
}

/// The window in which a new task is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Window {
    /// The one that the item has.
    Current,
    /// A new one: the one that began at this time has ended.
    After { since: Timestamp },
}

impl Reserved {
    /// Whether anything of the task is counted.
    pub(crate) const fn counts(&self) -> bool {
        self.slots > 0 || self.new > 0 || self.bytes > 0
    }
}

/// One more task. The first task of an owner sets the time of the next count. A task that expires before all others
/// does too.
pub(crate) fn reserve(
    new: &NewTask,
    reserved: &Reserved,
    next_count: NextCount,
    window: Window,
    now: Timestamp,
) -> Change {
    let expires_at = new.task.expires_at;
    let slot = match next_count {
        NextCount::AsSet { .. } => SLOT_IS_FREE,
        NextCount::WithThisTask => SLOT_IS_FREE_EXPIRING_FIRST,
    };
    let condition =
        Condition::all(&[slot, BYTES_FIT]).with(":open_max", number(new.open_max)).with(":room", number(room_in(new)));
    let change = Change::upsert(condition).add_or_insert(OPEN, i64::from(reserved.slots));
    let change = match next_count {
        NextCount::AsSet { unless_set } => change
            .with(":expires_at", moment(expires_at))
            .set_if_absent(RECOUNT_AFTER, moment(unless_set.min(expires_at))),
        NextCount::WithThisTask => change.set(RECOUNT_AFTER, moment(expires_at)),
    };
    store_bytes(one_more_in(window, change, new, reserved, now), reserved)
}

/// Counts a new task in this window, if the owner may not create any number.
fn one_more_in(window: Window, change: Change, new: &NewTask, reserved: &Reserved, now: Timestamp) -> Change {
    let Some(new_max) = new.new_max else { return change };
    match window {
        Window::Current => {
            let change = change.and(NEW_FITS).with(":new_max", number(new_max));
            change.add_or_insert(NEW, i64::from(reserved.new)).set_if_absent(NEW_SINCE, moment(now))
        }
        Window::After { since } => {
            let change = change.and(WINDOW_IS_AS_SEEN).with(":window_seen", moment(since));
            change.set(NEW, number(reserved.new)).set(NEW_SINCE, moment(now))
        }
    }
}

/// Counts bytes until they expire.
fn store_bytes(change: Change, reserved: &Reserved) -> Change {
    if reserved.bytes == 0 {
        return change;
    }
    change.add_or_insert(STORED, reserved.bytes).add_or_insert(&reserved.until, reserved.bytes)
}

/// One task less, which was not created after all.
pub(crate) fn release(reserved: &Reserved) -> Change {
    let change = end_of(&Reserved { bytes: -reserved.bytes, ..reserved.clone() });
    if reserved.new == 0 { change } else { change.add_or_insert(NEW, -i64::from(reserved.new)) }
}

/// One unfinished task less, and its result.
pub(crate) fn end_of(ended: &Reserved) -> Change {
    let condition = match ended.slots {
        0 => Condition::that(EXISTS),
        slots => Condition::that(SLOT_IS_RESERVED).with(":slots", number(slots)),
    };
    let change = Change::when(condition);
    let change = if ended.slots == 0 { change } else { change.add(OPEN, -i64::from(ended.slots)) };
    store_bytes(change, ended)
}

/// Takes bytes off the count that have expired, if no other process has. `expired` are their attributes, earliest
/// first.
pub(crate) fn forget_bytes(first: &str, expired: &[(String, i64)]) -> Change {
    let sum = expired.iter().fold(0_i64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let change = Change::when(Condition::that(&format!("attribute_exists(#{first})"))).add(STORED, -sum);
    expired.iter().fold(change, |change, (until, _)| change.remove(until))
}

/// Takes the counting of the tasks on itself: no other process counts before `until`.
pub(crate) fn begin_to_count(seen: Option<Timestamp>, until: Timestamp) -> Change {
    let seen = seen.unwrap_or(Timestamp::from_ms(0));
    Change::when(Condition::that(COUNT_IS_DUE).with(":seen", moment(seen))).set(RECOUNT_AFTER, moment(until))
}

/// The result of counting the tasks one by one: `by` more than the count said, or fewer. Tasks that were
/// created or ended meanwhile are in the count already.
pub(crate) fn correct_count(by: i64, recount_after: Timestamp) -> Change {
    Change::when(Condition::that(EXISTS)).add(OPEN, by).set(RECOUNT_AFTER, moment(recount_after))
}

/// How many bytes may be stored already if the new task is to fit.
pub(crate) fn room_in(new: &NewTask) -> i128 {
    i128::from(new.stored_max) - i128::from(new.task.stored_bytes())
}

/// The tasks of a shard that are unfinished.
pub(crate) fn open_unexpired(now: Timestamp) -> Expression {
    Condition::that(OPEN_UNEXPIRED)
        .with(":now", moment(now))
        .with(":webhook_delivery_tool", text(WEBHOOK_DELIVERY_TOOL))
        .into_expression()
}
