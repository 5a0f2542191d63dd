//! Time, as the reader of a page sees it.

#![expect(clippy::disallowed_methods, reason = "pages tell ages, and wait between two looks, in real time")]

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use longhaul_client::time::in_words;

pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

pub(crate) fn instant() -> Instant {
    Instant::now()
}

pub(crate) fn now() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or_default()
}

/// A time that a server wrote, in milliseconds since 1970; `None` if the text is not a time.
pub(crate) fn moment_ms(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

/// A length of time in words, exact below two seconds.
pub(crate) fn exact_ms(ms: i64) -> String {
    match ms {
        ..1_000 => format!("{} ms", ms.max(0)),
        1_000..10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => in_words_ms(ms),
    }
}

/// A length of time in words, such as `4 s`, `3 min` or `2 h 5 min`.
pub(crate) fn in_words_ms(ms: i64) -> String {
    in_words(Duration::from_millis(ms.max(0).unsigned_abs()))
}

/// A time to the second, as `2026-11-23 04:05:30 UTC`; nothing if it is out of range.
pub(crate) fn written(ms: i64) -> String {
    let moment = Timestamp::from_millisecond(ms).unwrap_or_default();
    moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A time of day, as `04:05:30`.
pub(crate) fn time_of_day(ms: i64) -> String {
    Timestamp::from_millisecond(ms).unwrap_or_default().strftime("%H:%M:%S").to_string()
}

/// A time of day to the minute, as `04:05`.
pub(crate) fn minute_of_day(ms: i64) -> String {
    Timestamp::from_millisecond(ms).unwrap_or_default().strftime("%H:%M").to_string()
}

/// A day and time to the minute, as `11-23 04:05`.
pub(crate) fn day_and_minute(ms: i64) -> String {
    Timestamp::from_millisecond(ms).unwrap_or_default().strftime("%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_said_in_words() {
        let cases = [
            (5, "5 ms"),
            (1_250, "1.2 s"),
            (59_000, "59 s"),
            (600_000, "10 min"),
            (7_080_000, "1 h 58 min"),
            (7_500_000, "2 h 5 min"),
        ];
        for (ms, expected) in cases {
            assert_eq!(exact_ms(ms), expected);
        }
        assert_eq!(in_words_ms(180_000_000), "2 d 2 h");
        assert_eq!(in_words_ms(-5), "0 s");
    }

    #[test]
    fn moments_are_read_and_written() {
        let ms = moment_ms("2026-11-23T04:05:30.636Z").unwrap();
        assert_eq!((written(ms).as_str(), time_of_day(ms).as_str()), ("2026-11-23 04:05:30 UTC", "04:05:30"));
        assert_eq!(moment_ms("yesterday"), None);
    }
}
