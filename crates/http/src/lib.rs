//! The HTTP frontend of the MCP endpoint, the same on a laptop and in a Lambda function. It checks paths, callers,
//! hosts, origins and the size of requests.

mod audited;
mod authority;
mod bearer;
mod budget;
pub mod client;
pub mod cors;
mod frontend;
mod identify;
pub mod oauth;
mod origin_policy;
pub mod public;
mod rejection;
mod web_origin;
pub mod webhooks;

pub use audited::audited;
pub use authority::Host;
pub use bearer::{
    BearerTokens, TokenEntry, TokenFaults, TokensError, bearer_token, read_token_file, time_of, time_text,
};
pub use frontend::{DeniedLogIn, HttpFrontend, Sender};
pub use identify::{Anyone, Challenge, Identified, Identify, InvalidToken};
pub use origin_policy::OriginPolicy;
pub use rejection::{Body, Rejection, SlowBody};
pub use web_origin::{OriginError, WebOrigin};

/// The path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";

/// The path of callbacks, before the token.
pub const CALLBACKS_PATH: &str = "/callbacks/";

/// The path of the health check.
pub const HEALTH_PATH: &str = "/healthz";

pub use longhaul_core::limits::BODY_BYTES_MAX;
