//! A server as its author builds, starts and tests it, with nothing but the public API.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

mod bearer;
mod cleanup;
mod command_line;
mod disk;
mod own_backend;
mod owners;
mod scopes;
mod starting;
#[cfg(feature = "aws")]
mod storage;
mod testing;
