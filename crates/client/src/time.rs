//! Lengths of time, as people write and read them.

use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;

/// A length of time such as `90s`, `10m`, `1.5h`, `1h30m` or `2d`; seconds without a unit.
///
/// # Errors
/// The replacement.
pub fn read(text: &str) -> Result<Duration, String> {
    let read = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => with_units(text),
    };
    read.ok_or_else(|| "write a time such as 90s, 10m or 1h30m".to_owned())
}

/// Days have 24 hours; months and years have no length.
fn with_units(text: &str) -> Option<Duration> {
    let span = SpanParser::new().parse_span(text).ok()?;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok()
}

/// A length of time in words, such as `4 s`, `3 min`, `2 h 5 min` or `2 d 2 h`.
#[must_use]
pub fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..172_800 => match seconds % 3_600 / 60 {
            0 => format!("{} h", seconds / 3_600),
            minutes => format!("{} h {minutes} min", seconds / 3_600),
        },
        seconds => match seconds % 86_400 / 3_600 {
            0 => format!("{} d", seconds / 86_400),
            hours => format!("{} d {hours} h", seconds / 86_400),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        let ms = |text| read(text).map(|time| time.as_millis()).ok();
        assert_eq!(["5", "90s", "1.5h", "2m", "250ms"].map(ms), [5_000, 90_000, 5_400_000, 120_000, 250].map(Some));
        assert_eq!(["1m30s", "1h30m", "2d", "0.5"].map(ms), [90_000, 5_400_000, 172_800_000, 500].map(Some));
        for wrong in ["", "s", "5y", "2mo", "-1s", "-1", "1s ago", "1e400", "inf", "tomorrow"] {
            assert_eq!(ms(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_said_in_words() {
        let said = |seconds| in_words(Duration::from_secs(seconds));
        assert_eq!([0, 119, 120, 3_600].map(said), ["0 s", "119 s", "2 min", "1 h"]);
        assert_eq!([7_500, 172_800, 180_000].map(said), ["2 h 5 min", "2 d", "2 d 2 h"]);
    }
}
