//! The servers that are measured in addition to `local`: one tool that does nothing, durable and not.

pub(crate) mod noop;
pub(crate) mod rmcp_alone;
