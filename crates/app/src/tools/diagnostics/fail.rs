//! `fail`: goes wrong in the way that it is told.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest wait before failing, in seconds.
pub const AFTER_S_MAX: f64 = 3_600.0;

/// A way to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Answer with a result that says it is an error.
    ToolError,
    /// Answer with a protocol error.
    ProtocolError,
    /// Panic.
    Panic,
    /// End the process at once, as a crash would.
    Exit,
    /// Never answer.
    Hang,
    /// Answer with a result that is larger than allowed.
    TooLarge,
}

/// The arguments of `fail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailArgs {
    /// The way to go wrong.
    pub how: FailureKind,
    /// How many seconds to run before that: 0 to 3,600, also a fraction.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3_600))]
    pub after_s: f64,
}

/// The wait cannot be kept.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("`after_s` is {0}: it must be between 0 and {AFTER_S_MAX}")]
pub struct FailError(f64);

impl FailArgs {
    /// How long to run before failing.
    ///
    /// # Errors
    ///
    /// [`FailError`] if that is negative, too long or no number.
    pub fn after(&self) -> Result<Duration, FailError> {
        if !(0.0..=AFTER_S_MAX).contains(&self.after_s) {
            return Err(FailError(self.after_s));
        }
        Ok(Duration::from_secs_f64(self.after_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_optional_and_limited() {
        let args: FailArgs = serde_json::from_str("{\"how\": \"too_large\"}").unwrap();
        assert_eq!((args.how, args.after()), (FailureKind::TooLarge, Ok(Duration::ZERO)));
        for after_s in [-1.0, 3_601.0] {
            assert_eq!(FailArgs { after_s, ..args.clone() }.after(), Err(FailError(after_s)));
        }
    }
}
