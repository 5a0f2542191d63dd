//! The audit log: who did what to which task, from where, and with what outcome.
//!
//! Whatever decides logs an [`Entry`], below all protocol versions, so that a new protocol version has nothing to do
//! for it. Who sent the request, and from where, is in the [`CallerSpan`] around it, which the platform opens and the
//! HTTP frontend completes. A subscriber with the audit layer of `logs` writes both as one line. Nothing here
//! takes arguments, results, tokens or claims.

mod caller;
mod entry;
mod schema;

pub use caller::{CallerSpan, Source};
pub use entry::{Entry, Event, Outcome, flush};
pub use schema::{FIELDS, Field, VERSION, page};

/// The target of the log's events and spans.
pub const TARGET: &str = "audit";
