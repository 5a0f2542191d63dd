//! MCP over the standard input and output of a process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use longhaul_client::{Line, Lines, Overlong, unreadable_answer};
use longhaul_core::strict_json;
use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdout;

use super::process::{Notes, Pipes, Stdin, ended};
use super::task_tools::TaskTools;
use super::watch::Watch;
use super::{UNREADABLE, failed, questions};
use crate::limits;

/// MCP over the standard input and output of a process: one message a line. `rmcp` has a transport for child processes,
/// but that one skips a line that is too long, so that its call would wait forever, and does not notice the end of a
/// process whose output somebody else keeps open.
pub(crate) struct StdioTransport {
    process: i32,
    stdin: Stdin,
    lines: Lines<ChildStdout>,
    notes: Notes,
    watch: Watch,
    task_tools: TaskTools,
    /// Whether it has written a line that is no message.
    is_noisy: bool,
}

impl StdioTransport {
    pub(super) fn new(pipes: Pipes, watch: Watch, task_tools: TaskTools) -> Self {
        let Pipes { id: process, stdin, stdout, notes } = pipes;
        let lines = Lines::new(stdout, limits::LINE_BYTES_MAX, Overlong::Refused);
        Self { process, stdin, lines, notes, watch, task_tools, is_noisy: false }
    }

    async fn line(&mut self) -> Line {
        tokio::select! {
            biased;
            line = self.lines.next() => return line,
            () = ended(self.process) => {}
        }
        // Others may keep its output open, but it does not answer any more.
        tokio::time::timeout(limits::LAST_OUTPUT, self.lines.next()).await.unwrap_or(Line::End)
    }

    fn read(&mut self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        let Some(message) = message(line) else {
            self.watch.odd("it wrote a line that is not a message");
            return self.answer_instead_of(line);
        };
        self.task_tools.note_line(line);
        Some(questions::checked(message, line))
    }

    /// The end of a request whose answer cannot be read: it gets no other one. Other lines should go to standard error,
    /// or to nobody.
    fn answer_instead_of(&mut self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        if !std::mem::replace(&mut self.is_noisy, true) {
            let (process, bytes) = (self.process, line.len());
            tracing::warn!(process, bytes, "a server writes lines that are not messages to its standard output");
        }
        let id = strict_json::from_value(unreadable_answer(line)?).ok()?;
        self.watch.waits_for(&id).then(|| ServerJsonRpcMessage::error(failed(UNREADABLE), Some(id)))
    }

    async fn read_to_end(&mut self) {
        while let Line::Text(_) = self.line().await {}
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (stdin, watch) = (Arc::clone(&self.stdin), self.watch.clone());
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut stdin = stdin.lock().await;
            let open = stdin.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            let is_request = matches!(message, JsonRpcMessage::Request(_));
            if is_request && !watch.may_write() {
                return Err(io::ErrorKind::NotConnected.into());
            }
            let written = match open.write(&line).await {
                Err(error) if is_request => {
                    watch.wrote_nothing();
                    return Err(error);
                }
                written => written?,
            };
            open.write_all(line.get(written..).unwrap_or_default()).await?;
            open.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = match self.line().await {
                Line::Text(line) => line,
                Line::TooLong => {
                    let most = limits::LINE_BYTES_MAX >> 20;
                    self.notes.because(format!("the server wrote a message of more than {most} MiB and was ended"));
                    return None;
                }
                Line::End => return None,
            };
            if let Some(message) = self.read(&line) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // Whoever writes to a process that reads nothing holds the lock.
        if let Ok(mut stdin) = self.stdin.try_lock() {
            drop(stdin.take());
        }
        let ends_within = Duration::from_millis(2 * limits::END_GRACE_MS);
        // It may still be writing: many servers fail loudly when nobody reads. Signals end it if it does not end by
        // itself.
        drop(tokio::time::timeout(ends_within, self.read_to_end()).await);
        Ok(())
    }
}

/// The message in a line. A list would be read by position.
fn message(line: &[u8]) -> Option<ServerJsonRpcMessage> {
    line.trim_ascii_start().starts_with(b"{").then(|| strict_json::from_slice(line).ok())?
}
