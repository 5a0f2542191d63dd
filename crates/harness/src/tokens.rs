//! Access tokens that the test signs itself, and the authorization server that publishes the keys.

pub mod issuer;
pub mod signing;
