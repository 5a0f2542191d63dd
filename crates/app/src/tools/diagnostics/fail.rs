//! `fail`: fails in the given way.

use std::time::Duration;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::model::{CallToolResult, ContentBlock};
use longhaul::rmcp::{self, ErrorData, tool, tool_router};
use longhaul::{EndedTask, TaskContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::App;
use crate::tools::refused;

/// The maximum wait before failing, in seconds.
pub const AFTER_S_MAX: f64 = 30.0;

/// The maximum time that cleaning up after a call takes, in seconds.
pub const CLEANUP_S_MAX: f64 = 30.0;

/// The maximum run time of this tool, in seconds: a call that hangs fails after it.
pub const RUN_S_MAX: u64 = 45;

/// The exit code of the process.
const EXIT_CODE: i32 = 70;

/// More bytes than a result may have.
const TOO_MANY_BYTES: usize = 5 * 1024 * 1024;

/// A way to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Return a result that is marked as an error.
    ToolError,
    /// Return a protocol error.
    ProtocolError,
    /// Panic.
    Panic,
    /// End the process at once, as a crash would.
    Exit,
    /// Never return.
    Hang,
    /// Return a result that is larger than allowed.
    TooLarge,
}

/// The arguments of `fail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailArgs {
    /// How to fail.
    pub how: FailureKind,
    /// How many seconds to run before failing: 0 to 30, fractions allowed.
    #[serde(default)]
    #[schemars(range(min = 0, max = 30))]
    pub after_s: f64,
    /// How many seconds cleaning up takes, after a call that is cancelled or given up: 0 to 30, fractions allowed.
    #[serde(default, alias = "cleaning_s")]
    #[schemars(range(min = 0, max = 30))]
    pub cleanup_s: f64,
}

/// A time is out of range.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FailError {
    /// The wait before failing.
    #[error("`after_s` is {0}: it must be between 0 and {AFTER_S_MAX}")]
    After(f64),
    /// The time for cleaning up.
    #[error("`cleanup_s` is {0}: it must be between 0 and {CLEANUP_S_MAX}")]
    Cleanup(f64),
}

impl FailArgs {
    /// How long to run before failing.
    ///
    /// # Errors
    ///
    /// [`FailError`] if that is negative, too long or not a number.
    pub fn after(&self) -> Result<Duration, FailError> {
        if !(0.0..=AFTER_S_MAX).contains(&self.after_s) {
            return Err(FailError::After(self.after_s));
        }
        Ok(Duration::from_secs_f64(self.after_s))
    }

    /// How long cleaning up takes.
    ///
    /// # Errors
    ///
    /// [`FailError`] if that is negative, too long or not a number.
    pub fn cleanup(&self) -> Result<Duration, FailError> {
        if !(0.0..=CLEANUP_S_MAX).contains(&self.cleanup_s) {
            return Err(FailError::Cleanup(self.cleanup_s));
        }
        Ok(Duration::from_secs_f64(self.cleanup_s))
    }
}

/// Cleans up after a call: takes its time, and has nothing to remove.
pub(crate) async fn clean_up(ended: EndedTask) -> Result<(), ErrorData> {
    let args: FailArgs = ended.arguments()?;
    wait(args.cleanup().map_err(refused)?).await;
    Ok(())
}

#[tool_router(router = fail_tool, vis = "pub(crate)")]
impl App {
    /// Fails in the given way.
    #[tool(
        name = "fail",
        description = "Fails in the given way, after the given number of seconds. `hang` ends when the tool's maximum \
                       run time of 45 seconds is over; `exit` ends the server process. For checking a deployment."
    )]
    async fn fail(
        &self,
        Parameters(args): Parameters<FailArgs>,
        task: TaskContext,
    ) -> Result<CallToolResult, ErrorData> {
        let after = args.after().map_err(refused)?;
        args.cleanup().map_err(refused)?;
        task.step("wait", || wait(after)).await;
        fail_as(args.how).await
    }
}

#[expect(clippy::disallowed_methods, reason = "this tool simulates work that takes time")]
async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

#[expect(clippy::panic, reason = "the caller asked for it")]
async fn fail_as(how: FailureKind) -> Result<CallToolResult, ErrorData> {
    match how {
        FailureKind::ToolError => Ok(CallToolResult::error(vec![ContentBlock::text("failed, as asked")])),
        FailureKind::ProtocolError => Err(ErrorData::internal_error("failed, as asked", None)),
        FailureKind::Panic => panic!("failed, as asked"),
        FailureKind::Exit => std::process::exit(EXIT_CODE),
        FailureKind::Hang => std::future::pending().await,
        FailureKind::TooLarge => Ok(CallToolResult::success(vec![ContentBlock::text("x".repeat(TOO_MANY_BYTES))])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_optional_and_limited() {
        let args: FailArgs = serde_json::from_str("{\"how\": \"too_large\"}").unwrap();
        assert_eq!((args.how, args.after()), (FailureKind::TooLarge, Ok(Duration::ZERO)));
        for after_s in [-1.0, 30.5] {
            assert_eq!(FailArgs { after_s, ..args.clone() }.after(), Err(FailError::After(after_s)));
        }
        for cleanup_s in [-1.0, 30.5] {
            assert_eq!(FailArgs { cleanup_s, ..args.clone() }.cleanup(), Err(FailError::Cleanup(cleanup_s)));
        }
    }
}
