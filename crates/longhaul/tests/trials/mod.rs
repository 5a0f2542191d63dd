//! Tests of a program that is its own test binary: they run after `main` has seen under which name it was started.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Runs the named tests as the arguments of the process say.
pub(crate) fn run(tests: &[(&str, fn())]) -> ExitCode {
    let trial = |&(name, run): &(&str, fn())| {
        Trial::test(name, move || {
            run();
            Ok::<(), Failed>(())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), tests.iter().map(trial).collect()).exit_code()
}
