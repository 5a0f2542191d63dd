//! A server as a child process: in a group of its own, with an environment of its own, and never left behind.

use std::collections::BTreeSet;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul::SystemClock;
use longhaul_core::Clock;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::counts::{Counted, Counts};
use super::first_starts::FirstStarts;
use super::notes::Notes;
use super::quota::Quota;
use super::stderr;
use crate::limits;
use crate::target::Launch;

/// The process groups that are alive, and first starts that are under way. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    alive: Arc<Mutex<BTreeSet<i32>>>,
    pub(super) first_starts: FirstStarts,
}

impl Groups {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a process leads one of them.
    pub(super) fn has(&self, process: i32) -> bool {
        self.lock().contains(&process)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Ends all of them now.
    pub(crate) fn kill(&self) {
        for group in std::mem::take(&mut *self.lock()) {
            send(group, Signal::KILL);
        }
    }
}

/// A signal for all processes of a group. They may all have ended before.
fn send(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        kill_process_group(group, signal).unwrap_or_default();
    }
}

/// A group that is killed when this is dropped.
struct Group {
    id: i32,
    groups: Groups,
}

impl Group {
    /// Whether its first process has ended. The system keeps its id until it is waited for, so that no other group can
    /// get it.
    fn leader_has_ended(&self) -> bool {
        has_ended(self.id)
    }

    async fn leader_ends_soon(&self) -> bool {
        let mut waited_ms = 0;
        while !self.leader_has_ended() {
            if waited_ms >= limits::END_GRACE_MS {
                return false;
            }
            SystemClock.sleep_ms(limits::POLL_MS).await;
            waited_ms += limits::POLL_MS;
        }
        true
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.groups.lock().remove(&self.id) {
            send(self.id, Signal::KILL);
        }
    }
}

fn has_ended(process: i32) -> bool {
    let Some(process) = Pid::from_raw(process) else {
        return true;
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that the child does not exist.
    !matches!(waitid(WaitId::Pid(process), options), Ok(None))
}

/// Returns when the process has ended.
pub(crate) async fn ended(process: i32) {
    while !has_ended(process) {
        SystemClock.sleep_ms(limits::WATCH_MS).await;
    }
}

/// The standard input of a process, shared by its writers and by the code that closes it.
pub(crate) type Stdin = Arc<tokio::sync::Mutex<Option<ChildStdin>>>;

/// A running server. When it is dropped it is ended: its standard input is closed, then its group gets SIGTERM, then
/// SIGKILL.
pub(crate) struct Process(Option<Running>);

struct Running {
    server: String,
    child: Child,
    group: Group,
    stdin: Stdin,
    stderr: JoinHandle<()>,
    notes: Notes,
    /// Counts as a process of its server until it has ended.
    _permit: OwnedSemaphorePermit,
    counted: Counted,
}

/// The ends of a new process that are read and written.
pub(crate) struct Pipes {
    pub(crate) id: i32,
    pub(crate) stdin: Stdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) notes: Notes,
}

impl Process {
    /// Starts a process of `server`.
    pub(super) fn start(
        server: &str,
        launch: &Launch,
        groups: &Groups,
        quota: Quota,
        (permit, counts): (OwnedSemaphorePermit, &Counts),
    ) -> Result<(Self, Pipes), String> {
        let mut command = Command::new(&launch.command);
        command.args(&launch.args).env_clear().envs(&launch.env).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(folder) = &launch.cwd {
            command.current_dir(folder);
        }
        let mut child = command.spawn().map_err(|error| unstartable(launch, &error))?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).ok_or("it ended at once")?;
        groups.lock().insert(id);
        let (group, counted) = (Group { id, groups: groups.clone() }, counts.started());
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("its input and output cannot be reached".to_owned());
        };
        let (stdin, notes) = (Stdin::new(tokio::sync::Mutex::new(Some(stdin))), Notes::default());
        let pipes = Pipes { id, stdin: Arc::clone(&stdin), stdout, notes: notes.clone() };
        let server = server.to_owned();
        let stderr = log_stderr(stderr::log(server.clone(), stderr, notes.clone(), quota));
        Ok((Self(Some(Running { server, child, group, stdin, stderr, notes, _permit: permit, counted })), pipes))
    }

    /// Whether it has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        self.0.as_ref().is_some_and(|running| !running.group.leader_has_ended())
    }

    /// It has answered its first request.
    pub(crate) fn answered(&mut self) {
        if let Some(running) = &mut self.0 {
            running.counted.answered();
        }
    }

    /// Notes why the gateway ends it.
    pub(crate) fn note(&self, why: impl Into<String>) {
        if let Some(running) = &self.0 {
            running.notes.because(why);
        }
    }

    /// Why it ended, and what it wrote last to standard error.
    pub(crate) async fn last_words(&mut self) -> String {
        let Some(running) = &mut self.0 else {
            return String::new();
        };
        // It may have been the last thing that it did.
        drop(tokio::time::timeout(limits::LAST_OUTPUT, &mut running.stderr).await);
        let why = running.notes.why().unwrap_or_else(|| format!("the server `{}` ended", running.server));
        match running.notes.stderr_text() {
            stderr if stderr.is_empty() => why,
            stderr => format!("{why}; its last lines on standard error:\n{stderr}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(running) = self.0.as_ref().filter(|running| running.has_failed()) {
            running.counted.failed();
        }
        // Without a runtime nothing can wait: the group is killed when `running` is dropped here.
        if let (Some(running), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(running.end());
        }
    }
}

impl Running {
    /// Whether it has ended on its own, or the gateway ends it for a fault.
    fn has_failed(&self) -> bool {
        self.notes.why().is_some() || self.group.leader_has_ended()
    }

    async fn end(mut self) {
        // A writer to a process that reads nothing holds the lock. Then signals end the process.
        if let Ok(mut stdin) = self.stdin.try_lock() {
            drop(stdin.take());
        }
        if !self.group.leader_ends_soon().await {
            send(self.group.id, Signal::TERM);
            if !self.group.leader_ends_soon().await {
                tracing::debug!(group = self.group.id, "a server ignores SIGTERM and is killed");
            }
        }
        // Also those that it has started and left. The first process keeps the group's id until it is waited for below.
        drop(self.group);
        self.stderr.abort();
        drop(tokio::time::timeout(Duration::from_secs(5), self.child.wait()).await);
    }
}

fn unstartable(launch: &Launch, error: &io::Error) -> String {
    let command = &launch.command;
    match error.kind() {
        io::ErrorKind::NotFound => match &launch.cwd {
            Some(folder) if !folder.is_dir() => format!("its folder {} does not exist", folder.display()),
            _ => format!("the command `{command}` was not found: install it, or write its whole path"),
        },
        io::ErrorKind::PermissionDenied => {
            format!("the command `{command}` cannot be executed: check its permissions")
        }
        _ => format!("the command `{command}` cannot be started: {error}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "ends with the process that it reads from")]
fn log_stderr(reading: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(reading)
}
