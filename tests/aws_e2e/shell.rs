//! A shell in which a reader types the commands of a page.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a command may take. Containers start slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// How long a command may take that compiles everything, with the profile of the functions.
const BUILD_PATIENCE: Duration = Duration::from_secs(3_600);

/// How often it is tried whether a server listens.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// The output of the programs in the background, in the folder of the shell.
const BACKGROUND: &str = "background.log";

/// The line after the output of a command begins with this, and ends with the command's status.
const END: &str = "--- this command has ended with";

/// The outcome of a command.
pub(crate) struct Done {
    /// Its exit status.
    pub(crate) status: i32,
    /// Its standard output.
    pub(crate) out: String,
}

/// The shell. Its programs end when it is dropped, and what those in the background have printed is shown if the test
/// fails.
pub(crate) struct Shell {
    folder: PathBuf,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Shell {
    /// Starts a command that reads further commands from its standard input.
    pub(crate) fn open(command: &mut Command) -> Self {
        let folder = command.get_current_dir().expect("a reader is in a folder").to_owned();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = child.stdin.take();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = channel();
        std::thread::spawn(move || {
            let lines = out.split(b'\n').map_while(Result::ok);
            // The last one is not sent if the shell is dropped.
            lines.map(|line| String::from_utf8_lossy(&line).into_owned()).all(|line| said.send(line).is_ok())
        });
        Self { folder, child, input, lines }
    }

    /// Types a command, and waits until it has ended. `None` if the shell has ended instead.
    pub(crate) fn try_run(&mut self, line: &str) -> Option<Done> {
        self.try_run_for(PATIENCE, line)
    }

    fn try_run_for(&mut self, patience: Duration, line: &str) -> Option<Done> {
        eprintln!("$ {line}");
        // The command does not read what is typed after it. Its last line may have no end.
        self.write(&format!("{line} </dev/null\nprintf '\\n%s %s\\n' '{END}' $?\n"));
        let (mut out, begun) = (Vec::new(), Instant::now());
        loop {
            let next = match self.lines.recv_timeout(patience.saturating_sub(begun.elapsed())) {
                Ok(next) => next,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("{line} does not end; it has printed {out:?}"),
            };
            if let Some(status) = next.strip_prefix(END) {
                return Some(Done { status: status.trim().parse().unwrap(), out: out.join("\n") });
            }
            out.push(next);
        }
    }

    /// The same for a command that has to succeed; its output.
    pub(crate) fn run(&mut self, line: &str) -> String {
        self.run_for(PATIENCE, line)
    }

    /// The same for a command that compiles, or waits for one that does.
    pub(crate) fn build(&mut self, line: &str) -> String {
        self.run_for(BUILD_PATIENCE, line)
    }

    fn run_for(&mut self, patience: Duration, line: &str) -> String {
        let done = self.try_run_for(patience, line).unwrap_or_else(|| panic!("the shell has ended before {line}"));
        assert_eq!(done.status, 0, "{line}: {}", done.out);
        done.out
    }

    /// Types a command that serves at this port of this machine, and waits until it does.
    pub(crate) fn serve(&mut self, line: &str, port: u16) {
        self.background(line);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(self.child.try_wait().unwrap().is_none(), "the shell has ended");
            assert!(begun.elapsed() < PATIENCE, "nobody listens after {line}");
            std::thread::sleep(CONNECT_PAUSE);
        }
    }

    /// Types a command that runs in the background.
    pub(crate) fn background(&mut self, line: &str) {
        let command = line.strip_suffix('&').unwrap_or_else(|| panic!("{line} would never end"));
        eprintln!("$ {line}");
        self.write(&format!("{command} >>{BACKGROUND} 2>&1 &\n"));
    }

    /// Leaves the shell, and waits until what it was started by has removed everything.
    pub(crate) fn leave(mut self) -> Option<i32> {
        self.end()
    }

    fn end(&mut self) -> Option<i32> {
        drop(self.input.take());
        let status = self.child.wait().unwrap();
        // Programs in the background, if there are any, are in the same group.
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _nothing_is_left = group.map(|group| kill_process_group(group, Signal::TERM));
        status.code()
    }

    fn write(&mut self, text: &str) {
        let input = self.input.as_mut().expect("it is not left");
        // The wait for an answer notices a shell that has ended.
        drop(input.write_all(text.as_bytes()).and_then(|()| input.flush()));
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(self.folder.join(BACKGROUND)).unwrap_or_default());
        }
        if self.input.is_some() {
            self.end();
        }
    }
}
