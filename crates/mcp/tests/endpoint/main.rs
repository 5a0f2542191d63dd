//! The MCP endpoint as its clients see it, and the workers behind it, over a real store in memory; and its schedules,
//! in the simulation.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]
#![expect(deprecated, reason = "older revisions have things that newer ones removed")]

mod anonymous_callers;
mod arguments;
mod async_calls;
mod audit;
mod batches;
mod callbacks;
mod caller;
mod calling;
mod cancelling;
mod core_tasks;
mod filtered;
mod garbage;
mod handle_after;
mod inspecting;
mod isolation;
mod isolation_requests;
mod jobs;
mod keys;
mod large;
mod later;
mod limits;
mod listening;
mod live;
mod matrix;
mod members;
mod missing_tool;
mod older;
mod older_client;
mod on_worker;
mod operations;
mod operators;
mod passing_on;
mod plain_calls;
mod policies;
mod questions;
mod resuming;
mod retries;
mod revised;
mod rules;
mod schedules;
mod schema;
mod scoped_lists;
mod scopes;
mod sent;
mod simulation;
mod task_life;
mod tasks_parity;
mod tools;
mod tools_handler;
mod tools_policies;
mod unreadable;
mod world;
