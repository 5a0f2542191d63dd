//! Load in virtual time: many calls a second, for one owner or for many. They run on a store with DynamoDB's
//! partitions, and on a queue whose workers start as Lambda starts them. The engine is real, and the only faults are
//! refused calls to the store.
//!
//! A world of this kind is large and simple, so it has its own checkers. They check that every accepted call has one
//! task, which ended once, with its own result. The small worlds of
//! [`Plan::with_partitions`](super::Plan::with_partitions) show refused calls to the other checkers.

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
