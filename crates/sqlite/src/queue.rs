//! Messages in a table, and those of new tasks in memory: which are delivered, and to whom.

pub(crate) mod backlog;
pub(crate) mod deliveries;
mod in_memory;
pub(crate) mod message;
pub(crate) mod table;
pub(crate) mod turns;
