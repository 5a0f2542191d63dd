//! Load in virtual time: many calls a second, for one owner or for many, on a store with DynamoDB's partitions and on a
//! queue whose workers start as Lambda starts them. The engine is real; nothing goes wrong but that calls to the store
//! are refused.
//!
//! A world of this kind is large and simple, so it has checkers of its own: every accepted call has one task, which
//! ended once, with its own result. What the other checkers know of refused calls they see in the small worlds of
//! [`Plan::with_partitions`](super::Plan::with_partitions).

mod callers;
mod plan;
mod ports;
mod queue;
mod report;
mod run;
mod store;
mod tally;
mod workers;
mod world;

pub use plan::{Attempts, LoadPlan};
pub use report::LoadReport;
pub use run::run_load;
