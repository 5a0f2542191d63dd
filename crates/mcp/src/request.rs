//! What clients send, read as tolerantly as it can be read without guessing.

pub(crate) mod params;
pub(crate) mod typed;
