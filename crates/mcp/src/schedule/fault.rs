//! Why a server does not start with a schedule.

use longhaul_core::limits;

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
