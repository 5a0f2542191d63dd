//! A server with schedules, callbacks and calls that start later, killed around the moments that count. Its program is that
//! of the conformance suite's fixtures.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, and waits in real time"
)]

mod approval;
mod callbacks;
#[path = "../e2e/caller.rs"]
#[expect(dead_code, reason = "the other end-to-end tests use all of it")]
mod caller;
mod later;
mod process;
mod schedules;
