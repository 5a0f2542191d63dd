//! Telling others that tasks have ended, or wait for their clients: by webhooks, as [Standard Webhooks] describes them.
//!
//! Each webhook is a task of its own, a webhook delivery: it sleeps from one try to the next, survives crashes, and
//! shows its owner how each try went. What is sent is thin: which task, which tool, which status; no arguments, no
//! results.
//!
//! [Standard Webhooks]: https://www.standardwebhooks.com

mod config;
mod endpoint;
mod event;
mod gone;
mod payload;
mod permits;
mod reach;
mod runner;
mod schedule;
mod secret;
mod sender;
mod signature;
mod webhook_deliveries;

pub use config::{ConfigError, Fault, SecretSource, read, read_without_secrets};
pub use endpoint::{Endpoint, Endpoints};
pub use event::{EVENT_SOURCE, detail, detail_type};
pub use payload::{details, payload};
pub use reach::Reach;
pub use runner::WebhookDeliveryRunner;
pub use secret::{InvalidSecret, Secret};
pub use signature::signatures;
