//! `gather`: calls `countdown` many times at once, each as a task of its own.

use futures::future::join_all;
use longhaul::TaskContext;
use longhaul::rmcp::handler::server::wrapper::{Json, Parameters};
use longhaul::rmcp::{self, ErrorData, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::App;
use crate::tools::refused;

/// The maximum number of calls: each takes two of the 4,096 entries of the task's journal.
pub const CALLS_MAX: u32 = 1_000;

/// The maximum number of tasks between `gather` and its countdowns: one more than can be, so that the refusal can be
/// seen.
pub const LEVELS_MAX: u32 = 8;

/// The countdowns take 1, 2 and 3 steps in turn, by which their results can be told apart.
const STEPS_MAX: u32 = 3;

/// The arguments of `gather`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatherArgs {
    /// How many countdowns to call, 1 to 1,000.
    #[schemars(range(min = 1, max = 1_000))]
    pub calls: u32,
    /// How long each of them runs, in seconds: 0 to 86,400, fractions allowed.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400))]
    pub seconds: f64,
    /// How many tasks stand between this one and the countdowns, each of which calls the next, 0 to 8. With 8, the
    /// calls are refused, because they would be too deep.
    #[serde(default)]
    #[schemars(range(min = 0, max = 8))]
    pub levels: u32,
}

/// The result of `gather`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatherAnswer {
    /// How many steps each countdown took, in the order of the calls; 0 for one that failed.
    pub steps: Vec<u64>,
    /// The first error of a call, if one failed.
    pub error: Option<String>,
}

/// Why the arguments are refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GatherError {
    /// No calls, or too many.
    #[error("`calls` is {0}: it must be between 1 and {CALLS_MAX}")]
    Calls(u32),
    /// Deeper than can be asked for.
    #[error("`levels` is {0}: it must be at most {LEVELS_MAX}")]
    Levels(u32),
}

impl GatherArgs {
    /// The tool to call, and the arguments of each call.
    fn calls(&self) -> Result<(&'static str, Vec<Value>), GatherError> {
        if !(1..=CALLS_MAX).contains(&self.calls) {
            return Err(GatherError::Calls(self.calls));
        }
        if self.levels > LEVELS_MAX {
            return Err(GatherError::Levels(self.levels));
        }
        if let Some(levels) = self.levels.checked_sub(1) {
            let next = json!({"calls": self.calls, "seconds": self.seconds, "levels": levels});
            return Ok(("gather", vec![next]));
        }
        let countdown = |number| json!({"seconds": self.seconds, "steps": number % STEPS_MAX + 1});
        Ok(("countdown", (0..self.calls).map(countdown).collect()))
    }
}

#[tool_router(router = gather_tool, vis = "pub(crate)")]
impl App {
    /// Calls `countdown` as often as it is told to, and waits for all of them.
    #[tool(
        name = "gather",
        description = "Calls `countdown` many times at once, each as a task of its own, and waits for all of them. For \
                       checking a deployment."
    )]
    async fn gather(
        &self,
        Parameters(args): Parameters<GatherArgs>,
        task: TaskContext,
    ) -> Result<Json<GatherAnswer>, ErrorData> {
        let (tool, calls) = args.calls().map_err(refused)?;
        let calls = calls.into_iter().enumerate().map(|(number, arguments)| {
            let task = task.clone();
            async move { task.call(&format!("call {number}"), tool, arguments).await }
        });
        let mut answer = GatherAnswer { steps: Vec::new(), error: None };
        for called in join_all(calls).await {
            match called {
                Ok(result) => answer.add(result.structured_content.unwrap_or_default()),
                Err(error) => answer.fail(error.message.into_owned()),
            }
        }
        Ok(Json(answer))
    }
}

impl GatherAnswer {
    /// Adds what a countdown has answered, or a task that has called some.
    fn add(&mut self, answer: Value) {
        match serde_json::from_value::<Self>(answer.clone()) {
            Ok(further) => {
                self.steps.extend(further.steps);
                self.error = self.error.take().or(further.error);
            }
            Err(_) => self.steps.push(answer.get("steps").and_then(Value::as_u64).unwrap_or_default()),
        }
    }

    fn fail(&mut self, why: String) {
        self.steps.push(0);
        self.error.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(calls: u32, levels: u32) -> GatherArgs {
        GatherArgs { calls, seconds: 0.5, levels }
    }

    #[test]
    fn countdowns_are_called_at_the_last_level() {
        let (tool, calls) = args(4, 0).calls().unwrap();
        assert_eq!((tool, calls.len()), ("countdown", 4));
        assert_eq!(calls[2], json!({"seconds": 0.5, "steps": 3}));
        assert_eq!(calls[3], json!({"seconds": 0.5, "steps": 1}));
        let next = json!({"calls": 4, "seconds": 0.5, "levels": 1});
        assert_eq!(args(4, 2).calls().unwrap(), ("gather", vec![next]));
    }

    #[test]
    fn calls_and_levels_beyond_the_limits_are_refused() {
        assert_eq!(args(0, 0).calls(), Err(GatherError::Calls(0)));
        assert_eq!(args(CALLS_MAX + 1, 0).calls(), Err(GatherError::Calls(CALLS_MAX + 1)));
        assert_eq!(args(1, LEVELS_MAX + 1).calls(), Err(GatherError::Levels(LEVELS_MAX + 1)));
    }

    #[test]
    fn answers_stay_in_order_and_the_first_error_is_kept() {
        let mut answer = GatherAnswer { steps: Vec::new(), error: None };
        answer.add(json!({"seconds": 0.0, "steps": 2, "attempts": 1}));
        answer.fail("first".to_owned());
        answer.add(json!({"steps": [3, 1], "error": "second"}));
        assert_eq!(answer, GatherAnswer { steps: vec![2, 0, 3, 1], error: Some("first".to_owned()) });
    }
}
