//! The promises of the engine, one test each, with fakes around it. What can happen twice, happens twice.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken promise shows as a panic")]

mod accepting;
mod auditing;
mod cleaning;
mod dead_letters;
mod ending;
mod heartbeats;
mod limits;
mod listening;
mod long_work;
mod looking;
mod observing;
mod places;
mod queues;
mod recovering;
mod retries;
mod rounds;
mod sleeping;
mod steps;
mod variables;
mod world;
