//! The verbs of `longhaul` as their users see them: against the `local` server and others, with kills of them, and at a
//! terminal.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, and waits in real time"
)]

#[path = "../../../../tests/e2e/auth_server.rs"]
#[expect(dead_code, reason = "other tests do more to it")]
mod auth_server;
mod bridge;
mod browser;
/// Where the authorization server looks for its program.
mod clients {
    pub(crate) use crate::servers::root;
}
mod command;
mod console;
mod kills;
mod login;
mod others;
mod servers;
mod signed;
mod terminal;
mod verbs;
