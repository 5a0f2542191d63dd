//! The ways of speaking about tasks on the wire: one module each, with its wire types and nothing else.

pub(crate) mod tasks_extension;
