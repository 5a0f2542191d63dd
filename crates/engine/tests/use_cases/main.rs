//! The promises of the engine, one test each, with fakes around it: given, when, then; what can come twice, comes twice.

#![expect(clippy::unwrap_used, reason = "a broken promise shows as a panic")]

mod accepting;
mod ending;
mod long_work;
mod steps;
mod world;
