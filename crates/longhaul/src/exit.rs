//! How a program ends.

use std::error::Error;
use std::process::ExitCode;

use longhaul_core::with_causes;

/// Prints why it ended, with all causes, if it was not asked to.
#[expect(clippy::print_stderr, reason = "this is the output of the program for who started it")]
pub(crate) fn exit_code<E: Error + 'static>(end: Result<(), E>) -> ExitCode {
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}
