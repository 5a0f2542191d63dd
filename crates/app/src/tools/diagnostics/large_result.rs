//! `large_result`: returns a text of the given length.

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ErrorData, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::App;
use crate::tools::refused;

/// The maximum length of the text, in bytes. It is far above what a result may hold, so that the limit can be tested.
pub const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The piece that the text repeats.
const PIECE: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n";

/// The arguments of `large_result`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LargeResultArgs {
    /// The length of the text in bytes, 0 to 67,108,864.
    #[schemars(range(min = 0, max = 67_108_864))]
    pub bytes: u64,
}

/// The length is out of range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`bytes` is {0}: it must be between 0 and {BYTES_MAX}")]
pub struct LargeResultError(u64);

impl LargeResultArgs {
    /// A text of exactly this many bytes, the same each time.
    ///
    /// # Errors
    ///
    /// [`LargeResultError`] if it would be longer than [`BYTES_MAX`].
    pub fn text(&self) -> Result<String, LargeResultError> {
        let refused = LargeResultError(self.bytes);
        if self.bytes > BYTES_MAX {
            return Err(refused);
        }
        let Ok(bytes) = usize::try_from(self.bytes) else {
            return Err(refused);
        };
        let mut text = PIECE.repeat(bytes.div_ceil(PIECE.len()));
        text.truncate(bytes);
        Ok(text)
    }
}

#[tool_router(router = large_result_tool, vis = "pub(crate)")]
impl App {
    /// Returns a text of the given length.
    #[tool(
        name = "large_result",
        description = "Returns a text of the given number of bytes. For checking a deployment and its limits."
    )]
    async fn large_result(&self, Parameters(args): Parameters<LargeResultArgs>) -> Result<String, ErrorData> {
        args.text().map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_exactly_the_requested_length() {
        for bytes in [0, 1, 64, 65, 100_000] {
            assert_eq!(LargeResultArgs { bytes }.text().unwrap().len() as u64, bytes);
        }
        assert_eq!(LargeResultArgs { bytes: BYTES_MAX + 1 }.text(), Err(LargeResultError(BYTES_MAX + 1)));
    }
}
