//! What an author says about calls that the server makes by itself, at the times of a cron line.

use std::fmt;
use std::time::Duration;

use longhaul_core::{OwnerId, limits};
use serde_json::Value;

mod times;

pub(crate) use times::Times;

/// A missed run is made up for as long as this by default.
const MADE_UP_WITHIN: Duration = Duration::from_secs(3600);

/// Calls of a tool that the server makes by itself, as tasks, at the times of a cron line. `Server::schedule` takes it.
///
/// A cron line has five fields: minute, hour, day of the month, month, day of the week. Besides numbers, `*`, lists,
/// ranges and steps there are `L` for the last day, `W` for the nearest weekday, `#` for the nth weekday of a month,
/// names (`MON`, `JAN`) and `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly`. If both days are given, either is
/// enough.
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

/// What happens at a time of a schedule whose last task has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Nothing: this run is left out.
    #[default]
    Skip,
    /// A second task runs beside the first one.
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
            catch_up_within: MADE_UP_WITHIN,
            owner: None,
        }
    }

    /// Reads the cron line in a time zone of the IANA database, such as `Europe/Berlin`, in place of UTC. Where a clock
    /// is put forward, a time that it leaves out is the first moment after the gap. Where it is put back, a line with
    /// fixed hours and minutes has the first of the two times, and one with steps or `*` has both.
    #[must_use]
    pub fn time_zone(mut self, name: impl Into<String>) -> Self {
        self.time_zone = Some(name.into());
        self
    }

    /// What happens at a time at which the last task has not ended; [`Overlap::Skip`] unless this is said.
    #[must_use]
    pub const fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// How long after its time a run that was missed is made up for, because no server was there: an hour by default.
    /// Of several such runs only the latest is. With zero, a run that is late by more than two minutes is left out.
    #[must_use]
    pub const fn catch_up_within(mut self, window: Duration) -> Self {
        self.catch_up_within = window;
        self
    }

    /// Whose tasks they are: who may see and cancel them, and whose limits they count against. Without this, they are
    /// those of the anonymous owner on a server whose callers are one user, as with `--auth loopback`, and on every
    /// other server those of an owner who is no caller, so that only the log tells of them.
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
    /// What is wrong with it.
    pub fault: ScheduleFault,
}

/// What is wrong with a schedule.
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
        /// What is wrong with it.
        why: String,
    },
    /// The cron line has no time.
    #[error("`{cron}` never comes: there is no such day")]
    Never {
        /// The line.
        cron: String,
    },
    /// There is no such time zone.
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
    /// The arguments are not what the tool takes.
    #[error("{why}")]
    Arguments {
        /// What is wrong with them.
        why: String,
    },
}
