//! Durable tool calls for any rmcp server: the handler, the tool runner and the dialects.
//!
//! [`McpServer`] answers requests and, on the worker's side, runs tools. It wraps an ordinary `rmcp` handler: calls of
//! the tools that were named with a [`TaskPolicy`] become tasks for clients that know tasks; everything else reaches
//! the handler as it is. A tool that wants more than to be run again after a crash takes a [`TaskContext`].

mod accept;
mod asking;
mod body;
mod caller;
mod capabilities;
mod context;
mod derived;
mod dialects;
mod digest;
mod durable;
mod errors;
mod front;
mod guard;
mod incoming;
mod message;
mod outcome;
mod policy;
mod record;
mod reply;
mod runner;
mod sealed;
mod server;
mod session;
mod settings;
mod sse;
mod tool_names;
mod watch;
mod wire;

pub use body::Body;
pub use context::{Amount, Answer, InputResponse, ProgressReport, StepValue, TaskContext, UseTryStep, VariableError};
pub use longhaul_engine::VariableLimit;
pub use policy::TaskPolicy;
pub use server::McpServer;
pub use settings::{AnonymousLists, McpSettings};
pub use tool_names::{UnknownTool, check_tool_names};
