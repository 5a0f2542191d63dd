//! The requests of clients, read as tolerantly as possible without guessing.

pub(crate) mod envelope;
pub(crate) mod incoming;
pub(crate) mod meta;
pub(crate) mod params;
pub(crate) mod typed;
