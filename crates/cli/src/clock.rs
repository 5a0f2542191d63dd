//! Time, as the command's user has it.

#![expect(clippy::disallowed_methods, reason = "a command waits, and tells ages, in real time")]

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;

pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

pub(crate) fn instant() -> Instant {
    Instant::now()
}

pub(crate) fn timestamp() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or_default()
}

/// How long ago a moment was that a server wrote, in words; nothing if that is no moment.
pub(crate) fn age(moment: &str) -> String {
    let Ok(then) = moment.parse::<Timestamp>() else { return String::new() };
    let seconds = timestamp().as_second().saturating_sub(then.as_second()).max(0);
    in_words(Duration::from_secs(seconds.unsigned_abs()))
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
///
/// # Errors
/// What to write instead.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        let read = |text| duration(text).map(|time| time.as_millis()).ok();
        assert_eq!(["5", "90s", "1.5h", "2m", "250ms"].map(read), [5_000, 90_000, 5_400_000, 120_000, 250].map(Some));
        for wrong in ["", "s", "5y", "-1s", "1m30s", "1e400"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
