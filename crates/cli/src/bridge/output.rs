//! The output of the bridge: messages for the client, one a line, and nothing else.

use std::io;

use longhaul_client::Error;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::exit::Stop;
use crate::out;

/// The JSON-RPC error of a message that could not be passed on.
pub(super) const INTERNAL_ERROR: i64 = -32603;

/// So many messages wait to be written. Then the server has to wait too.
const LINES_MAX: usize = 64;

/// The way to the standard output. A line is written as a whole, even if its sender is dropped.
pub(super) struct Output(mpsc::Sender<String>);

impl Output {
    /// The sender, and the writer. The writer ends when no sender is left, or nothing can be written.
    pub(super) fn new() -> (Self, impl Future<Output = io::Result<()>>) {
        let (lines, to_write) = mpsc::channel(LINES_MAX);
        (Self(lines), write(to_write))
    }

    /// A message as it came. Its line breaks can only be between tokens of JSON, where a blank means the same.
    pub(super) async fn message(&self, text: &str) {
        let line = format!("{}\n", text.trim().replace(['\n', '\r'], " "));
        // The bridge ends if the client does not read.
        drop(self.0.send(line).await);
    }

    /// Answers a request with an error of the bridge's own.
    pub(super) async fn error(&self, id: &Value, code: i64, why: &str) {
        let error =
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": format!("longhaul bridge: {why}")}});
        self.message(&error.to_string()).await;
    }

    /// Answers a request that could not be passed on, and says so on the standard error.
    pub(super) async fn failed(&self, id: &Value, error: Error) {
        let why = explain(error);
        self.error(id, INTERNAL_ERROR, &why).await;
    }
}

/// An error for the client and for readers of the diagnostics.
pub(super) fn explain(error: Error) -> String {
    let why = out::line(&Stop::from(error).why);
    out::say(&format!("longhaul bridge: {why}"));
    why
}

async fn write(mut to_write: mpsc::Receiver<String>) -> io::Result<()> {
    let mut out = tokio::io::stdout();
    while let Some(line) = to_write.recv().await {
        out.write_all(line.as_bytes()).await?;
        out.flush().await?;
    }
    Ok(())
}
