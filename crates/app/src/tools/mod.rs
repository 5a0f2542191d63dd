//! The tools, one module each.

pub mod access_codes;
pub mod diagnostics;
pub mod profile_dataset;
