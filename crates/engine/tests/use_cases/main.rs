//! The promises of the engine, one test each, with fakes around it. What can happen twice, happens twice.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a broken promise shows as a panic")]

mod accepting;
mod answering;
mod auditing;
mod children;
mod cleanup;
mod compensation;
mod dead_letters;
mod disk;
mod ending;
mod flow;
mod heartbeats;
mod labels;
mod limits;
mod listening;
mod long_work;
mod observing;
mod orphaned_children;
mod permits;
mod permits_taken_over;
mod polling;
mod publishing;
mod queues;
mod races;
mod races_by_reference;
mod races_lost;
mod recovering;
mod resuming;
mod resuming_refused;
mod retries;
mod rounds;
mod signals;
mod signals_races;
mod sleeping;
mod starting_later;
mod steps;
mod sweeping;
mod tool;
mod tries;
mod unclaimed;
mod unreadable;
mod variables;
mod world;
