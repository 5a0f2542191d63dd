//! The authorization server of `tests/auth_server` in its own process, and the commands of a test to it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::tool;

/// A running authorization server. It ends when dropped, or when the test's process ends.
pub struct AuthServer {
    child: Child,
    /// Its standard error. Node makes what it inherits non-blocking, and what the tests print would be lost.
    said: File,
    issuer: String,
    control: String,
}

impl AuthServer {
    /// Starts one whose users may grant `mcp:tools` and `etl:run`.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts one with these additional flags.
    pub fn with(flags: &[&str]) -> Self {
        let mut command = Command::new(tool("auth-server"));
        command.args(["--control", "--until-stdin-closes", "--scopes", "mcp:tools etl:run"]).args(flags);
        let said = tempfile::tempfile().expect("a temporary file can be made");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said.try_clone().expect("it is open"));
        let mut child = command.spawn().expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut line).expect("it prints text");
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let url = |name: &str| ready[name].as_str().expect("it prints its URLs").to_owned();
        Self { child, said, issuer: url("issuer"), control: url("control") }
    }

    /// The issuer of its tokens; also its URL.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Lets it do something: see `tests/auth_server/control.mjs`.
    fn tell(&self, command: &Value) -> Value {
        let body = command.to_string();
        let authority = self.control.strip_prefix("http://").expect("it has no certificate");
        let mut connection = TcpStream::connect(authority).expect("it listens");
        let head = format!("POST / HTTP/1.0\r\nHost: {authority}\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.write_all((head + &body).as_bytes()).expect("it reads");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
        assert!(head.contains(" 200 "), "{command}: {body}");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// The access token that a client of `user` would get.
    pub fn issue(&self, user: &str, audience: &str, scopes: &str) -> String {
        self.token(&json!({"do": "issue", "user": user, "audience": audience, "scopes": scopes}))
    }

    /// Any token, well made or not: see `sign` in `tests/auth_server/control.mjs`.
    pub fn sign(&self, with: &str, header: Value, claims: Value) -> String {
        self.token(&json!({"do": "sign", "with": with, "header": header, "claims": claims}))
    }

    fn token(&self, command: &Value) -> String {
        self.tell(command)["token"].as_str().expect("it is a token").to_owned()
    }

    /// Changes a setting for the tokens that it issues from now on.
    pub fn set(&self, name: &str, value: Value) {
        self.tell(&json!({"do": "set", "settings": {name: value}}));
    }

    /// New keys sign from now on. The older ones stay published.
    pub fn rotate_keys(&self) {
        self.tell(&json!({"do": "rotate"}));
    }

    /// Only the newest keys are published from now on.
    pub fn withdraw_keys(&self) {
        self.tell(&json!({"do": "withdraw"}));
    }

    /// How often a path was requested so far.
    pub fn requests_of(&self, path: &str) -> u64 {
        self.tell(&json!({"do": "requests"}))[path].as_u64().unwrap_or(0)
    }

    /// Lets every request for a path fail: see `fail` in `tests/auth_server/server.mjs`.
    pub fn fail(&self, path: &str, how: Value) {
        let mut command = json!({"do": "fault", "path": path});
        command.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
        self.tell(&command);
    }

    /// Nothing fails any more.
    pub fn repair(&self) {
        self.tell(&json!({"do": "repair"}));
    }

    /// Refuses connections from now on.
    pub fn go_down(&self) {
        self.tell(&json!({"do": "down"}));
    }

    /// Takes connections again.
    pub fn come_up(&self) {
        self.tell(&json!({"do": "up"}));
    }
}

impl Drop for AuthServer {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
        let mut said = Vec::new();
        drop(self.said.rewind().and_then(|()| self.said.read_to_end(&mut said)));
        // Shown if the test fails.
        eprint!("{}", String::from_utf8_lossy(&said));
    }
}
