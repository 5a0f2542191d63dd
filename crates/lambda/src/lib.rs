//! Longhaul as Lambda functions: one that answers requests, one that runs tools, one that publishes how they ended.
//!
//! This crate translates events and responses; the work in between belongs to the engine and the MCP server, which know
//! nothing about Lambda. [`ApiConfig`] and [`WorkerConfig`] are read once. [`start_api`] and [`start_worker`] create
//! the clients and the first connections before the first event. [`Api::run`] and [`Worker::run`] serve until the
//! sandbox ends.

mod api;
mod buffered;
mod caller;
mod config;
mod event;
mod logs;
pub mod metrics;
mod publisher;
mod sandbox;
mod sender;
mod streamed;
mod unclaimed;
mod worker;

pub use api::Api;
pub use caller::{Auth, BearerCaller, OnBehalf, TokenClaims, TokenSource};
pub use config::{ApiConfig, Common, IamOwner, Responses, WorkerConfig};
pub use event::{HttpEvent, UnreadableEvent};
pub use logs::{LogSettings, init_logs, json_logs};
pub use longhaul_core::logs::Payloads;
pub use longhaul_core::settings::table::Audit;
pub use publisher::Publisher;
pub use sandbox::{StartError, World, start_api, start_publisher, start_worker, tool_secrets};
pub use worker::{DeadLetters, Worker};
