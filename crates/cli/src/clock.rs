//! Time, as the user of the command reads it.

#![expect(clippy::disallowed_methods, reason = "a command waits, and tells ages, in real time")]

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use longhaul_client::time::in_words;

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

/// The time between two timestamps of a server; `None` if they are not times.
pub(crate) fn between(from: &str, to: &str) -> Option<String> {
    let (from, to): (Timestamp, Timestamp) = (from.parse().ok()?, to.parse().ok()?);
    let ms = to.as_millisecond().saturating_sub(from.as_millisecond()).max(0).unsigned_abs();
    Some(if ms < 1_000 { format!("{ms} ms") } else { in_words(Duration::from_millis(ms)) })
}

/// A time such as `2026-12-01T09:00Z`; one without a zone is in this machine's.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    moment_in(text, TimeZone::system())
}

fn moment_in(text: &str, zone: TimeZone) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    // A date alone is not a time.
    let local = text.parse::<DateTime>().ok().filter(|_| text.contains([':', 'T', 't']));
    let zoned = local.and_then(|local| local.to_zoned(zone).ok());
    zoned.map(|zoned| zoned.timestamp()).ok_or_else(|| "write a time such as 2026-12-01T09:00Z".to_owned())
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
}
