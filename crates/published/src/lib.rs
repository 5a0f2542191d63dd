//! The published crates, as their users see them: the public API, and a new server made from the starter. Tests only.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may end by a panic")]

pub mod public_api;
