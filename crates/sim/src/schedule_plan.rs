//! When a schedule of a world is due, and what is done with times that overlap or were missed.

/// A schedule, which is due at each multiple of an interval since the epoch.
#[derive(Clone, Debug)]
pub struct SchedulePlan {
    /// How often it is due: a number of minutes that divides an hour, in milliseconds.
    pub every_ms: u64,
    /// Whether a time is left out if its predecessor's task has not ended.
    pub overlap: Overlaps,
    /// How late a missed run is still caught up.
    pub made_up_within_ms: u64,
    /// The call whose plan its tasks follow.
    pub call: usize,
    /// The clocks of the pollers, against the true time.
    pub lookers: Vec<i64>,
    /// How long they pause between two polls.
    pub poll_ms: u64,
    /// The longest time until a poller that has stopped is replaced.
    pub away_ms: u64,
}

/// The treatment of a time whose predecessor's task has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlaps {
    /// It is left out.
    LeftOut,
    /// It has a task of its own.
    Allowed,
}
