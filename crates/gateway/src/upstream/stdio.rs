//! MCP over the standard input and output of a process.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use longhaul::SystemClock;
use longhaul_client::{Line, Lines, Overlong};
use longhaul_core::Clock;
use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdout;

use super::incoming::{Incoming, Open, Reader, beginning};
use super::notes::Notes;
use super::process::{Pipes, Stdin, ended};
use super::task_tools::TaskTools;
use super::watch::Watch;
use crate::limits;
use crate::verbatim;

/// MCP over the standard input and output of a process: one message a line. `rmcp` has a transport for child processes,
/// but it skips a line that is too long, so the call of that line would wait forever. It also does not notice the end
/// of a process whose output another process keeps open.
pub(crate) struct StdioTransport {
    server: String,
    process: i32,
    stdin: Stdin,
    lines: Lines<ChildStdout>,
    reader: Reader,
    /// The lines of a message so far that is written in several.
    begun: Vec<u8>,
    /// How long the line without an end was at the last pause: it is not read twice.
    paused_at: usize,
    /// Messages that are not handed over yet.
    read: VecDeque<ServerJsonRpcMessage>,
    notes: Notes,
    watch: Watch,
    task_tools: TaskTools,
    /// Whether it has written a line that is not a message.
    is_noisy: bool,
    /// The only request that was open when an answer with an unknown id came, and its end if no other answer comes
    /// until this time.
    misaddressed: Option<(RequestId, ServerJsonRpcMessage, BoxFuture<'static, ()>)>,
}

/// The latest output of the server.
enum Written {
    Line(Line),
    /// The beginning of a line, or of a message, and nothing more for a while.
    Pause,
    /// Nothing that answers the request for which an answer with an unknown id may have been meant.
    NoOtherAnswer,
}

impl StdioTransport {
    pub(super) fn new(server: &str, pipes: Pipes, watch: Watch, task_tools: TaskTools) -> Self {
        let Pipes { id: process, stdin, stdout, notes } = pipes;
        let lines = Lines::new(stdout, limits::LINE_BYTES_MAX, Overlong::Refused);
        let (begun, paused_at, read) = (Vec::new(), 0, VecDeque::new());
        let (server, reader) = (server.to_owned(), Reader::of(server));
        Self {
            server,
            process,
            stdin,
            lines,
            reader,
            begun,
            paused_at,
            read,
            notes,
            watch,
            task_tools,
            is_noisy: false,
            misaddressed: None,
        }
    }

    async fn line(lines: &mut Lines<ChildStdout>, process: i32) -> Line {
        tokio::select! {
            biased;
            line = lines.next() => return line,
            () = ended(process) => {}
        }
        // Others may keep its output open, but it does not answer any more.
        tokio::time::timeout(limits::LAST_OUTPUT, lines.next()).await.unwrap_or(Line::End)
    }

    /// If this is dropped before it returns, nothing is lost.
    async fn written(&mut self) -> Written {
        let Self { lines, process, begun, misaddressed, .. } = self;
        loop {
            let is_over = async {
                match misaddressed {
                    Some((_, _, until)) => until.await,
                    None => std::future::pending().await,
                }
            };
            let line = tokio::select! {
                biased;
                () = is_over => return Written::NoOtherAnswer,
                line = tokio::time::timeout(limits::REST_OF_MESSAGE, Self::line(lines, *process)) => line,
            };
            match line {
                Ok(line) => return Written::Line(line),
                Err(_pause) if begun.is_empty() && lines.begun().is_empty() => {}
                Err(_pause) => return Written::Pause,
            }
        }
    }

    /// Reads a line: a message, a part of one, or something that should have gone to standard error.
    fn read_line(&mut self, line: &[u8]) {
        let open = self.watch.open();
        match self.reader.read(line, &open) {
            Incoming::Messages(messages) => {
                self.drop_begun();
                self.task_tools.note_line(line);
                let misaddressed = messages.iter().find_map(|message| self.reader.misaddressed(line, message, &open));
                self.misaddressed =
                    misaddressed.map(|(id, end)| (id, end, no_other_answer())).or(self.misaddressed.take());
                self.read.extend(messages);
            }
            Incoming::Begun if self.begun.is_empty() => self.begun = line.to_vec(),
            Incoming::Begun | Incoming::Noise if !self.begun.is_empty() => self.read_more(line, &open),
            Incoming::Begun | Incoming::Noise => self.note_noise(line),
        }
    }

