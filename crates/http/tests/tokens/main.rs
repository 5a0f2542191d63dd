//! Tokens of a real issuer, and of people who would like to be one: over real HTTP, with real keys.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]

mod asking;
mod far;
mod fetching;
mod forged;
mod forged_keys;
mod hostile;
mod providers;
mod verifying;
mod world;
