//! Webhooks, as [Standard Webhooks] describes them, notify others that tasks have ended, or wait for their clients.
//!
//! Each webhook is a task of its own, a webhook delivery. It sleeps from one try to the next, survives crashes, and
//! shows its owner the outcome of each try. The message names the task, the tool and the status. It has no arguments
//! and no results.
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
