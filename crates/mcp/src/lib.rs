//! Durable tool calls for any rmcp server: the handler, the tool runner and the protocol versions.
//!
//! [`McpServer`] answers requests and, on the worker's side, runs tools. It wraps an ordinary `rmcp` handler. Calls of
//! the tools that have a [`TaskPolicy`] become tasks for clients that know tasks. All other requests reach the handler
//! unchanged. A tool that needs more than being run again after a crash takes a [`TaskContext`].
//!
//! The modules form layers, and each imports only from the layers below it. `ARCHITECTURE.md` has the table, and a test
//! checks the code against it.

mod admission;
mod backend;
mod call;
mod callbacks;
mod cleanup;
mod context;
mod durable;
mod nearest;
mod policy;
mod protocol_version;
mod protocol_versions;
mod reply;
mod request;
mod revision;
mod router;
mod runner;
mod schedule;
mod schedule_check;
mod schedules;
mod schema;
mod server;
mod settings;
mod signing;
mod state;
mod stdio;
pub mod task_support;
mod tool_calls;
mod tool_check;
mod tools;
mod views;
mod waiting;

pub use cleanup::{End, EndedTask, EndedTaskError};
pub use context::{
    Amount, Answer, Compensation, InputResponse, LabelError, Outcomes, Parallel, ProgressReport, Step, StepContext,
    StepError, StepValue, StepWork, TaskContext, TimedOut, UseTryStep, VariableError, form_of,
};
pub use longhaul_engine::{Every, Retry, VariableLimit};
pub use policy::{Policies, TaskPolicy};
pub use reply::Body;
pub use schedule::{Overlap, Schedule, ScheduleError, ScheduleFault};
pub use schedule_check::check_schedules;
pub use schedules::Looked;
pub use schema::SchemaError;
pub use server::McpServer;
pub use settings::{AnonymousCallers, McpSettings, NeededScopes, ServerSettings, StreamsCounted};
pub use signing::signer::{KeyTexts, key_mailboxes};
pub use stdio::{Unanswered, converse_over_stdio, mark_over_stdio};
pub use tool_calls::caller::VerifiedCaller;
pub use tool_check::{Outline, ToolError, UnknownTool, check_schemas, check_tools, outline};
