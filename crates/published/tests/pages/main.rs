//! Pages and files that are compared with what they describe. With the variable `UPDATE_GOLDEN` the tests write them.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod audit;
mod public_api;
mod settings;
mod starter_template;
