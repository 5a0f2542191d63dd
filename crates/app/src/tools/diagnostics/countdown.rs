//! `countdown`: runs for a given time, in steps that are not repeated after a crash.

use std::time::Duration;

use longhaul::TaskContext;
use longhaul::rmcp::handler::server::wrapper::{Json, Parameters};
use longhaul::rmcp::{self, ErrorData, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::App;
use crate::tools::refused;

/// The maximum length of a countdown, in seconds: a day.
pub const SECONDS_MAX: f64 = 86_400.0;

/// The maximum number of steps: each is an entry in the task's journal, which holds 4,096.
pub const STEPS_MAX: u32 = 4_000;

/// The arguments of `countdown`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountdownArgs {
    /// How long to run, in seconds: 0 to 86,400, fractions allowed.
    #[schemars(range(min = 0, max = 86_400))]
    pub seconds: f64,
    /// The number of steps that the time is divided into, 1 to 4,000; each reports progress.
    #[serde(default = "default_steps")]
    #[schemars(range(min = 1, max = 4_000))]
    pub steps: u32,
}

const fn default_steps() -> u32 {
    10
}

/// The result of `countdown`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CountdownAnswer {
    /// The requested number of seconds.
    pub seconds: f64,
    /// The number of steps that were run.
    pub steps: u32,
    /// How many attempts it took: 1, plus one for each time that the work was resumed.
    pub attempts: u32,
}

/// Why a countdown is refused.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CountdownError {
    /// Not a time that can be waited for.
    #[error("`seconds` is {0}: it must be between 0 and {SECONDS_MAX}")]
    Seconds(f64),
    /// No steps, or too many.
    #[error("`steps` is {0}: it must be between 1 and {STEPS_MAX}")]
    Steps(u32),
}

impl CountdownArgs {
    /// How long each step takes.
    ///
    /// # Errors
    ///
    /// [`CountdownError`] says what to change.
    pub fn step_time(&self) -> Result<Duration, CountdownError> {
        if !(0.0..=SECONDS_MAX).contains(&self.seconds) {
            return Err(CountdownError::Seconds(self.seconds));
        }
        if !(1..=STEPS_MAX).contains(&self.steps) {
            return Err(CountdownError::Steps(self.steps));
        }
        Ok(Duration::from_secs_f64(self.seconds / f64::from(self.steps)))
    }
}

#[tool_router(router = countdown_tool, vis = "pub(crate)")]
impl App {
    /// Runs for the given time, in equal steps.
    #[tool(
        name = "countdown",
        description = "Runs for the given number of seconds, in equal steps, with a progress report after each. For \
                       checking a deployment."
    )]
    async fn countdown(
        &self,
        Parameters(args): Parameters<CountdownArgs>,
        task: TaskContext,
    ) -> Result<Json<CountdownAnswer>, ErrorData> {
        let step_time = args.step_time().map_err(refused)?;
        for step in 1..=args.steps {
            task.step(&format!("step {step}"), || tick(step_time)).await;
            task.progress(step).of(args.steps).await;
        }
        Ok(Json(CountdownAnswer { seconds: args.seconds, steps: args.steps, attempts: task.attempt() }))
    }
}

#[expect(clippy::disallowed_methods, reason = "this tool simulates work that takes time")]
async fn tick(time: Duration) {
    tokio::time::sleep(time).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_time(seconds: f64, steps: u32) -> Result<Duration, CountdownError> {
        CountdownArgs { seconds, steps }.step_time()
    }

    #[test]
    fn the_time_is_divided_into_equal_steps() {
        assert_eq!(step_time(0.0, 10), Ok(Duration::ZERO));
        assert_eq!(step_time(2.5, 10), Ok(Duration::from_millis(250)));
        let args: CountdownArgs = serde_json::from_str("{\"seconds\": 3}").unwrap();
        assert_eq!(args, CountdownArgs { seconds: 3.0, steps: 10 });
    }

    #[test]
    fn times_and_steps_beyond_the_limits_are_refused() {
        for seconds in [-0.1, 86_400.5, f64::INFINITY] {
            assert_eq!(step_time(seconds, 1), Err(CountdownError::Seconds(seconds)));
        }
        assert!(step_time(f64::NAN, 1).is_err());
        assert_eq!(step_time(1.0, 0), Err(CountdownError::Steps(0)));
        assert_eq!(step_time(1.0, STEPS_MAX + 1), Err(CountdownError::Steps(STEPS_MAX + 1)));
    }
}
