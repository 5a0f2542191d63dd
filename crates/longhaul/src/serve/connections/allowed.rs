//! How many connections there may be, and how long each phase of one may take.

use std::time::Duration;

use longhaul_core::settings::{SettingsError, Values, table};

/// Connections of a server that may have as many file descriptors as it likes.
const TOTAL: u64 = 4_096;

/// File descriptors that are left for the database, the log and the runtime, before connections take their share.
const RESERVED: u64 = 64;

/// The limits of a server's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    pub(crate) total: usize,
    /// Connections from one address.
    pub(crate) per_address: usize,
    /// How long each phase of one may take.
    pub(crate) times: TimeLimits,
}

/// How long each phase of one connection may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeLimits {
    /// From the start of a connection to its first byte.
    pub(crate) first_byte: Duration,
    /// From there to the end of the first request's head.
    pub(crate) head: Duration,
    /// From the end of a head to the end of the body, and one second more for each `body_bytes_per_s` that arrive.
    pub(crate) body: Duration,
    /// Bytes of a body that are worth a second.
    pub(crate) body_bytes_per_s: u64,
    /// From the end of an answer to the end of the next request's head.
    pub(crate) idle: Duration,
    /// How long the other end may take no bytes of an answer.
    pub(crate) unread: Duration,
    /// How often HTTP/2 clients are asked whether they are there, and how long they may take to say so.
    pub(crate) ping: Duration,
}

impl TimeLimits {
    /// The limits of every server; how long a connection may be idle can be set.
    const DEFAULT: Self = Self {
        first_byte: Duration::from_secs(10),
        head: Duration::from_secs(10),
        body: Duration::from_secs(20),
        body_bytes_per_s: 16_384,
        idle: Duration::from_secs(120),
        unread: Duration::from_secs(60),
        ping: Duration::from_secs(20),
    };
}

/// The limits as they are set, before it is known how many file descriptors there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionSettings {
    total: Option<u64>,
    per_address: Option<u64>,
    pub(crate) times: TimeLimits,
}

impl ConnectionSettings {
    pub(crate) fn read(values: &Values) -> Result<Self, SettingsError> {
        let idle = Duration::from_millis(values.get(&table::IDLE_MS_MAX)?);
        Ok(Self {
            total: values.find(&table::CONNECTIONS_MAX)?,
            per_address: values.find(&table::CONNECTIONS_PER_ADDRESS_MAX)?,
            times: TimeLimits { idle, ..TimeLimits::DEFAULT },
        })
    }

    /// The limits in this process. Lets it have as many file descriptors as they need, if the system allows it.
    pub(crate) fn in_this_process(&self) -> ConnectionLimits {
        let wanted = self.total.unwrap_or(TOTAL);
        let descriptors = descriptors_at_least(wanted.saturating_mul(4) / 3 + RESERVED + 1);
        self.within(descriptors)
    }

    /// The limits of a process with this many file descriptors. Connections take three quarters of the
    /// descriptors that are not reserved.
    fn within(&self, descriptors: u64) -> ConnectionLimits {
        let possible = (descriptors.saturating_sub(RESERVED) / 4 * 3).max(1);
        let total = self.total.unwrap_or(TOTAL).min(possible);
        if self.total.is_some_and(|set| set > total) {
            tracing::warn!(
                connections = total,
                descriptors,
                "there are not enough file descriptors for connections-max: raise the limit (ulimit -n)"
            );
        }
        let per_address = self.per_address.unwrap_or(total / 2).clamp(1, total);
        let count = |count| usize::try_from(count).unwrap_or(usize::MAX);
        ConnectionLimits { total: count(total), per_address: count(per_address), times: self.times }
    }
}

/// The number of file descriptors that this process may have, after raising it towards `wanted` within the limit of the
/// system.
#[cfg(unix)]
fn descriptors_at_least(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    let raised = limit.maximum.map_or(wanted, |hard| wanted.min(hard));
    if soft >= raised {
        return soft;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit }) {
        Ok(()) => raised,
        Err(error) => {
            tracing::warn!(%error, soft, raised, "the limit of file descriptors could not be raised");
            soft
        }
    }
}

/// Other systems do not count sockets among files.
#[cfg(not(unix))]
fn descriptors_at_least(_wanted: u64) -> u64 {
    u64::MAX
}

#[cfg(test)]
mod tests {
    use longhaul_core::settings::Place;

    use super::*;

    impl TimeLimits {
        /// Limits that differ from each other.
        pub(crate) const fn for_tests() -> Self {
            Self {
                first_byte: Duration::from_secs(1_001),
                head: Duration::from_secs(1_002),
                body: Duration::from_secs(1_003),
                body_bytes_per_s: 1_000,
                idle: Duration::from_secs(1_004),
                unread: Duration::from_secs(900),
                ping: Duration::from_secs(1_006),
            }
        }
    }

    fn counts(values: &Values, descriptors: u64) -> (usize, usize) {
        let limits = ConnectionSettings::read(values).unwrap().within(descriptors);
        (limits.total, limits.per_address)
    }

    #[test]
    fn connections_leave_file_descriptors_for_everything_else() {
        let mut values = Values::defaults(Place::Local, &[&table::ALL]);
        assert_eq!(counts(&values, 512), (336, 168));
        assert_eq!(counts(&values, 1_024), (720, 360));
        assert_eq!(counts(&values, 1_000_000), (4_096, 2_048));
        assert_eq!(counts(&values, 10), (1, 1));
        values.set(&table::CONNECTIONS_MAX, &100);
        assert_eq!(counts(&values, 512), (100, 50));
        assert_eq!(counts(&values, 128), (48, 24));
        values.set(&table::CONNECTIONS_PER_ADDRESS_MAX, &80);
        assert_eq!(counts(&values, 512), (100, 80));
        assert_eq!(counts(&values, 128), (48, 48));
    }

    #[test]
    fn enough_descriptors_are_asked_for() {
        let mut values = Values::defaults(Place::Local, &[&table::ALL]);
        for total in [1, 2, 3, 1_000, 4_096, 100_000] {
            values.set(&table::CONNECTIONS_MAX, &total);
            let descriptors = total * 4 / 3 + RESERVED + 1;
            let (allowed, _) = counts(&values, descriptors.next_multiple_of(4));
            assert_eq!(u64::try_from(allowed).unwrap(), total);
        }
    }
}
