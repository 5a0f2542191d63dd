//! The promises of the engine, one test each, with fakes around it. What can happen twice, happens twice.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a broken promise shows as a panic")]

mod accepting;
mod announcing;
mod auditing;
mod children;
mod cleaning;
mod dead_letters;
mod disk;
mod ending;
mod facts;
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
mod starting_later;
mod steps;
mod sweeping;
mod unclaimed;
mod variables;
mod world;
