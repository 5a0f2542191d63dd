//! Programs that tools run, such as `ffmpeg`: they end with the attempt that started them.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, PipeWriter};
use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::process::Command;
use tokio::task::JoinError;

/// A shell that becomes the program, and leaves a process behind that waits for the end of a pipe. When the server has
/// closed its end, or was killed, that process kills the whole group.
const WATCHED: &str = r#"exec 3<&0 </dev/null; ( cat <&3; kill -9 0 ) >/dev/null 2>&1 & exec "$@" 3<&-"#;

/// The codes by which a shell says that a program is not there, or cannot be executed.
const CANNOT_RUN: [i32; 2] = [126, 127];

/// A program that a tool runs. It ends with the tool's attempt, together with the programs that it starts. An attempt
/// ends when the task is cancelled, misses its deadline or loses its lease. It also ends when the server stops or is
/// killed.
///
/// ```
/// # async fn tool() -> std::io::Result<()> {
/// use longhaul::Program;
///
/// let output = Program::new("echo")?.arg("hello").output().await?;
/// assert_eq!(output.stdout, b"hello\n");
///
/// let folder = std::env::temp_dir();
/// let listed = Program::new("ls")?.args(["-l", "-a"]).current_dir(folder).status().await?;
/// assert!(listed.success());
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(tool()).unwrap();
/// ```
///
/// It has no standard input, and a process group of its own. Nothing is left of it after
/// [`output`](Self::output) or [`status`](Self::status): background processes of the program are killed, too.
#[must_use = "a program is started by `output` or `status`"]
#[derive(Debug)]
pub struct Program {
    name: String,
    command: Command,
    /// As long as this is open, the program runs.
    until: Option<PipeWriter>,
}

impl Program {
    /// The program of this name or path. Nothing is started yet.
    pub fn new(name: impl AsRef<OsStr>) -> io::Result<Self> {
        let (watched, until) = io::pipe()?;
        let name = name.as_ref();
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(WATCHED).arg("sh").arg(name).stdin(watched).process_group(0);
        Ok(Self { name: name.to_string_lossy().into_owned(), command, until: Some(until) })
    }

    /// The program of this command, with its arguments, variables and folder. It is for code that builds commands
    /// already. Their `env_clear`, and their standard input and output, are not kept.
    ///
    /// ```
    /// # async fn tool() -> std::io::Result<()> {
    /// use longhaul::Program;
    ///
    /// let mut command = std::process::Command::new("echo");
    /// command.arg("hello");
    /// assert_eq!(Program::of(&command)?.output().await?.stdout, b"hello\n");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(tool()).unwrap();
    /// ```
    pub fn of(command: &std::process::Command) -> io::Result<Self> {
        let mut program = Self::new(command.get_program())?.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => program.command.env(name, value),
                None => program.command.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            program.command.current_dir(folder);
        }
        Ok(program)
    }

    /// With one more argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// With more arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    /// With an environment variable, in addition to those of the server.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// In this folder.
    pub fn current_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Runs it, and collects what it writes.
    ///
    /// # Errors
    /// That it cannot be started. A program that fails is not an error here: look at its `status`.
    pub async fn output(mut self) -> io::Result<Output> {
        let output = self.command.output().await?;
        self.check(output.status)?;
        Ok(output)
    }

    /// The same in code that blocks. Call it in [`spawn_blocking`], whose end is the end of the program.
    ///
    /// # Errors
    /// As [`output`](Self::output); also that the attempt has ended, before it was started.
    pub fn output_blocking(mut self) -> io::Result<Output> {
        let waiting = WAITING.with_borrow(Clone::clone);
        if let Some(waiting) = &waiting {
            let Some(until) = &mut *waiting.lock() else {
                return Err(io::Error::new(ErrorKind::Interrupted, "the attempt of the tool has ended"));
            };
            // Moved to where the end of the attempt closes it.
            *until = self.until.take();
        }
        let output = std::mem::replace(&mut self.command, Command::new("")).into_std().output();
        if let Some(Some(until)) = waiting.as_ref().map(|waiting| waiting.lock()).as_deref_mut() {
            drop(until.take());
        }
        let output = output?;
        self.check(output.status)?;
        Ok(output)
    }

    /// Runs it. It writes where the server writes its errors, since standard output may belong to the protocol.
    ///
    /// # Errors
    /// That it cannot be started. A program that fails is not an error here.
    pub async fn status(mut self) -> io::Result<ExitStatus> {
        let status = self.command.stdout(Stdio::from(io::stderr())).status().await?;
        self.check(status)?;
        Ok(status)
    }

    fn check(self, status: ExitStatus) -> io::Result<()> {
        // What the program has left running ends now.
        drop(self.until);
        if status.code().is_some_and(|code| CANNOT_RUN.contains(&code)) {
            let why = format!("the program `{}` cannot be run: install it where the tools run", self.name);
            return Err(io::Error::new(ErrorKind::NotFound, why));
        }
        Ok(())
    }
}

thread_local! {
    /// The future that waits for the work of this thread.
    static WAITING: RefCell<Option<Waiting>> = const { RefCell::new(None) };
}

/// As long as a future waits: the pipe of the program that runs for it, if there is one.
#[derive(Clone)]
struct Waiting(Arc<Mutex<Option<Option<PipeWriter>>>>);

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Option<Option<PipeWriter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of the future, however it ends.
struct WaitsNoMore(Waiting);

impl Drop for WaitsNoMore {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

/// The end of the work on its thread, which others use after it.
struct WorkEnds;

impl Drop for WorkEnds {
    fn drop(&mut self) {
        WAITING.take();
    }
}

/// `tokio::task::spawn_blocking` for work that runs programs with [`Program::output_blocking`]: they end with the
/// attempt that waits for this. The work itself continues to its end, as all code that blocks.
///
/// ```
/// # async fn tool() -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul::Program;
///
/// let output = longhaul::spawn_blocking(|| Program::new("echo")?.arg("hello").output_blocking()).await??;
/// assert_eq!(output.stdout, b"hello\n");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(tool()).unwrap();
/// ```
///
/// # Errors
/// That the work panicked.
pub async fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    let waiting = Waiting(Arc::new(Mutex::new(Some(None))));
    let _waits = WaitsNoMore(waiting.clone());
    let work = move || {
        WAITING.set(Some(waiting));
        let _ends = WorkEnds;
        work()
    };
    tokio::task::spawn_blocking(work).await
}
