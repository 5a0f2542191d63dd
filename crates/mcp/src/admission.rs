//! Budgets of requests: memory, polls in a time, streams at a time.

pub(crate) mod memory;
pub(crate) mod polls;
pub(crate) mod streams;
pub(crate) mod weight;
