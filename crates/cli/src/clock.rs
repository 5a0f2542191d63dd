//! Time, as the command's user has it.

#![expect(clippy::disallowed_methods, reason = "a command waits, and tells ages, in real time")]

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

pub(crate) fn instant() -> Instant {
    Instant::now()
}

pub(crate) fn system_time() -> SystemTime {
    SystemTime::now()
}

pub(crate) fn timestamp() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or_default()
}

/// How long ago a server's timestamp was, in words; empty if it is not a timestamp.
pub(crate) fn age(moment: &str) -> String {
    let Ok(then) = moment.parse::<Timestamp>() else { return String::new() };
    let seconds = timestamp().as_second().saturating_sub(then.as_second()).max(0);
    in_words(Duration::from_secs(seconds.unsigned_abs()))
}

/// How long it is from one moment to another that a server wrote; `None` if these are not moments.
pub(crate) fn between(from: &str, to: &str) -> Option<String> {
    let (from, to): (Timestamp, Timestamp) = (from.parse().ok()?, to.parse().ok()?);
    let ms = to.as_millisecond().saturating_sub(from.as_millisecond()).max(0).unsigned_abs();
    Some(if ms < 1_000 { format!("{ms} ms") } else { in_words(Duration::from_millis(ms)) })
}

/// For example `4 s`, `3 min` or `2 h`.
pub(crate) fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// A time such as `90s`, `10m`, `1.5h` or `2d`; seconds without a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let end = text.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err("write a time such as 90s, 10m or 2h".to_owned()),
    };
    let number: f64 = number.trim().parse().map_err(|_not| "write a time such as 90s, 10m or 2h".to_owned())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

/// A moment such as `2026-12-01T09:00Z`; one without a zone is in this machine's.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    moment_in(text, TimeZone::system())
}

fn moment_in(text: &str, zone: TimeZone) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    // A date alone is not what anybody means by a moment.
    let local = text.parse::<DateTime>().ok().filter(|_| text.contains([':', 'T', 't']));
    let zoned = local.and_then(|local| local.to_zoned(zone).ok());
    zoned.map(|zoned| zoned.timestamp()).ok_or_else(|| "write a moment such as 2026-12-01T09:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_a_zone_or_is_in_that_of_the_machine() {
        let zone = TimeZone::fixed(jiff::tz::Offset::constant(1));
        let read = |text: &str| moment_in(text, zone.clone()).map(|moment| moment.to_string()).ok();
        for text in ["2026-12-01T09:00Z", "2026-12-01T10:00+01:00", "2026-12-01T10:00", "2026-12-01 10:00:00"] {
            assert_eq!(read(text).as_deref(), Some("2026-12-01T09:00:00Z"), "{text}");
        }
        for wrong in ["", "tomorrow", "2026-12-01", "09:00", "2h", "2026-13-01T09:00Z"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_read_with_their_units() {
        let read = |text| duration(text).map(|time| time.as_millis()).ok();
        assert_eq!(["5", "90s", "1.5h", "2m", "250ms"].map(read), [5_000, 90_000, 5_400_000, 120_000, 250].map(Some));
        for wrong in ["", "s", "5y", "-1s", "1m30s", "1e400"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
