//! `preview_access_code_cost` and `bulk_generate_access_codes`: batches of access codes that cannot be guessed.
//!
//! A batch is a function of its order and of a random seed of 256 bits that is recorded in a step once: the same batch,
//! run again after a crash, has the same codes.

pub mod alphabet;
pub mod batch;
pub mod order;
pub mod price;
