//! Servers that the command speaks to, each in a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a test waits for something that has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

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
        let mut command = harness::demo();
        command.args(["--diagnostics", "--lease-ms", "1500", "--heartbeat-ms", "200", "--listen"]);
        command.arg(format!("127.0.0.1:{port}")).arg("--db").arg(folder.join("tasks.db")).args(flags);
        Self::start(&mut command, port)
    }

    /// A program that listens at this port soon.
    pub(crate) fn start(command: &mut Command, port: u16) -> Self {
        Self::start_into(command, port, Stdio::null())
    }

    /// The same, and where its standard output goes.
    pub(crate) fn start_into(command: &mut Command, port: u16, output: Stdio) -> Self {
        let command = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null());
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

/// A way to a server on which the answer to the first `tools/call` is lost. The server has received the whole request,
/// and its answer goes nowhere.
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

/// A way to a server that can be cut: all connections that are open then break off.
pub(crate) struct Cable {
    pub(crate) url: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cable {
    pub(crate) fn cut(&self) {
        for end in self.open.lock().unwrap().drain(..) {
            // It may be closed already.
            drop(end.shutdown(Shutdown::Both));
        }
    }
}

pub(crate) fn cutting(port: u16) -> Cable {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let open = Arc::new(Mutex::new(Vec::new()));
    let ends = Arc::clone(&open);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // The server may be away. Then the connection ends, as it would without this.
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            ends.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
            let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || carry(client, server));
            std::thread::spawn(move || carry(back.0, back.1));
        }
    });
    Cable { url, open }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    each_chunk(&mut from, |bytes| to.write_all(bytes).is_ok());
    drop(to.shutdown(Shutdown::Both));
}

fn hide_discovery(mut client: TcpStream, mut server: TcpStream) {
    each_chunk(&mut client, |bytes| {
        let text = String::from_utf8_lossy(bytes).replace("server/discover", "server/nonsense");
        server.write_all(text.as_bytes()).is_ok()
    });
    drop(server.shutdown(Shutdown::Write));
}

/// A way to a server that hides its support of `2026-07-28`: a request that asks for it is turned into an unknown one.
pub(crate) fn without_discovery(port: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || hide_discovery(from, to));
            let (mut from, mut to) = (server, client);
            std::thread::spawn(move || {
                each_chunk(&mut from, |bytes| to.write_all(bytes).is_ok());
                drop(to.shutdown(Shutdown::Both));
            });
        }
    });
    url
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

/// The head of a request, with the names of its headers as `reqwest` writes them: in small letters.
fn head_of(reader: &mut impl BufRead) -> String {
    let mut head = String::new();
    while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
    head
}

/// Answers every request by HTTP as `answer` says: a status line, headers and a body.
pub(crate) fn answering(answer: &'static str) -> String {
    serve(move |_server, _head, _body| answer.to_owned()).0
}

/// Answers every request by HTTP with the result of `answer` for its body.
pub(crate) fn answering_with(answer: impl Fn(&str) -> String + Send + 'static) -> String {
    serve(move |_server, _head, body| answer(body)).0
}

/// Answers every request by HTTP with the result of `answer`. Its arguments are the server's own URL, without a path,
/// and the head of the request. The heads are returned.
pub(crate) fn serving(answer: impl Fn(&str, &str) -> String + Send + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
    serve(move |server, head, _body| answer(server, head))
}

/// The same with the result of `answer` for the head and the body.
pub(crate) fn answering_to(
    answer: impl Fn(&str, &str) -> String + Send + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    serve(move |_server, head, body| answer(head, body))
}

/// An answer with JSON.
pub(crate) fn json_of(status: &str, more: &str, body: &Value) -> String {
    let body = body.to_string();
    let kind = "content-type: application/json";
    format!("HTTP/1.1 {status}\r\n{more}{kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn serve(answer: impl Fn(&str, &str, &str) -> String + Send + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let (url, heads) = (format!("{server}/mcp"), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&heads);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(client);
            let head = head_of(&mut reader);
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            // A client may connect, and go without a word.
            if reader.read_exact(&mut body).is_ok() && !head.is_empty() {
                let text = answer(&server, &head, &String::from_utf8(body).unwrap());
                // The connection ends with the answer: a client that does not know that may lose its next request.
                let text = text.replacen("\r\n", "\r\nconnection: close\r\n", 1);
                // A client that has the answer may read the heads.
                seen.lock().unwrap().push(head);
                drop(reader.get_mut().write_all(text.as_bytes()));
            }
        }
    });
    (url, heads)
}
