//! The checkers: one per promise. They watch from outside, and restate each promise independently instead of
//! asking the code under test.

mod cleaning;
mod client;
mod end;
mod legs;
mod looks;
mod places;
mod record;
mod rules;
mod state;
mod tool;

pub(crate) use state::{Checks, Observation};
