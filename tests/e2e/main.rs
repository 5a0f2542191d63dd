//! The `local` binary as its users see it: real clients, real HTTP, real kills.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, and waits in real time"
)]

mod abuse;
mod auth_server;
mod caller;
mod children;
mod clients;
mod connections;
mod containers;
#[path = "../dialects/mod.rs"]
mod dialects;
#[path = "../../crates/aws/tests/aws/emulator.rs"]
mod emulator;
mod flows;
mod gathered;
mod instances;
mod isolation;
mod kills;
mod legacy_clients;
mod login;
mod logs;
mod memory;
mod process;
mod proxy;
mod receiver;
mod rmcp_client;
mod seen;
mod startup;
mod strangers;
mod tokens;
mod webhooks;
