//! The ways of speaking about tasks on the wire: one module each, with its wire types and its mapping to the engine.
//! They do not import each other.

pub(crate) mod core_tasks;
pub(crate) mod drafts;
pub(crate) mod handshake;
pub(crate) mod job_tools;
pub(crate) mod tasks_extension;
