//! How many instructions a poll, an accepted call and an attempt take. That number says as much about speed as a time
//! would. Other programs on the same machine do not change it.
//!
//! Each test starts this program once more. That process does the work with a store in memory, on its one thread, and
//! is traced: each instruction between two marks is a step, and the steps are counted. It needs no counters of the
//! processor, which most virtual machines lack. Two runs differ by a few thousandths, because hash tables are seeded at
//! random. On another processor the same work may take a few hundredths more or less. Libraries choose their code by
//! the capabilities of the processor.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

use std::env;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

#[path = "../function/requests.rs"]
mod requests;
mod steps;
mod work;
#[path = "../function/world.rs"]
#[expect(dead_code, reason = "only its events are needed")]
mod world;

use work::Work;

/// The limits, in instructions of a build for tests: about 15% more than the work takes today, which the comments say.
/// It takes some hundredths more if this package is built alone, since its libraries then have fewer features. It takes
/// less in an optimized build.
const fn instructions_max(work: Work) -> u64 {
    match work {
        Work::Poll => 1_475_000,   // 1,283,000
        Work::Accept => 1_840_000, // 1,598,000
        Work::Attempt => 585_000,  // 509,000
    }
}

/// The limits are for x86-64.
const IS_COUNTED: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// Makes this program the process that does the work; the name of the work follows.
const WORK: &str = "--work";

/// The same without counting: for a profiler.
const PROFILED_WORK: &str = "--profiled-work";

/// Makes the C library use the same code on each processor, and one that copies with few instructions of which each is
/// one step. A step of `rep movsb` is one byte.
const TUNABLES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM");

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [WORK, name] => steps::traced(|mark| Work::named(name).run(mark)),
        [PROFILED_WORK, name] => {
            Work::named(name).run(|work| work());
            ExitCode::SUCCESS
        }
        _ => {
            let tests = Work::ALL.map(|work| Trial::test(work.promise(), move || check(work)));
            let tests = tests.map(|test| test.with_ignored_flag(!IS_COUNTED));
            libtest_mimic::run(&Arguments::from_args(), tests.into()).exit_code()
        }
    }
}

/// Counts the instructions of the work, and fails if there are too many.
#[expect(clippy::print_stdout, reason = "the count, for those who look at the output of tests")]
fn check(work: Work) -> Result<(), Failed> {
    let program = env::current_exe()?;
    let mut worker = Command::new(&program);
    let max = instructions_max(work);
    let counts = steps::between_marks(worker.args([WORK, work.name()]).env(TUNABLES.0, TUNABLES.1), max)?;
    let least = counts.iter().min().ok_or("nothing was counted")?;
    println!("{}: {least} instructions of at most {max}", work.name());
    if *least <= max {
        return Ok(());
    }
    Err(Failed::from(format!(
        "{name} takes {least} instructions, and may take {max}. Something does more than before. This shows it:

    valgrind --tool=callgrind --callgrind-out-file=after {program} {PROFILED_WORK} {name} && callgrind_annotate after

beside the same from before the change. If it is worth that much, or if a new compiler or a new version of a library
is the cause, raise `instructions_max` in crates/lambda/tests/instructions/main.rs to 15% above the new count.",
        name = work.name(),
        program = program.display(),
    )))
}
