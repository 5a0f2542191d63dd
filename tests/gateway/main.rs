//! `longhaul gateway` as its users see it: servers that behave as they should not, real servers, real kills.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, and waits in real time"
)]

#[path = "../e2e/caller.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod caller;
mod calls;
mod command_line;
mod ends;
mod folds;
#[path = "../aws_e2e/gate.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod gate;
mod http;
mod kills;
mod lists;
mod lock;
mod older;
mod outside_jobs;
mod passing;
mod pool;
mod process;
mod real;
mod starts;
mod states;
mod subscriptions;
mod upstream_tasks;
