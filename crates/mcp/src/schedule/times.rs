//! The times of a cron line.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp as Instant, Zoned};
use longhaul_core::Timestamp;

use super::{Schedule, ScheduleFault};

/// A line that has a time has one within the 28 years in which all weekdays meet all dates, or within twice that where
/// a century leaves out a leap day. The start of the search does not matter, so it needs no clock.
const SEARCHED_FROM_S: i64 = 946_684_800;

/// When a schedule's runs are due: whole minutes.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    cron: Cron,
    zone: TimeZone,
}

impl Times {
    /// The times of `schedule`. Fails for a line that cannot be read or has no times, and a zone that does not exist.
    pub(crate) fn of(schedule: &Schedule) -> Result<Self, ScheduleFault> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let line = schedule.cron.as_str();
        let cron = parser
            .parse(line)
            .map_err(|error| ScheduleFault::Cron { cron: line.to_owned(), why: error.to_string() })?;
        let zone = match &schedule.time_zone {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|_unknown| ScheduleFault::TimeZone { zone: name.clone() })?,
        };
        let times = Self { cron, zone };
        let from = Instant::from_second(SEARCHED_FROM_S).unwrap_or(Instant::UNIX_EPOCH);
        match times.cron.find_next_occurrence(&from.to_zoned(times.zone.clone()), true) {
            Ok(_first) => Ok(times),
            Err(_none) => Err(ScheduleFault::Never { cron: line.to_owned() }),
        }
    }

    /// The latest time that is not after `now`.
    pub(crate) fn latest(&self, now: Timestamp) -> Option<Timestamp> {
        stamp(&self.cron.find_previous_occurrence(&self.zoned(now)?, true).ok()?)
    }

    /// The latest time before `time`, which is one.
    pub(crate) fn before(&self, time: Timestamp) -> Option<Timestamp> {
        stamp(&self.cron.find_previous_occurrence(&self.zoned(time)?, false).ok()?)
    }

    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        stamp(&self.cron.find_next_occurrence(&self.zoned(now)?, false).ok()?)
    }

    /// To the second, as all times are.
    fn zoned(&self, at: Timestamp) -> Option<Zoned> {
        let instant = Instant::from_second(i64::try_from(at.as_ms() / 1_000).ok()?).ok()?;
        Some(instant.to_zoned(self.zone.clone()))
    }
}

fn stamp(zoned: &Zoned) -> Option<Timestamp> {
    u64::try_from(zoned.timestamp().as_millisecond()).ok().map(Timestamp::from_ms)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn times(cron: &str, zone: Option<&str>) -> Result<Times, ScheduleFault> {
        let schedule = Schedule::new("a", cron, "tool", Value::Null);
        Times::of(&zone.into_iter().fold(schedule, Schedule::time_zone))
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::from_ms(u64::try_from(text.parse::<Instant>().unwrap().as_millisecond()).unwrap())
    }

    #[test]
    fn a_time_counts_from_its_own_moment_on() {
        let times = times("*/15 3 * * *", None).unwrap();
        assert_eq!(times.latest(at("2026-11-23T03:15:00Z")), Some(at("2026-11-23T03:15:00Z")));
        assert_eq!(times.latest(at("2026-11-23T03:14:59.999Z")), Some(at("2026-11-23T03:00:00Z")));
        assert_eq!(times.latest(at("2026-11-23T03:15:00.001Z")), Some(at("2026-11-23T03:15:00Z")));
        assert_eq!(times.before(at("2026-11-23T03:00:00Z")), Some(at("2026-11-22T03:45:00Z")));
        assert_eq!(times.next(at("2026-11-23T03:45:00Z")), Some(at("2026-11-24T03:00:00Z")));
        assert_eq!(times.next(at("2026-11-23T02:59:59.999Z")), Some(at("2026-11-23T03:00:00Z")));
    }

    #[test]
    fn a_clock_that_is_put_forward_leaves_no_run_out() {
        let times = times("30 2 * * *", Some("Europe/Berlin")).unwrap();
        assert_eq!(times.latest(at("2026-03-28T12:00:00Z")), Some(at("2026-03-28T01:30:00Z")));
        let in_the_gap = times.latest(at("2026-03-29T12:00:00Z"));
        assert_eq!(in_the_gap, Some(at("2026-03-29T01:00:00Z")), "the first moment after the gap");
        assert_eq!(times.next(at("2026-03-29T01:00:00Z")), Some(at("2026-03-30T00:30:00Z")));
    }

    #[test]
    fn a_clock_that_is_put_back_repeats_no_run_at_a_fixed_time() {
        let times = times("30 2 * * *", Some("Europe/Berlin")).unwrap();
        assert_eq!(times.next(at("2026-10-24T12:00:00Z")), Some(at("2026-10-25T00:30:00Z")));
        assert_eq!(times.next(at("2026-10-25T00:30:00Z")), Some(at("2026-10-26T01:30:00Z")));
        assert_eq!(times.latest(at("2026-10-25T12:00:00Z")), Some(at("2026-10-25T00:30:00Z")));
    }

    #[test]
    fn looking_back_and_looking_ahead_agree() {
        for (cron, zone) in [
            ("30 2 * * *", "Europe/Berlin"),
            ("0 * * * *", "America/New_York"),
            ("*/20 1-3 * * *", "Australia/Lord_Howe"),
            ("0 0 L * *", "UTC"),
            ("15 9 * * MON#1", "Asia/Kolkata"),
        ] {
            let times = times(cron, Some(zone)).unwrap();
            let mut time = times.next(at("2026-01-01T00:00:00Z")).unwrap();
            for _ in 0..400 {
                assert_eq!(times.latest(time), Some(time), "{cron} in {zone}");
                let next = times.next(time).unwrap();
                assert_eq!(times.latest(next.minus_ms(1)), Some(time), "{cron} in {zone}");
                assert_eq!(times.before(next), Some(time), "{cron} in {zone}");
                time = next;
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
            let refused = times(never, None).unwrap_err();
            assert_eq!(refused, ScheduleFault::Never { cron: never.to_owned() });
        }
        assert!(times("0 0 29 2 *", None).is_ok(), "leap years come");
        for wrong in ["", "daily", "* * * *", "60 * * * *", "* * * * * *", "0 0 1 1 * 2030", "*/0 * * * *", "@reboot"] {
            assert!(matches!(times(wrong, None), Err(ScheduleFault::Cron { .. })), "{wrong}: {:?}", times(wrong, None));
        }
        let refused = times("@daily", Some("Europe/Berlln")).unwrap_err();
        assert_eq!(refused, ScheduleFault::TimeZone { zone: "Europe/Berlln".to_owned() });
        assert!(times("@daily", Some("America/Argentina/Buenos_Aires")).is_ok());
    }
}
