//! Telling others that tasks have ended, or wait for their clients: by webhooks, as [Standard Webhooks] describes them.
//!
//! Each webhook is a task of its own, a webhook delivery: it sleeps from one try to the next, survives crashes, and
//! shows its owner how each try went. What is sent is thin: which task, which tool, which status; no arguments, no
//! results.
//!
//! [Standard Webhooks]: https://www.standardwebhooks.com

mod config;
mod endpoint;
mod limits;
mod payload;
mod reach;
mod runner;
mod secret;
mod sender;

pub use config::{ConfigError, Fault, Secrets, read, read_without_secrets};
pub use endpoint::{Endpoint, Endpoints};
pub use payload::{EVENT_SOURCE, detail, detail_type, details, payload};
pub use reach::Reach;
pub use runner::WebhookDeliveryRunner;
pub use secret::{InvalidSecret, Secret, signatures};
