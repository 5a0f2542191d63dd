//! The servers that are measured in addition to `local`: tools that do nothing, durable and not, and one behind a
//! gateway.

pub(crate) mod life;
pub(crate) mod noop;
pub(crate) mod rmcp_alone;
pub(crate) mod stdio;
