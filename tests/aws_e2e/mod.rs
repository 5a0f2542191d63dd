//! The deployed template, as its users see it: real clients, the real functions, the AWS emulator, real kills.
//!
//! Each test deploys `template.yaml` for itself, or runs the functions on the Runtime API host; all share one emulator.

mod bearer;
mod built;
mod cargo_lambda;
mod children;
#[path = "../e2e/external/clients.rs"]
mod clients;
mod conformance;
mod containers;
mod deployed;
mod documented;
#[path = "../e2e/flows.rs"]
mod flows;
mod garbage;
pub(crate) mod ground;
mod http_api;
mod images;
mod inside;
mod isolation;
mod kills;
#[path = "../e2e/external/legacy_clients.rs"]
mod legacy_clients;
mod lifetimes;
mod login;
mod moments;
mod on_host;
mod permits;
mod process;
pub(crate) mod programs;
mod prove;
mod publishing;
mod rest_api;
mod restore;
#[path = "../e2e/rmcp_client.rs"]
mod rmcp_client;
mod sam_local;
mod shell;
mod streams;
mod timed;
mod tools;
mod traces;
