//! Servers that the command speaks to, each in a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for something that has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A port that nobody listens on now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server in a process. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Server {
    /// The shipped server with its diagnostic tools, on a database in this folder.
    pub(crate) fn local(folder: &Path, port: u16) -> Self {
        Self::local_with(folder, port, &[])
    }

    /// The same with more flags.
    pub(crate) fn local_with(folder: &Path, port: u16, flags: &[&str]) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_longhaul")).with_file_name("local");
        assert!(program.exists(), "build it: cargo build -p longhaul-app --bin local");
        let mut command = Command::new(program);
        command.args(["--diagnostics", "--lease-ms", "1500", "--heartbeat-ms", "200", "--listen"]);
        command.arg(format!("127.0.0.1:{port}")).arg("--db").arg(folder.join("tasks.db")).args(flags);
        Self::start(&mut command, port)
    }

    /// A program that listens at this port soon.
    pub(crate) fn start(command: &mut Command, port: u16) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "the server has ended");
            assert!(begun.elapsed() < PATIENCE, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, url: format!("http://127.0.0.1:{port}/mcp") }
    }

    /// SIGKILL, as a crash or the out-of-memory killer would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A way to a server on which the answer to the first `tools/call` is lost: the server has got all of the request, and its
/// answer goes nowhere.
pub(crate) struct Lossy {
    pub(crate) url: String,
    has_lost: Arc<AtomicBool>,
}

impl Lossy {
    pub(crate) fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let has_lost = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&has_lost);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                pass(&client, &server, &lost);
            }
        });
        Self { url, has_lost }
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::SeqCst)
    }
}

fn pass(client: &TcpStream, server: &TcpStream, has_lost: &Arc<AtomicBool>) {
    let loses = Arc::new(AtomicBool::new(false));
    let there = (client.try_clone().unwrap(), server.try_clone().unwrap(), Arc::clone(&loses), Arc::clone(has_lost));
    std::thread::spawn(move || {
        let (mut client, mut server, loses, has_lost) = there;
        each_chunk(&mut client, |bytes| {
            let is_call = String::from_utf8_lossy(bytes).contains("mcp-method: tools/call");
            if is_call && !has_lost.swap(true, Ordering::SeqCst) {
                loses.store(true, Ordering::SeqCst);
            }
            server.write_all(bytes).is_ok()
        });
        drop(server.shutdown(Shutdown::Write));
    });
    let back = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let (mut client, mut server) = back;
        each_chunk(&mut server, |bytes| !loses.load(Ordering::SeqCst) && client.write_all(bytes).is_ok());
        drop(client.shutdown(Shutdown::Both));
    });
}

fn each_chunk(from: &mut TcpStream, mut take: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if !take(&buffer[..length]) {
            return;
        }
    }
}

/// Answers every request by HTTP as `answer` says: a status line, headers and a body.
pub(crate) fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(client);
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let header = line.to_lowercase();
                length = header.strip_prefix("content-length:").map_or(length, |length| length.trim().parse().unwrap());
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}
