//! The programs that are deployed here: those of the shipped application.

use std::path::Path;

/// What is shared by all test processes that deploy these programs: a folder below the checkout's root.
pub(crate) const STATE: &str = ".cache/local-aws";

/// The prefix of `api` and `worker` in the names of the programs.
pub(crate) const PREFIX: &str = "";

/// The API function's program.
pub(crate) fn api() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_api"))
}

/// The worker function's program.
pub(crate) fn worker() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_worker"))
}
