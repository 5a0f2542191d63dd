//! The terms on which a tool runs.

use std::time::Duration;

use crate::limits;

/// Whether a call that was interrupted may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// If the server says that the tool is read-only or idempotent.
    Hints,
    /// Yes, whatever the server says.
    Always,
    /// No, whatever the server says.
    Never,
}

/// Whether a call becomes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// Yes, and survives crashes.
    Always,
    /// The same, for callers who know tasks. All others are refused.
    Required,
    /// No: it is passed on while its caller waits, and nothing is stored.
    Never,
}

/// What a configuration says about a tool; `None` where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Without it, as the server says.
    pub(crate) durable: Option<Durable>,
    pub(crate) handle_after: Option<Duration>,
    pub(crate) run_at_most: Option<Duration>,
    pub(crate) retention: Option<Duration>,
    pub(crate) repeat: Option<Repeat>,
    /// Calls of a tool at a time. Servers have a number of their own.
    pub(crate) concurrency: Option<usize>,
}

impl Terms {
    /// How long a call may take.
    pub(crate) fn run_at_most(&self) -> Duration {
        self.run_at_most.unwrap_or(limits::RUN_MAX)
    }

    /// These, and `other` where they say nothing.
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            durable: self.durable.or(other.durable),
            handle_after: self.handle_after.or(other.handle_after),
            run_at_most: self.run_at_most.or(other.run_at_most),
            retention: self.retention.or(other.retention),
            repeat: self.repeat.or(other.repeat),
            concurrency: self.concurrency.or(other.concurrency),
        }
    }
}

/// A time with its unit, such as `90s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let digits = text.trim_end_matches(|next: char| !next.is_ascii_digit());
    let unit = text.strip_prefix(digits).and_then(|unit| UNITS.iter().find(|(name, _)| *name == unit));
    let ms = unit.and_then(|(_, ms)| digits.parse::<u64>().ok()?.checked_mul(*ms));
    ms.map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is not a time: write a number and ms, s, m, h or d, such as \"90s\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        let ms = |text| duration(text).map(|time| time.as_millis());
        assert_eq!(
            ["5ms", "0s", "2m", "3h", "1d"].map(|text| ms(text).unwrap()),
            [5, 0, 120_000, 10_800_000, 86_400_000]
        );
        for wrong in ["", "5", "s", "-1s", "1.5h", "5 s", "5S", "99999999999999999999ms", "18446744073709551615d"] {
            assert!(ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn terms_fill_each_other_up() {
        let (never, short) = (
            Terms { repeat: Some(Repeat::Never), ..Terms::default() },
            Terms { repeat: Some(Repeat::Always), run_at_most: Some(Duration::from_secs(1)), ..Terms::default() },
        );
        let both = never.or(&short);
        assert_eq!((both.repeat, both.run_at_most), (Some(Repeat::Never), Some(Duration::from_secs(1))));
    }
}
