//! What stands in front of MCP over HTTP, on a laptop and in a Lambda function: which path is what, who calls,
//! from where, and how large a request may be.

mod door;
mod gate;
mod identify;
mod rejection;

pub use door::{Body, Door};
pub use gate::{Gate, Host};
pub use identify::{Anyone, Identify};
pub use rejection::Rejection;

/// The path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";

/// The path that tells whether the server is up.
pub const HEALTH_PATH: &str = "/healthz";

/// Bytes of a request's body: the largest arguments, and room for the envelope around them. Lambda takes 6 MB.
pub const BODY_BYTES_MAX: usize = longhaul_core::limits::REQUEST_BYTES_MAX + 256 * 1024;
