//! The checkers: one per promise. They watch from outside, and restate each promise independently instead of
//! asking the code under test.

mod attempts;
mod cleanup;
mod client;
mod end;
mod family;
mod permits;
mod polls;
mod published;
mod record;
mod resumed;
mod rules;
mod signals;
mod state;
mod times;
mod tool;
mod undo;

pub(crate) use state::{Checks, Observation};
