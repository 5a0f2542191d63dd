//! The checkers: one per promise. They watch from outside, and restate each promise independently instead of
//! asking the code under test.

mod announced;
mod cleaning;
mod client;
mod end;
mod facts;
mod family;
mod legs;
mod looks;
mod places;
mod record;
mod rules;
mod state;
mod times;
mod tool;

pub(crate) use state::{Checks, Observation};
