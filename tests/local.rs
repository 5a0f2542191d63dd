//! Whole programs on this machine: servers, the command, the gateway and the console, each started as its users start
//! it.
//!
//! Tests in a module `external` or `real` need what `scripts/setup-tools.sh` installs, the others Rust programs only.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, and waits in real time"
)]

mod checkout;
mod console;
mod e2e;
mod gateway;
mod killed;
