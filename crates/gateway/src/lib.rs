//! The gateway: MCP servers in any language, unchanged, whose tools become durable.
//!
//! A client speaks to the gateway, and the gateway speaks to the servers: child processes over their standard input and
//! output, or Streamable HTTP. Every call of a tool is a task, which survives crashes of the server and of the gateway.
//! A call that was interrupted is made again only if it may be repeated. `docs/gateway.md` says how to use it.
//!
//! ```no_run
//! use longhaul::serve::Options;
//! use longhaul::settings::ProcessEnv;
//! use longhaul_gateway::{Config, Gateway};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::from_json(&std::fs::read_to_string("mcp.json")?, &ProcessEnv)?;
//! let gateway = Gateway::start(config).await?;
//! longhaul::serve(gateway.server().clone(), Options::default()).await?;
//! gateway.stop().await;
//! # Ok(())
//! # }
//! ```

mod call;
mod catalog;
mod changes;
mod config;
mod external;
#[cfg(feature = "lambda")]
pub mod functions;
mod gateway;
mod handler;
pub mod jobs;
mod limits;
mod lists;
mod live;
mod lock;
mod meta;
mod outside;
mod policy;
mod polls;
pub mod settings;
mod shared;
mod skills;
mod start_error;
mod target;
mod upstream;
mod verbatim;

pub use config::{Config, ConfigError, Repeat};
pub use gateway::Gateway;
pub use lock::{Lock, LockError};
pub use start_error::StartError;
