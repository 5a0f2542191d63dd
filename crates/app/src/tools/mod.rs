//! The tools, one module each.

pub mod profile_dataset;
