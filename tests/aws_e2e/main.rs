//! The deployed template, as its users see it: real clients, the real functions, the AWS emulator, real kills.
//!
//! Each test deploys `template.yaml` for itself, or runs the functions on the Runtime API host; all share one emulator.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, and waits in real time"
)]

mod announcing;
#[path = "../e2e/auth_server.rs"]
#[expect(dead_code, reason = "the local suite uses all of it")]
mod auth_server;
#[path = "../e2e/caller.rs"]
mod caller;
mod children;
#[path = "../e2e/clients.rs"]
mod clients;
mod containers;
#[path = "../dialects/mod.rs"]
mod dialects;
mod documented;
#[path = "../e2e/flows.rs"]
mod flows;
mod garbage;
mod gate;
#[path = "../e2e/gathered.rs"]
mod gathered;
mod ground;
mod http_api;
mod inside;
mod isolation;
mod kills;
#[path = "../e2e/legacy_clients.rs"]
mod legacy_clients;
mod lifetimes;
mod login;
mod moments;
mod on_host;
mod places;
mod process;
mod programs;
#[path = "../e2e/proxy.rs"]
mod proxy;
#[path = "../e2e/receiver.rs"]
#[expect(dead_code, reason = "the local suite uses all of it")]
mod receiver;
mod rest_api;
#[path = "../e2e/rmcp_client.rs"]
mod rmcp_client;
#[path = "../runtime_host/mod.rs"]
mod runtime_host;
#[path = "../e2e/seen.rs"]
mod seen;
mod streams;
mod tools;
