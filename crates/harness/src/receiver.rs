//! A receiver of webhooks: it keeps what it is sent, and answers as the test says.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::tool;

/// A webhook as it came.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Its headers, by names in small letters.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: String,
}

impl Hook {
    /// The same for all tries to tell the same.
    pub fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    /// Its body, parsed.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a webhook is JSON")
    }
}

/// How a receiver answers.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// With this status and these header lines.
    Status(u16, &'static str),
    /// Not at all, for longer than any client waits.
    Hang,
    /// With one byte of the head every second.
    Drip,
}

/// Listens until the test ends.
pub struct Receiver {
    port: u16,
    hooks: Arc<Mutex<Vec<Hook>>>,
}

impl Receiver {
    /// One that answers each webhook, of which so many came before, as `reply` says.
    pub fn new(reply: impl Fn(usize, &Hook) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let hooks = Arc::<Mutex<Vec<Hook>>>::default();
        let (kept, reply) = (Arc::clone(&hooks), Arc::new(reply));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, reply) = (Arc::clone(&kept), Arc::clone(&reply));
                std::thread::spawn(move || serve(stream, &kept, &*reply));
            }
        });
        Self { port, hooks }
    }

    /// One that takes everything.
    pub fn that_takes_all() -> Self {
        Self::new(|_, _| Reply::Status(204, ""))
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    /// All that came so far.
    pub fn hooks(&self) -> Vec<Hook> {
        self.hooks.lock().unwrap().clone()
    }

    /// All that came, once `enough` says so.
    pub async fn until(&self, what: &str, enough: impl Fn(&[Hook]) -> bool) -> Vec<Hook> {
        for _ in 0..1_200 {
            let hooks = self.hooks();
            if enough(&hooks) {
                return hooks;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{what} did not come within two minutes: {:?}", self.hooks());
    }
}

fn serve(stream: TcpStream, hooks: &Mutex<Vec<Hook>>, reply: &dyn Fn(usize, &Hook) -> Reply) {
    let Some((_path, headers, body)) = read(&stream, "POST /hook ") else { return };
    let Ok(body) = String::from_utf8(body) else { return };
    let hook = Hook { headers, body };
    let before = {
        let mut hooks = hooks.lock().unwrap();
        hooks.push(hook.clone());
        hooks.len() - 1
    };
    let mut stream = stream;
    // The server may be gone.
    match reply(before, &hook) {
        Reply::Status(status, headers) => {
            drop(write!(stream, "HTTP/1.1 {status} Said\r\n{headers}content-length: 0\r\nconnection: close\r\n\r\n"));
        }
        Reply::Hang => std::thread::sleep(Duration::from_secs(120)),
        Reply::Drip => {
            for byte in "HTTP/1.1 200 OK\r\nx-slow: ".bytes().chain(std::iter::repeat_n(b'.', 90)) {
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_secs(1));
            }
        }
    }
}

/// The path, the headers and the body of a request whose first line begins like this.
pub(crate) fn read(stream: &TcpStream, begin: &str) -> Option<(String, BTreeMap<String, String>, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut headers = BTreeMap::new();
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|_| line.starts_with(begin))?;
    let path = line.split(' ').nth(1)?.to_owned();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((path, headers, body))
}

/// Has the library of Standard Webhooks for `language` verify webhooks with a secret; returns how many it verified.
pub fn verified(language: &str, secret: &str, hooks: &[Hook]) -> usize {
    // Standard error is its own: Node makes what it inherits non-blocking, and what the tests print would be lost.
    let mut command = Command::new(tool(&format!("verify-webhooks-{language}")));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut verifier = command.spawn().expect("the library can be run");
    let mut lines = verifier.stdin.take().unwrap();
    for hook in hooks {
        writeln!(lines, "{}", json!({"secret": secret, "headers": hook.headers, "body": hook.body})).unwrap();
    }
    drop(lines);
    let output = verifier.wait_with_output().unwrap();
    assert!(output.status.success(), "{language} refuses a webhook: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}
