//! The console as a browser sees it, on a source that says what a test wants.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may end by a panic")]

mod acts;
mod fake;
mod forms;
mod live;
mod pages;
mod remote;
mod safety;
