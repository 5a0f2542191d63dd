//! Counts the instructions of another process between two marks, which it sets by sending itself a signal.

use std::io;
use std::process::{Command, ExitCode, Stdio};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// The signal that the process sends itself where counting begins, and where it ends. It never arrives.
const MARK: Signal = Signal::SIGUSR1;

/// How the process ends if it may not be traced.
const REFUSED: u8 = 77;

/// More than any work takes: a minute of steps.
const STEPS_MAX: u64 = 20_000_000;

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotCounted {
    #[error("the process that does the work could not be started: {0}")]
    NotStarted(io::Error),
    #[error(
        "nothing was counted, because a process here may not trace another one ({0}). In a container, allow it with \
         `--cap-add=SYS_PTRACE`, and where that is not enough with `--security-opt seccomp=unconfined`; on a machine, \
         /proc/sys/kernel/yama/ptrace_scope has to be less than 3"
    )]
    NotTraced(Errno),
    #[error("the process that does the work was expected to go on or to end well: {0:?}")]
    Failed(WaitStatus),
    #[error("the work takes more than {STEPS_MAX} instructions")]
    Endless,
}

/// Does `work` as the process that is counted. It has to pass what is to be counted to its argument.
pub(crate) fn traced(work: impl FnOnce(&dyn Fn(&dyn Fn()))) -> ExitCode {
    if ptrace::traceme().is_err() {
        return REFUSED.into();
    }
    work(&|counted| {
        raise(MARK).expect("a process may send itself signals");
        counted();
        raise(MARK).expect("a process may send itself signals");
    });
    ExitCode::SUCCESS
}

/// Runs the command, which has to call [`traced`]. Returns how many instructions its main thread took from each first
/// mark to the second, until one of them is at most `enough`.
pub(crate) fn between_marks(command: &mut Command, enough: u64) -> Result<Vec<u64>, NotCounted> {
    stay_on_one_processor();
    let mut child = command.stdin(Stdio::null()).spawn().map_err(NotCounted::NotStarted)?;
    let pid = Pid::from_raw(child.id().try_into().expect("a process id fits"));
    let counts = counts(pid, enough);
    // It may have ended.
    child.kill().ok();
    child.wait().ok();
    counts
}

/// This process and those that it starts take turns, which is quicker on one processor. Where that is not possible,
/// they do on several.
fn stay_on_one_processor() {
    use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};

    let mut here = CpuSet::new();
    if sched_getcpu().and_then(|processor| here.set(processor)).is_ok() {
        sched_setaffinity(Pid::from_raw(0), &here).ok();
    }
}

#[cfg(not(target_os = "linux"))]
const fn stay_on_one_processor() {}

fn counts(pid: Pid, enough: u64) -> Result<Vec<u64>, NotCounted> {
    let mut counts = Vec::new();
    loop {
        match waitpid(pid, None).map_err(NotCounted::NotTraced)? {
            WaitStatus::Stopped(_, MARK) => {
                let count = steps(pid)?;
                counts.push(count);
                if count <= enough {
                    return Ok(counts);
                }
                ptrace::cont(pid, None).map_err(NotCounted::NotTraced)?;
            }
            WaitStatus::Stopped(_, signal) => ptrace::cont(pid, signal).map_err(NotCounted::NotTraced)?,
            WaitStatus::Exited(_, 0) => return Ok(counts),
            WaitStatus::Exited(_, code) if code == i32::from(REFUSED) => {
                return Err(NotCounted::NotTraced(Errno::EPERM));
            }
            other => return Err(NotCounted::Failed(other)),
        }
    }
}

/// The instructions from a mark to the next one.
fn steps(pid: Pid) -> Result<u64, NotCounted> {
    let mut passed_on = None;
    for steps in 0..STEPS_MAX {
        ptrace::step(pid, passed_on.take()).map_err(NotCounted::NotTraced)?;
        match waitpid(pid, None).map_err(NotCounted::NotTraced)? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Stopped(_, MARK) => return Ok(steps),
            WaitStatus::Stopped(_, signal) => passed_on = Some(signal),
            other => return Err(NotCounted::Failed(other)),
        }
    }
    Err(NotCounted::Endless)
}
