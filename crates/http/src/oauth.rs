//! Longhaul as an OAuth resource server: access tokens in, verified callers out (MCP `2026-07-28`, "Authorization").
//!
//! A [`ResourceServer`] verifies the signed JWT of a request with the keys that the token's issuer publishes. Its
//! metadata names the place where callers log in (RFC 9728), and its refusals say how to continue. It is the same in
//! one process and in a Lambda function.

mod algorithm;
mod audience;
mod claims;
mod config;
mod discovery;
mod fetch;
mod https;
mod identify;
mod issuer;
mod key_set;
mod keys;
mod object;
mod refusal;
mod remembered;
mod token;
mod verifier;
mod web_url;

pub use config::OauthConfig;
pub use fetch::{Fetch, FetchError};
pub use https::HttpsClient;
pub use identify::ResourceServer;
