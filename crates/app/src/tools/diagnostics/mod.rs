//! Tools for checking a deployment. Served only if enabled.

pub mod ask;
pub mod countdown;
pub mod echo;
pub mod fail;
pub mod gather;
pub mod large_result;
pub mod tool_env;
