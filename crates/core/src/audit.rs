//! The audit log: the caller, its address, the action, the task and the outcome.
//!
//! The code that decides logs an [`Entry`], below all protocol versions: a new version needs no audit code. The
//! [`CallerSpan`] around it holds the sender and its address. The platform opens that span, and the HTTP frontend
//! completes it. A subscriber with the audit layer of `logs` writes both as one line. Nothing here takes arguments,
//! results, tokens or claims.

mod caller;
mod entry;
mod schema;

pub use caller::{CallerSpan, Source};
pub use entry::{Entry, Event, Outcome, flush};
pub use schema::{FIELDS, Field, VERSION, page};

/// The target of the log's events and spans.
pub const TARGET: &str = "audit";