    /// Reads a message that is written in several lines, once it may be complete.
    fn read_more(&mut self, line: &[u8], open: &[Open]) {
        self.begun.push(b'\n');
        self.begun.extend_from_slice(line);
        if self.begun.len() > limits::LINE_BYTES_MAX {
            self.drop_begun();
            return;
        }
        // Messages that are written for people end at the beginning of a line.
        if !line.first().is_some_and(u8::is_ascii_whitespace) && line.trim_ascii_end().ends_with(b"}") {
            let begun = std::mem::take(&mut self.begun);
            match self.reader.read(&begun, open) {
                Incoming::Messages(messages) => {
                    self.task_tools.note_line(&begun);
                    self.read.extend(messages);
                }
                Incoming::Begun => self.begun = begun,
                Incoming::Noise => self.note_noise(&begun),
            }
        }
    }

    /// Handles a message that was begun when no more output comes, at least for a while.
    fn read_begun(&mut self) {
        let open = self.watch.open();
        if !self.begun.is_empty() {
            self.drop_begun();
        } else if self.lines.begun().len() != std::mem::replace(&mut self.paused_at, self.lines.begun().len())
            && self.lines.begun().trim_ascii_end().ends_with(b"}")
            && let Incoming::Messages(messages) = self.reader.read(self.lines.begun(), &open)
        {
            self.task_tools.note_line(&self.lines.take_begun());
            self.read.extend(messages);
        }
    }

    /// Gives up on a message that was begun. The request that waits for it gets an error.
    fn drop_begun(&mut self) {
        let begun = std::mem::take(&mut self.begun);
        if !begun.is_empty() {
            self.note_noise(&begun);
            self.read.extend(self.reader.give_up(&begun, &self.watch.open()));
        }
    }

    fn note_noise(&mut self, line: &[u8]) {
        self.watch.odd("it wrote a line that is not a message");
        if !std::mem::replace(&mut self.is_noisy, true) {
            let begins = beginning(line);
            self.notes.stderr(format!("on standard output: {begins}"));
            tracing::warn!(
                server = self.server,
                bytes = line.len(),
                begins,
                "a server writes lines that are not messages to its standard output; its processes are not kept"
            );
        }
    }

    /// Ends the request for which an answer with an unknown id may have been meant, unless it was answered.
    fn end_misaddressed(&mut self) {
        let misaddressed = self.misaddressed.take();
        let is_open = |id: &RequestId| self.watch.open().iter().any(|open| open.id == *id);
        self.read.extend(misaddressed.filter(|(id, ..)| is_open(id)).map(|(_, end, _)| end));
    }

    async fn read_to_end(&mut self) {
        while let Line::Text(_) = Self::line(&mut self.lines, self.process).await {}
    }
}

/// The time for another answer after one with an unknown id.
fn no_other_answer() -> BoxFuture<'static, ()> {
    Box::pin(async { SystemClock.sleep_ms(limits::OTHER_ANSWER_MS).await })
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (stdin, watch) = (Arc::clone(&self.stdin), self.watch.clone());
        async move {
            let mut line = verbatim::with_texts(serde_json::to_string(&message)?).into_bytes();
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
            if let Some(message) = self.read.pop_front() {
                return Some(message);
            }
            match self.written().await {
                Written::Pause => self.read_begun(),
                Written::NoOtherAnswer => self.end_misaddressed(),
                Written::Line(Line::Text(line)) => self.read_line(&line),
                Written::Line(Line::TooLong) => {
                    let most = limits::LINE_BYTES_MAX >> 20;
                    self.notes.because(format!("the server wrote a message of more than {most} MiB and was ended"));
                    return None;
                }
                Written::Line(Line::End) => {
                    self.drop_begun();
                    return self.read.pop_front();
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // A writer to a process that reads nothing holds the lock.
        if let Ok(mut stdin) = self.stdin.try_lock() {
            drop(stdin.take());
        }
        let ends_within = Duration::from_millis(2 * limits::END_GRACE_MS);
        // It may still be writing: many servers fail loudly when their output is not read. Signals end it if it does
        // not end on its own.
        drop(tokio::time::timeout(ends_within, self.read_to_end()).await);
        Ok(())
    }
}
