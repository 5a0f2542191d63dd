//! What clients send, read as tolerantly as it can be read without guessing.

pub(crate) mod envelope;
pub(crate) mod incoming;
pub(crate) mod meta;
pub(crate) mod params;
pub(crate) mod typed;
