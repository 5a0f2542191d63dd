//! Schedules: calls that the server makes on its own, at the times of a cron line.

use std::fmt;
use std::time::Duration;

use longhaul_core::{OwnerId, limits};
use serde_json::Value;

mod times;

pub(crate) use times::Times;

/// A missed run starts late, up to this long after its time, by default.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(3600);

/// Calls of a tool that the server makes on its own, as tasks, at the times of a cron line. `Server::schedule` takes
/// it.
///
/// A cron line has five fields: minute, hour, day of the month, month, day of the week. They take numbers, `*`, lists,
/// ranges, steps and names (`MON`, `JAN`). `L` is the last day, `W` the nearest weekday, `#` the nth weekday of a
/// month. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` stand for whole lines. If both days are given,
/// either is enough.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// use std::time::Duration;
/// use longhaul::{Overlap, Schedule};
/// use serde_json::json;
///
/// let schedule = Schedule::new("nightly", "30 3 * * MON-FRI", "report", json!({"region": "north"}))
///     .time_zone("Europe/Berlin")
///     .overlap(Overlap::Allow)
///     .catch_up_within(Duration::from_secs(6 * 3600));
/// # let _ = schedule;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub(crate) name: String,
    pub(crate) cron: String,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) time_zone: Option<String>,
    pub(crate) overlap: Overlap,
    pub(crate) catch_up_within: Duration,
    pub(crate) owner: Option<OwnerId>,
}

/// How a schedule handles a time at which its last task has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Nothing: this run is left out.
    #[default]
    Skip,
    /// A second task runs at the same time as the first one.
    Allow,
}

impl Schedule {
    /// Calls `tool` with `arguments`, a JSON object or null, at the times of `cron` in UTC. The name is part of the ids
    /// of the tasks: keep it when anything else of the schedule changes.
    pub fn new(name: impl Into<String>, cron: impl Into<String>, tool: impl Into<String>, arguments: Value) -> Self {
        Self {
            name: name.into(),
            cron: cron.into(),
            tool: tool.into(),
            arguments,
            time_zone: None,
            overlap: Overlap::default(),
            catch_up_within: CATCH_UP_WITHIN,
            owner: None,
        }
    }

    /// Reads the cron line in a time zone of the IANA database, such as `Europe/Berlin`, instead of UTC. Where a clock
    /// is put forward, a time that it leaves out becomes the first time after the gap. Where a clock is put back, a
    /// line with fixed hours and minutes has the first of the two times. A line with steps or `*` has both.
    #[must_use]
    pub fn time_zone(mut self, name: impl Into<String>) -> Self {
        self.time_zone = Some(name.into());
        self
    }

    /// Sets how a time is handled at which the last task has not ended. The default is [`Overlap::Skip`].
    #[must_use]
    pub const fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets how late a run may start that was missed because no server was running: an hour by default. If several runs
    /// were missed, only the latest starts. With zero, a run that is late by more than two minutes is left out.
    #[must_use]
    pub const fn catch_up_within(mut self, window: Duration) -> Self {
        self.catch_up_within = window;
        self
    }

    /// Sets the owner of the tasks, who may see and cancel them, and whose limits they count against. Without an owner,
    /// the tasks belong to the anonymous owner on a server whose callers are one user, as with `--auth loopback`. On
    /// every other server they belong to an owner that no caller has, so that only the log shows them.
    #[must_use]
    pub const fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = Some(owner);
        self
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (`{}` in {})", self.name, self.cron, self.time_zone.as_deref().unwrap_or("UTC"))
    }
}

/// A schedule that cannot be kept. Its sentence says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schedule `{schedule}` cannot be kept: {fault}")]
#[non_exhaustive]
pub struct ScheduleError {
    /// Its name.
    pub schedule: String,
    /// The fault.
    pub fault: ScheduleFault,
}

/// A fault of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleFault {
    /// Its name is empty or too long.
    #[error("a name has 1 to {} bytes", limits::NAME_BYTES_MAX)]
    Name,
    /// Another schedule has this name.
    #[error("another schedule has this name, and the ids of tasks are made of it: choose another one")]
    NameTaken,
    /// There are too many schedules.
    #[error("a server has at most {} schedules", limits::SCHEDULES_MAX)]
    TooMany,
    /// The cron line cannot be read.
    #[error(
        "`{cron}` is not a cron line of five fields (minute, hour, day of the month, month, day of the week): {why}"
    )]
    Cron {
        /// The line.
        cron: String,
        /// The fault of the line.
        why: String,
    },
    /// The cron line has no time.
    #[error("`{cron}` never comes: there is no such day")]
    Never {
        /// The line.
        cron: String,
    },
    /// The time zone does not exist.
    #[error(
        "there is no time zone `{zone}`: use a name of the IANA database, such as `Europe/Berlin`, or leave it out for \
         UTC"
    )]
    TimeZone {
        /// Its name.
        zone: String,
    },
    /// The handler does not have the tool.
    #[error("there is no tool `{tool}`{}", .nearest.as_ref().map_or_else(String::new, |nearest| format!("; did you \
        mean `{nearest}`?")))]
    UnknownTool {
        /// The tool's name.
        tool: String,
        /// The most similar name among the handler's tools, if any is similar enough.
        nearest: Option<String>,
    },
    /// Calls of the tool do not become tasks.
    #[error("calls of the tool `{tool}` do not become tasks: name it with `Server::task`, too")]
    NeverATask {
        /// The tool's name.
        tool: String,
    },
    /// The tool does not accept the arguments.
    #[error("{why}")]
    Arguments {
        /// The reason, from the tool's schema.
        why: String,
    },
}
