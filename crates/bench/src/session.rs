//! A client of revision `2025-06-18`, which all proxies speak: over Streamable HTTP, or to a process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use http::{HeaderName, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::connection::Connection;
use crate::servers::stdio::ANSWER;

const REVISION: &str = "2025-06-18";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

fn initialize() -> Value {
    let client = json!({"name": "bench", "version": "1"});
    let params = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

fn call(tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

fn check(answer: &[u8]) -> anyhow::Result<()> {
    let answer = String::from_utf8_lossy(answer);
    ensure!(answer.contains(ANSWER), "not the tool's answer: {answer}");
    Ok(())
}

/// A session over Streamable HTTP, on one keep-alive connection.
pub(crate) struct Session {
    connection: Connection,
    host: HeaderValue,
    session: Option<HeaderValue>,
}

impl Session {
    /// Connects and begins.
    pub(crate) async fn begin(address: SocketAddr) -> anyhow::Result<Self> {
        let connection = Connection::open(address).await?;
        let mut begun = Self { connection, host: HeaderValue::from_str(&address.to_string())?, session: None };
        let answer = begun.connection.exchange(begun.request(&initialize())?).await?;
        begun.session = answer.headers().get(SESSION).cloned();
        begun.connection.send(begun.request(&initialized())?).await?;
        Ok(begun)
    }

    /// Calls a tool of the server that answers at once.
    pub(crate) async fn call(&mut self, tool: &str) -> anyhow::Result<()> {
        check(&self.connection.send(self.request(&call(tool))?).await?)
    }

    fn request(&self, message: &Value) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::post("/mcp")
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"))
            .header("mcp-protocol-version", HeaderValue::from_static(REVISION));
        if let Some(session) = &self.session {
            request = request.header(SESSION, session);
        }
        Ok(request.body(Full::from(message.to_string()))?)
    }
}

/// The server that answers at once, as a child of this program.
pub(crate) struct Direct {
    _child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Direct {
    /// Starts it and begins.
    pub(crate) async fn begin(own: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(own);
        command.arg("serve-stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let stdin = child.stdin.take().context("no standard input")?;
        let stdout = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let mut begun = Self { _child: child, stdin, stdout };
        begun.write(&initialize()).await?;
        begun.read().await?;
        begun.write(&initialized()).await?;
        Ok(begun)
    }

    /// Calls a tool.
    pub(crate) async fn call(&mut self, tool: &str) -> anyhow::Result<()> {
        self.write(&call(tool)).await?;
        check(self.read().await?.as_bytes())
    }

    async fn write(&mut self, message: &Value) -> anyhow::Result<()> {
        Ok(self.stdin.write_all(format!("{message}\n").as_bytes()).await?)
    }

    async fn read(&mut self) -> anyhow::Result<String> {
        self.stdout.next_line().await?.context("the server has ended")
    }
}
